//! The history of an object, to be read by people or by programs.

use serde_json::{Value, json};

use super::author::{Author, authors};
use crate::change::{Change, Edit, changes};
use crate::get::revision;
use crate::terminal::{aligned, inert};

/// How much of a value is shown in a line.
const LONGEST_VALUE: usize = 60;

/// A version of an object, and what made it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    revision: u64,
    time: Option<String>,
    authors: Vec<Author>,
    /// `None` for the version that was made first.
    changes: Option<Vec<Change>>,
}

impl Entry {
    /// What made the newer version; the first if there is no older.
    pub(super) fn between(old: Option<&Value>, new: &Value) -> Entry {
        let authors = authors(old, new);
        let created = new["metadata"]["creationTimestamp"].as_str().filter(|_| old.is_none()).map(str::to_owned);
        // Times are written alike, so the order of their text is theirs.
        let time = authors.iter().filter_map(|author| author.time.clone()).max().or(created);
        let changes = old.map(|old| changes(old, new));
        Entry { revision: revision(new).unwrap_or_default(), time, authors, changes }
    }
}

/// What is known of an object's past, newest first.
#[derive(Debug)]
pub(super) struct Report {
    /// `deployment.apps/web`.
    pub(super) object: String,
    pub(super) namespace: Option<String>,
    pub(super) entries: Vec<Entry>,
    pub(super) end: End,
}

/// Where a report ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The object's creation.
    Created,
    /// History holds nothing older than this revision; since when it does, in the server's words.
    Forgotten(u64, String),
    /// More was not asked for; the next to look at is this revision.
    Enough(u64),
}

