//! Finding the elements of a list by one of their fields: a list may be as long as a body.

use std::collections::HashMap;

use serde_json::Value;

/// The first element with each value of a field of text.
pub(super) fn first_by<'v>(list: &'v Value, field: &str) -> HashMap<&'v str, &'v Value> {
    keyed(list, field).rev().collect()
}

/// The last element with each value of a field of text.
pub(super) fn last_by<'v>(list: &'v Value, field: &str) -> HashMap<&'v str, &'v Value> {
    keyed(list, field).collect()
}

fn keyed<'v>(list: &'v Value, field: &str) -> impl DoubleEndedIterator<Item = (&'v str, &'v Value)> {
    let items: &'v [Value] = list.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().map(move |item| (item[field].as_str().unwrap_or_default(), item))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_or_the_last_is_found() {
        let list = json!([{"name": "a", "at": 0}, {"name": "b", "at": 1}, {"name": "a", "at": 2}, {"at": 3}]);
        for (name, first, last) in
            [("a", Some(0), Some(2)), ("b", Some(1), Some(1)), ("", Some(3), Some(3)), ("c", None, None)]
        {
            let at = |found: HashMap<&str, &Value>| found.get(name).and_then(|item| item["at"].as_i64());
            assert_eq!((at(first_by(&list, "name")), at(last_by(&list, "name"))), (first, last), "{name:?}");
        }
        assert!(first_by(&Value::Null, "name").is_empty());
    }
}
