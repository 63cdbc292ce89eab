//! Who made a version of an object, as far as its `managedFields` say.
//!
//! A write that takes a field, or takes it again, renews the entry of its writer. One that only loses fields is that of
//! somebody else, whose fields were taken or removed: that says nothing of who did it. So a version may have no known author.

use serde_json::Value;

/// An entry that the server makes for what was there before anybody applied; nobody wrote it.
const NOBODY: &str = "before-first-apply";

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Author {
    pub(super) manager: String,
    pub(super) operation: String,
    /// The part of the object that was written through; "" for the object itself.
    pub(super) subresource: String,
    pub(super) time: Option<String>,
}

/// Those whose entries in the newer version are new or renewed.
pub(super) fn authors(old: Option<&Value>, new: &Value) -> Vec<Author> {
    let before: Vec<&Value> = old.into_iter().flat_map(entries).collect();
    let wrote = |entry: &&Value| match before.iter().find(|before| identity(before) == identity(entry)) {
        Some(before) => before["time"] != entry["time"] || gains(&before["fieldsV1"], &entry["fieldsV1"]),
        None => entry["manager"] != NOBODY,
    };
    entries(new).filter(wrote).map(author).collect()
}

fn entries(object: &Value) -> impl Iterator<Item = &Value> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries.filter(|entry| entry["manager"].is_string())
}

fn identity(entry: &Value) -> [&Value; 4] {
    ["manager", "operation", "subresource", "apiVersion"].map(|field| &entry[field])
}

/// Whether something is owned that was not.
fn gains(old: &Value, new: &Value) -> bool {
    let mut fields = new.as_object().into_iter().flatten();
    fields.any(|(name, below)| old.get(name).is_none_or(|old| gains(old, below)))
}

fn author(entry: &Value) -> Author {
    let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    Author {
        manager: text("manager"),
        operation: text("operation"),
        subresource: text("subresource"),
        time: entry["time"].as_str().map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(entries: Value) -> Value {
        json!({"metadata": {"managedFields": entries}})
    }

    fn entry(manager: &str, time: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "time": time, "fieldsV1": fields})
    }

    #[test]
    fn who_renewed_an_entry_wrote() {
        let (a, ab) = (json!({"f:data": {"f:a": {}}}), json!({"f:data": {"f:a": {}, "f:b": {}}}));
        let mut scaled = entry("x", "1", a.clone());
        scaled["subresource"] = json!("scale");
        let one = || json!([entry("x", "1", a.clone())]);
        let rows = [
            ("the creator", None, one(), vec!["x"]),
            ("nobody says", None, Value::Null, vec![]),
            ("nothing is renewed", Some(one()), one(), vec![]),
            ("at another time", Some(one()), json!([entry("x", "2", a.clone())]), vec!["x"]),
            ("more fields in the same second", Some(one()), json!([entry("x", "1", ab.clone())]), vec!["x"]),
            (
                "somebody lost fields to somebody new",
                Some(json!([entry("x", "1", ab.clone())])),
                json!([entry("x", "1", a.clone()), entry("y", "2", json!({"f:data": {"f:b": {}}}))]),
                vec!["y"],
            ),
            ("fields were taken by who is not recorded", Some(json!([entry("x", "1", ab.clone())])), one(), vec![]),
            ("an entry went", Some(json!([entry("x", "1", a.clone()), entry("y", "1", ab)])), one(), vec![]),
            ("another part of the object", Some(one()), json!([entry("x", "1", a.clone()), scaled]), vec!["x"]),
            (
                "two at once",
                Some(one()),
                json!([entry("x", "2", a.clone()), entry("y", "2", a.clone())]),
                vec!["x", "y"],
            ),
            (
                "what was there before the first apply",
                Some(json!([])),
                json!([entry(NOBODY, "2", a.clone()), entry("x", "2", a.clone())]),
                vec!["x"],
            ),
            ("a record that is none", Some(json!("?")), json!([7, {}]), vec![]),
        ];
        for (row, old, new, expected) in rows {
            let (old, new) = (old.map(object), object(new));
            let found: Vec<String> = authors(old.as_ref(), &new).into_iter().map(|author| author.manager).collect();
            assert_eq!(found, expected, "{row}");
        }
    }

    #[test]
    fn an_author_is_told_in_full() {
        let mut apply = entry("ci", "2024-05-06T07:08:09Z", json!({}));
        (apply["operation"], apply["subresource"]) = (json!("Apply"), json!("status"));
        let time = Some("2024-05-06T07:08:09Z".to_owned());
        let expected = Author { manager: "ci".into(), operation: "Apply".into(), subresource: "status".into(), time };
        assert_eq!(authors(None, &object(json!([apply]))), [expected]);
    }
}
