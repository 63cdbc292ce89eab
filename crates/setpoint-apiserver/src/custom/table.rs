//! The columns of a custom resource in a table.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::json_path::JsonPath;
use crate::columns;

/// A column that a definition asks for.
#[derive(Debug)]
pub struct PrinterColumn {
    name: Box<str>,
    kind: Box<str>,
    format: Box<str>,
    description: Box<str>,
    priority: i64,
    /// None if it is not understood; the column is empty then.
    path: Option<JsonPath>,
}

impl PrinterColumn {
    /// The columns of a version; the age if it names none.
    pub fn all(version: &Value) -> Box<[PrinterColumn]> {
        match version["additionalPrinterColumns"].as_array().filter(|columns| !columns.is_empty()) {
            Some(columns) => columns.iter().map(PrinterColumn::new).collect(),
            None => [PrinterColumn::new(&json!({
                "name": "Age",
                "type": "date",
                "description": columns::AGE.description,
                "jsonPath": ".metadata.creationTimestamp",
            }))]
            .into(),
        }
    }

    fn new(column: &Value) -> PrinterColumn {
        let text = |name: &str| column[name].as_str().unwrap_or_default();
        PrinterColumn {
            name: text("name").into(),
            kind: text("type").into(),
            format: text("format").into(),
            description: match text("description") {
                "" => format!("Custom resource definition column (in JSONPath format): {}", text("jsonPath")).into(),
                description => description.into(),
            },
            priority: column["priority"].as_i64().unwrap_or(0),
            path: JsonPath::parse(text("jsonPath")),
        }
    }

    pub fn definition(&self) -> Value {
        let PrinterColumn { name, kind, format, description, priority, .. } = self;
        json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
    }

    pub fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let found = self.path.as_ref().and_then(|path| path.first(object)).filter(|value| !value.is_null());
        let Some(value) = found else { return Value::Null };
        match (&*self.kind, value) {
            ("string", Value::String(_)) => value.clone(),
            ("string", value) => value.to_string().into(),
            ("integer", Value::Number(number)) => {
                number.as_i64().or(number.as_f64().map(|float| float as i64)).map_or(Value::Null, Value::from)
            }
            ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
            ("date", Value::String(time)) => match time.parse::<Timestamp>() {
                Ok(_) => columns::age(time, now).into(),
                Err(_) => "<invalid>".into(),
            },
            _ => Value::Null,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_of_its_columns_type() {
        let object = json!({"n": 2.5, "i": 3, "t": "x", "b": true, "l": [1], "when": "2030-01-01T00:00:00Z"});
        let now = "2030-01-01T00:01:00Z".parse().expect("a time");
        let rows = [
            ("string", ".t", json!("x")),
            ("string", ".i", json!("3")),
            ("string", ".l", json!("[1]")),
            ("string", ".absent", Value::Null),
            ("integer", ".i", json!(3)),
            ("integer", ".n", json!(2)),
            ("integer", ".t", Value::Null),
            ("number", ".n", json!(2.5)),
            ("boolean", ".b", json!(true)),
            ("boolean", ".t", Value::Null),
            ("date", ".when", json!("60s")),
            ("date", ".t", json!("<invalid>")),
        ];
        for (kind, path, expected) in rows {
            let column = PrinterColumn::new(&json!({"name": "c", "type": kind, "jsonPath": path}));
            assert_eq!(column.cell(&object, now), expected, "{kind} {path}");
        }
    }
}
