//! What the columns of `kubectl get` have in common: names, ages, lists of labels.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::kind::Column;

/// What a cell shows for nothing.
pub const NONE: &str = "<none>";
/// What a cell shows for a time that was never set.
pub const UNKNOWN: &str = "<unknown>";

/// The first column of every kind.
pub const NAME: Column = Column {
    name: "Name",
    kind: "string",
    format: "name",
    description: "Name must be unique within a namespace. Is required when creating resources, although some resources \
         may allow a client to request the generation of an appropriate name automatically. Name is primarily intended \
         for creation idempotence and configuration definition. Cannot be updated. More info: \
         https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
    priority: 0,
};

/// The time since an object was created.
pub const AGE: Column = Column {
    name: "Age",
    kind: "string",
    format: "",
    description: "CreationTimestamp is a timestamp representing the server time when this object was created. It is not \
         guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is \
         represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: \
         https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
    priority: 0,
};

/// A column of text that is always shown.
pub const fn text(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 0 }
}

/// A column of text that only `-o wide` shows.
pub const fn wide(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 1 }
}

/// A column of whole numbers that is always shown.
pub const fn integer(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "integer", format: "", description, priority: 0 }
}

/// The cell of [`NAME`].
pub fn name_cell(object: &Value) -> Value {
    Value::from(object["metadata"]["name"].as_str().unwrap_or_default())
}

/// The cell of [`AGE`].
pub fn age_cell(object: &Value, now: Timestamp) -> Value {
    Value::from(age(object["metadata"]["creationTimestamp"].as_str().unwrap_or_default(), now))
}

/// How long ago a time was, in the two or three figures a person wants: `5s`, `3m2s`, `2d3h`.
pub fn age(since: &str, now: Timestamp) -> String {
    match since.parse::<Timestamp>() {
        Ok(since) => human_duration(now.duration_since(since)),
        Err(_) => UNKNOWN.to_owned(),
    }
}

/// A duration as `kubectl` shows it: coarser the longer it is.
pub fn human_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let pair = |large: i64, unit: char, small: i64, subunit: char| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{subunit}"),
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => pair(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 3 * 60 => format!("{minutes}m"),
        _ if hours < 8 => pair(hours, 'h', minutes % 60, 'm'),
        _ if hours < 2 * 24 => format!("{hours}h"),
        _ if days < 8 => pair(days, 'd', hours % 24, 'h'),
        _ if days < 2 * 365 => format!("{days}d"),
        _ if days < 8 * 365 => pair(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

/// A map of labels as `a=1,b=2`, or `<none>`.
pub fn labels(map: &Value) -> String {
    let pairs: Vec<String> =
        map.as_object().into_iter().flatten().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect();
    none_if_empty(pairs.join(","))
}

/// A selector of the form `{matchLabels, matchExpressions}` as the text a query would have, or `<none>`.
pub fn label_selector(selector: &Value) -> String {
    let Some(selector) = selector.as_object() else { return NONE.to_owned() };
    let equal = selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), format!("{key}={}", value.as_str().unwrap_or_default())));
    let expressions = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten().map(|e| {
        let key = e["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> = e["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let text = match e["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        };
        (key.to_owned(), text)
    });
    let mut requirements: Vec<(String, String)> = equal.chain(expressions).collect();
    requirements.sort_by(|a, b| a.0.cmp(&b.0));
    none_if_empty(requirements.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(","))
}

/// The text, or `<none>` for an empty one.
pub fn none_if_empty(text: String) -> String {
    if text.is_empty() { NONE.to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ages_lose_detail_as_they_grow() {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 60 * MINUTE;
        const DAY: i64 = 24 * HOUR;
        let rows = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * MINUTE, "2m"),
            (3 * MINUTE + 2, "3m2s"),
            (10 * MINUTE + 2, "10m"),
            (179 * MINUTE, "179m"),
            (3 * HOUR + 5 * MINUTE, "3h5m"),
            (8 * HOUR + 5 * MINUTE, "8h"),
            (2 * DAY + 3 * HOUR, "2d3h"),
            (8 * DAY + 3 * HOUR, "8d"),
            (2 * 365 * DAY + 3 * DAY, "2y3d"),
            (9 * 365 * DAY + 3 * DAY, "9y"),
        ];
        let now: Timestamp = "2030-01-01T00:00:00Z".parse().expect("a time");
        for (seconds, expected) in rows {
            let since = now - SignedDuration::from_secs(seconds);
            assert_eq!(age(&since.to_string(), now), expected);
        }
        assert_eq!(age("", now), UNKNOWN);
    }

    #[test]
    fn labels_and_selectors_read_as_queries() {
        assert_eq!(labels(&json!({"b": "2", "a": "1"})), "a=1,b=2");
        assert_eq!(labels(&Value::Null), NONE);
        let selector = json!({
            "matchLabels": {"b": "1"},
            "matchExpressions": [
                {"key": "c", "operator": "In", "values": ["y", "x"]},
                {"key": "a", "operator": "DoesNotExist"},
            ],
        });
        assert_eq!(label_selector(&selector), "!a,b=1,c in (x,y)");
        assert_eq!(label_selector(&json!({})), NONE);
        assert_eq!(label_selector(&Value::Null), NONE);
    }
}
