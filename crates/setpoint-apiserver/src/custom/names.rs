//! Which names a definition gets: those that no other kind of its group has.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::deletion::seconds;

/// The names that other kinds of a group have. Plurals, singulars and short names share one space, kinds and lists another.
#[derive(Debug, Clone, Default)]
pub struct Taken {
    pub resources: BTreeSet<String>,
    pub kinds: BTreeSet<String>,
}

impl Taken {
    /// Takes the names of a definition's `acceptedNames`.
    pub fn add(&mut self, names: &Value) {
        let texts = |fields: &[&str]| -> Vec<String> {
            fields.iter().filter_map(|field| names[field].as_str()).map(str::to_owned).collect()
        };
        self.resources.extend(texts(&["plural", "singular"]));
        self.resources.extend(short_names(names).into_iter().map(str::to_owned));
        self.kinds.extend(texts(&["kind", "listKind"]));
    }
}

/// Settles the names of a definition and says in its conditions how that went. Whether anything changed.
pub fn settle(definition: &mut Value, taken: &Taken, now: Timestamp) -> bool {
    let before = definition["status"].clone();
    let asked = definition["spec"]["names"].clone();
    let mut accepted = before["acceptedNames"].clone();
    let mut conflict = None;
    for (field, reason, taken) in [
        ("plural", "PluralConflict", &taken.resources),
        ("singular", "SingularConflict", &taken.resources),
        ("shortNames", "ShortNamesConflict", &taken.resources),
        ("kind", "KindConflict", &taken.kinds),
        ("listKind", "ListKindConflict", &taken.kinds),
    ] {
        if accepted.get(field) == asked.get(field) {
            continue;
        }
        let wanted =
            if field == "shortNames" { short_names(&asked) } else { asked[field].as_str().into_iter().collect() };
        let own = if field == "shortNames" { short_names(&accepted) } else { Vec::new() };
        let used: Vec<String> = wanted
            .iter()
            .filter(|name| !own.contains(name) && taken.contains(**name))
            .map(|name| format!("{name:?} is already in use"))
            .collect();
        match used.as_slice() {
            [] => copy(&mut accepted, &asked, field),
            [one] => conflict = Some((reason, one.clone())),
            many => conflict = Some((reason, format!("[{}]", many.join(", ")))),
        }
    }
    copy(&mut accepted, &asked, "categories");
    definition["status"]["acceptedNames"] = accepted;
    match conflict {
        Some((reason, message)) => {
            set_condition(definition, "NamesAccepted", false, reason, &message, now);
            if condition(definition, "Established").is_none() {
                set_condition(definition, "Established", false, "NotAccepted", "not all names are accepted", now);
            }
        }
        None => {
            set_condition(definition, "NamesAccepted", true, "NoConflicts", "no conflicts found", now);
            if !is_true(definition, "Established") {
                let message = "the initial names have been accepted";
                set_condition(definition, "Established", true, "InitialNamesAccepted", message, now);
            }
        }
    }
    definition["status"] != before
}

fn short_names(names: &Value) -> Vec<&str> {
    names["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn copy(to: &mut Value, from: &Value, field: &str) {
    match from.get(field) {
        Some(value) => to[field] = value.clone(),
        None => {
            to.as_object_mut().map(|to| to.remove(field));
        }
    }
}

/// A condition of a definition, if it has it.
pub fn condition<'v>(definition: &'v Value, kind: &str) -> Option<&'v Value> {
    definition["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

pub fn is_true(definition: &Value, kind: &str) -> bool {
    condition(definition, kind).is_some_and(|condition| condition["status"] == "True")
}

/// Sets a condition; its time moves when its status does.
pub fn set_condition(definition: &mut Value, kind: &str, status: bool, reason: &str, message: &str, now: Timestamp) {
    let status = if status { "True" } else { "False" };
    let since = condition(definition, kind).filter(|known| known["status"] == status);
    let since = since.map_or_else(|| Value::from(seconds(now)), |known| known["lastTransitionTime"].clone());
    let new = json!({
        "type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
    });
    let conditions = &mut definition["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    match conditions.iter_mut().find(|condition| condition["type"] == kind) {
        Some(known) => *known = new,
        None => conditions.push(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> Value {
        let names = json!({
            "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList",
            "shortNames": ["wd", "w"],
        });
        json!({"spec": {"names": names}, "status": {"conditions": null, "acceptedNames": {"plural": "", "kind": ""}}})
    }

    fn now() -> Timestamp {
        "2030-01-01T00:00:00Z".parse().expect("a time")
    }

    #[test]
    fn names_that_are_free_are_accepted() {
        let mut widgets = definition();
        assert!(settle(&mut widgets, &Taken::default(), now()));
        assert_eq!(widgets["status"]["acceptedNames"], widgets["spec"]["names"]);
        assert!(is_true(&widgets, "NamesAccepted") && is_true(&widgets, "Established"));
        assert!(!settle(&mut widgets, &Taken::default(), now()), "settled once, it stays");
    }

    #[test]
    fn names_that_others_have_are_not() {
        let rows = [
            ("the plural", json!({"singular": "widgets"}), "PluralConflict", r#""widgets" is already in use"#),
            ("a short name", json!({"shortNames": ["w"]}), "ShortNamesConflict", r#""w" is already in use"#),
            (
                "two short names",
                json!({"shortNames": ["w", "wd"]}),
                "ShortNamesConflict",
                r#"["wd" is already in use, "w" is already in use]"#,
            ),
            ("the kind", json!({"kind": "Widget"}), "KindConflict", r#""Widget" is already in use"#),
            ("the list", json!({"kind": "WidgetList"}), "ListKindConflict", r#""WidgetList" is already in use"#),
        ];
        for (name, others, reason, message) in rows {
            let mut taken = Taken::default();
            taken.add(&others);
            let mut widgets = definition();
            settle(&mut widgets, &taken, now());
            let accepted = condition(&widgets, "NamesAccepted").expect("a condition");
            assert_eq!(
                (accepted["reason"].as_str(), accepted["message"].as_str()),
                (Some(reason), Some(message)),
                "{name}"
            );
            assert_eq!(
                condition(&widgets, "Established").map(|c| c["reason"].clone()),
                Some(json!("NotAccepted")),
                "{name}"
            );
            assert!(settle(&mut widgets, &Taken::default(), now()), "{name}: it gets the name when it is free");
            assert!(is_true(&widgets, "Established"), "{name}");
        }
    }
}
