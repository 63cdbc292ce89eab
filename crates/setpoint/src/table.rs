//! A server's Table, as lines.

use serde_json::Value;

use crate::terminal::{aligned, inert};

/// How kubectl parts columns.
pub(crate) const GAP: usize = 3;

/// The lines of a Table: its columns in capitals, then its rows. Columns of low priority are for the wide form, and the
/// namespace goes first where rows are of several.
pub(crate) fn lines(table: &Value, wide: bool, namespaces: bool) -> Vec<String> {
    let definitions = table["columnDefinitions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_shown = |column: &Value| wide || column["priority"].as_i64().unwrap_or_default() == 0;
    let shown: Vec<usize> = (0..definitions.len()).filter(|&index| is_shown(&definitions[index])).collect();
    let first = |text: &str| if namespaces { vec![text.to_owned()] } else { Vec::new() };

    let mut head = first("NAMESPACE");
    head.extend(shown.iter().map(|&index| cell(&definitions[index]["name"]).to_uppercase()));
    let mut rows = vec![head];
    for row in table["rows"].as_array().into_iter().flatten() {
        let mut cells = first(&cell(&row["object"]["metadata"]["namespace"]));
        cells.extend(shown.iter().map(|&index| cell(&row["cells"][index])));
        rows.push(cells);
    }
    aligned(&rows, GAP)
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => inert(text),
        other => inert(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_shows_what_was_asked_for() {
        let table = json!({
            "columnDefinitions": [
                {"name": "Name", "priority": 0}, {"name": "Up-to-date", "priority": 0}, {"name": "Images", "priority": 1},
            ],
            "rows": [
                {"cells": ["web", 3, "web:1"], "object": {"metadata": {"namespace": "shop"}}},
                {"cells": ["a-longer-name", null, "\u{1b}[2J"], "object": {"metadata": {"namespace": "default"}}},
            ],
        });
        let rows = [
            ("as it is", false, false, vec!["NAME            UP-TO-DATE", "web             3", "a-longer-name"]),
            (
                "wide",
                true,
                false,
                vec![
                    "NAME            UP-TO-DATE   IMAGES",
                    "web             3            web:1",
                    "a-longer-name                \\u001b[2J",
                ],
            ),
            (
                "of all namespaces",
                false,
                true,
                vec![
                    "NAMESPACE   NAME            UP-TO-DATE",
                    "shop        web             3",
                    "default     a-longer-name",
                ],
            ),
        ];
        for (row, wide, namespaces, expected) in rows {
            assert_eq!(lines(&table, wide, namespaces), expected, "{row}");
        }
        assert_eq!(lines(&json!({"rows": [{}]}), false, false), ["", ""], "what is no table shows nothing");
    }
}
