//! Structural schemas in few words, so that large ones stay short to read.

use serde_json::{Map, Value, json};

/// A schema in the making.
#[derive(Debug, Clone)]
pub(super) struct Schema(Value);

/// A field and what it holds.
pub(super) type Field = (&'static str, Schema);

pub(super) fn object(fields: impl IntoIterator<Item = Field>) -> Schema {
    Schema(json!({"type": "object"})).and(fields)
}

pub(super) fn text() -> Schema {
    Schema(json!({"type": "string"}))
}

pub(super) fn integer() -> Schema {
    Schema(json!({"type": "integer", "format": "int64"}))
}

pub(super) fn boolean() -> Schema {
    Schema(json!({"type": "boolean"}))
}

pub(super) fn list(item: Schema) -> Schema {
    Schema(json!({"type": "array", "items": item.0}))
}

/// A list whose elements are told apart by these fields.
pub(super) fn keyed(keys: &[&str], item: Schema) -> Schema {
    let list = list(item.required(keys)).with("x-kubernetes-list-type", "map");
    list.with("x-kubernetes-list-map-keys", json!(keys))
}

pub(super) fn set(item: Schema) -> Schema {
    list(item).with("x-kubernetes-list-type", "set")
}

pub(super) fn map(value: Schema) -> Schema {
    Schema(json!({"type": "object", "additionalProperties": value.0}))
}

pub(super) fn int_or_text() -> Schema {
    Schema(json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}))
}

/// Anything at all.
pub(super) fn anything() -> Schema {
    Schema(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}))
}

/// A text field for every name.
pub(super) fn texts(names: &'static [&'static str]) -> impl Iterator<Item = Field> {
    names.iter().map(|name| (*name, text()))
}

pub(super) fn choice(values: &[&str]) -> Schema {
    text().with("enum", json!(values))
}

impl Schema {
    fn with(mut self, key: &str, value: impl Into<Value>) -> Schema {
        self.0[key] = value.into();
        self
    }

    /// The object with more fields. Each has a description, as generated definitions have.
    pub(super) fn and(mut self, fields: impl IntoIterator<Item = Field>) -> Schema {
        for (name, field) in fields {
            let about = format!("The {name} of this part. Where it is left out, what stands above it decides.");
            self.0["properties"][name] = field.with("description", about).0;
        }
        self
    }

    pub(super) fn required(self, names: &[&str]) -> Schema {
        self.with("required", json!(names))
    }

    pub(super) fn default(self, value: impl Into<Value>) -> Schema {
        self.with("default", value)
    }

    pub(super) fn pattern(self, pattern: &str) -> Schema {
        self.with("pattern", pattern)
    }

    pub(super) fn format(self, format: &str) -> Schema {
        self.with("format", format)
    }

    pub(super) fn between(self, least: i64, most: i64) -> Schema {
        self.with("minimum", least).with("maximum", most)
    }

    pub(super) fn longest(self, most: u64) -> Schema {
        self.with("maxLength", most)
    }

    pub(super) fn at_most(self, items: u64) -> Schema {
        self.with("maxItems", items)
    }

    pub(super) fn rule(mut self, rule: &str, message: &str) -> Schema {
        let rules = self.0.as_object_mut().map(|schema| schema.entry("x-kubernetes-validations").or_insert(json!([])));
        if let Some(Value::Array(rules)) = rules {
            rules.push(json!({"rule": rule, "message": message}));
        }
        self
    }

    pub(super) fn into_value(self) -> Value {
        self.0
    }
}

/// A definition of a kind in several versions, of which the first is stored.
pub(super) struct Definition {
    pub(super) group: &'static str,
    pub(super) kind: &'static str,
    pub(super) cluster: bool,
    pub(super) versions: Vec<Value>,
}

impl Definition {
    pub(super) fn plural(&self) -> String {
        let kind = self.kind.to_lowercase();
        if kind.ends_with('s') { format!("{kind}es") } else { format!("{kind}s") }
    }

    pub(super) fn name(&self) -> String {
        format!("{}.{}", self.plural(), self.group)
    }

    pub(super) fn into_value(self) -> Value {
        let mut versions = self.versions.clone();
        for (position, version) in versions.iter_mut().enumerate() {
            version["served"] = true.into();
            version["storage"] = (position == 0).into();
        }
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name()},
            "spec": {
                "group": self.group, "scope": if self.cluster { "Cluster" } else { "Namespaced" },
                "names": {
                    "kind": self.kind, "listKind": format!("{}List", self.kind),
                    "plural": self.plural(), "singular": self.kind.to_lowercase(),
                },
                "versions": versions,
            },
        })
    }
}

/// A version with a spec, and a status of conditions.
pub(super) fn version(name: &str, spec: Schema, status: Schema) -> Value {
    let spec = spec.with("description", "What is wanted.");
    let root = object([("spec", spec), ("status", status.and([("conditions", conditions())]))]).required(&["spec"]);
    json!({
        "name": name,
        "schema": {"openAPIV3Schema": root.into_value()},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    })
}

pub(super) fn conditions() -> Schema {
    let condition = object([
        ("type", text().longest(316)),
        ("status", choice(&["True", "False", "Unknown"])),
        ("reason", text().longest(1024)),
        ("message", text().longest(32768)),
        ("observedGeneration", integer()),
        ("lastTransitionTime", text().format("date-time")),
    ]);
    keyed(&["type"], condition).at_most(8)
}

/// How many fields a schema has, at all depths.
pub(super) fn fields(value: &Value) -> usize {
    match value {
        Value::Object(object) => {
            let own = object.get("properties").and_then(Value::as_object).map_or(0, Map::len);
            own + object.values().map(fields).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(fields).sum(),
        _ => 0,
    }
}