impl Report {
    pub(super) fn text(&self) -> String {
        let place = self.namespace.as_ref().map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
        let mut text = inert(&format!("{}{place}", self.object)) + "\n";
        for entry in &self.entries {
            text += "\n";
            text += &block(entry).join("\n");
            text += "\n";
        }
        match &self.end {
            End::Created => {}
            End::Forgotten(revision, since) => {
                text += &format!("\nrevision {revision} and older changes are no longer in history ({since})\n");
            }
            End::Enough(revision) => text += &format!("\nolder changes: --at {revision}\n"),
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        let begins = match &self.end {
            End::Created => "created",
            End::Forgotten(..) => "forgotten",
            End::Enough(_) => "limited",
        };
        let entries: Vec<Value> = self.entries.iter().map(entry_json).collect();
        json!({"object": self.object, "namespace": self.namespace, "entries": entries, "ends": begins})
    }
}

fn block(entry: &Entry) -> Vec<String> {
    let time = entry.time.as_deref().map_or_else(|| "time unknown".to_owned(), inert);
    let by: Vec<String> = entry.authors.iter().map(who).collect();
    let by = if by.is_empty() { "unknown".to_owned() } else { by.join(", ") };
    let mut lines = vec![format!("revision {}   {time}   {by}", entry.revision)];
    match &entry.changes {
        None => lines.push("  created".to_owned()),
        Some(changes) if changes.is_empty() => lines.push("  no field; only who owns which".to_owned()),
        Some(changes) => {
            let rows: Vec<Vec<String>> = changes.iter().map(row).collect();
            lines.extend(aligned(&rows, 2).into_iter().map(|line| format!("  {line}")));
        }
    }
    lines
}

/// `kubectl (Update)` or `kubectl (Update of scale)`.
fn who(author: &Author) -> String {
    let part = if author.subresource.is_empty() { String::new() } else { format!(" of {}", author.subresource) };
    inert(&format!("{} ({}{part})", author.manager, author.operation))
}

fn row(change: &Change) -> Vec<String> {
    let path = match change.edit {
        Edit::Added => format!("+ {}", change.path),
        Edit::Changed => format!("~ {}", change.path),
        Edit::Removed => format!("- {}", change.path),
    };
    let value = match (&change.values, change.edit) {
        (None, edit) => word(edit).to_owned(),
        (Some((_, new)), Edit::Added) => shown(new),
        (Some((old, _)), Edit::Removed) => shown(old),
        (Some((old, new)), Edit::Changed) => format!("{} → {}", shown(old), shown(new)),
    };
    vec![path, value]
}

/// A value as JSON on one line, cut where it is long.
fn shown(value: &Value) -> String {
    let text = inert(&value.to_string());
    match text.char_indices().nth(LONGEST_VALUE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn word(edit: Edit) -> &'static str {
    match edit {
        Edit::Added => "added",
        Edit::Changed => "changed",
        Edit::Removed => "removed",
    }
}

fn entry_json(entry: &Entry) -> Value {
    let by: Vec<Value> = entry
        .authors
        .iter()
        .map(|author| {
            let Author { manager, operation, subresource, time } = author;
            json!({"manager": manager, "operation": operation, "subresource": subresource, "time": time})
        })
        .collect();
    let event = if entry.changes.is_some() { "changed" } else { "created" };
    let changes: Vec<Value> = entry.changes.iter().flatten().map(change_json).collect();
    json!({"revision": entry.revision, "time": entry.time, "event": event, "by": by, "changes": changes})
}

fn change_json(change: &Change) -> Value {
    let mut json = json!({"path": change.path, "edit": word(change.edit)});
    if let Some((old, new)) = &change.values {
        if change.edit != Edit::Added {
            json["old"] = old.clone();
        }
        if change.edit != Edit::Removed {
            json["new"] = new.clone();
        }
    }
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(revision: u32, managers: Value, spec: Value) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "spec": spec,
            "metadata": {
                "name": "web", "resourceVersion": revision.to_string(),
                "creationTimestamp": "2024-05-06T07:00:00Z", "managedFields": managers,
            },
        })
    }

    fn entry(manager: &str, operation: &str, subresource: &str, time: &str) -> Value {
        let time = format!("2024-05-06T{time}Z");
        json!({"manager": manager, "operation": operation, "subresource": subresource, "time": time, "fieldsV1": {}})
    }

    fn report(end: End) -> Report {
        let create = entry("kubectl-create", "Update", "", "07:00:00");
        let scale = entry("kubectl", "Update", "scale", "07:05:00");
        let apply = entry("ci\u{1b}[31m", "Apply", "", "07:06:00");
        let versions = [
            version(9, json!([create, scale, apply]), json!({"replicas": 3, "note": "x".repeat(100)})),
            version(7, json!([create, scale]), json!({"replicas": 3, "paused": true})),
            version(6, json!([create]), json!({"replicas": 2, "paused": true})),
            version(5, json!([create]), json!({"replicas": 2})),
            version(3, json!([create]), json!({"replicas": 2})),
            version(2, json!([]), json!({})),
        ];
        let older = versions.iter().skip(1).map(Some).chain([None]);
        let entries = versions.iter().zip(older).map(|(new, old)| Entry::between(old, new)).collect();
        Report { object: "deployment.apps/web".into(), namespace: Some("shop".into()), entries, end }
    }

    #[test]
    fn a_report_reads_from_the_newest() {
        let expected = format!(
            "\
deployment.apps/web in namespace shop

revision 9   2024-05-06T07:06:00Z   ci\\u001b[31m (Apply)
  + spec.note    \"{}…
  - spec.paused  true

revision 7   2024-05-06T07:05:00Z   kubectl (Update of scale)
  ~ spec.replicas  2 → 3

revision 6   time unknown   unknown
  + spec.paused  true

revision 5   time unknown   unknown
  no field; only who owns which

revision 3   2024-05-06T07:00:00Z   kubectl-create (Update)
  + spec.replicas  2

revision 2   2024-05-06T07:00:00Z   unknown
  created
",
            "x".repeat(LONGEST_VALUE - 1)
        );
        assert_eq!(report(End::Created).text(), expected);
    }

    #[test]
    fn a_report_says_why_it_ends() {
        for (end, last) in [
            (
                End::Forgotten(2, "history begins at revision 4".into()),
                "revision 2 and older changes are no longer in history (history begins at revision 4)",
            ),
            (End::Enough(2), "older changes: --at 2"),
        ] {
            assert_eq!(report(end).text().lines().last(), Some(last));
        }
    }

    #[test]
    fn programs_read_the_same() {
        let json = report(End::Created).json();
        assert_eq!((&json["object"], &json["ends"]), (&json!("deployment.apps/web"), &json!("created")));
        let by = [entry("kubectl", "Update", "scale", "07:05:00")].map(|mut entry| {
            entry.as_object_mut().expect("an entry is an object").remove("fieldsV1");
            entry
        });
        let expected = json!({
            "revision": 7, "time": "2024-05-06T07:05:00Z", "event": "changed", "by": by,
            "changes": [{"path": "spec.replicas", "edit": "changed", "old": 2, "new": 3}],
        });
        assert_eq!(json["entries"][1], expected);
        assert_eq!((&json["entries"][2]["by"], &json["entries"][2]["time"]), (&json!([]), &Value::Null));
        assert_eq!(json["entries"][5]["event"], "created");
    }
}
