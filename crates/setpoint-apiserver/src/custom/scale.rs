//! Where a custom object has its replicas, for its `scale` subresource.

use serde_json::Value;

use setpoint_api::field::{Errors, Path};

/// The paths of a scale, as a definition gives them.
#[derive(Debug, Clone)]
pub struct ScalePaths {
    pub spec_replicas: FieldPath,
    pub status_replicas: FieldPath,
    pub selector: Option<FieldPath>,
}

/// A path of plain fields, such as `.spec.replicas`.
#[derive(Debug, Clone)]
pub struct FieldPath {
    pub text: Box<str>,
    fields: Box<[Box<str>]>,
}

impl FieldPath {
    pub fn new(text: &str) -> FieldPath {
        let fields = text.strip_prefix('.').unwrap_or(text).split('.').map(Into::into).collect();
        FieldPath { text: text.into(), fields }
    }

    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|field| &**field)
    }

    pub fn find<'v>(&self, object: &'v Value) -> Option<&'v Value> {
        self.fields().try_fold(object, |value, field| value.get(field))
    }

    /// Sets the value, and makes the objects around it.
    pub fn set(&self, object: &mut Value, value: Value) {
        let mut at = object;
        for field in self.fields() {
            if !at.is_object() {
                *at = Value::Object(serde_json::Map::new());
            }
            at = &mut at[field];
        }
        *at = value;
    }
}

impl ScalePaths {
    pub fn parse(version: &Value) -> Option<ScalePaths> {
        let scale = version["subresources"].get("scale").filter(|scale| scale.is_object())?;
        let path = |name: &str| scale[name].as_str().filter(|path| !path.is_empty()).map(FieldPath::new);
        Some(ScalePaths {
            spec_replicas: path("specReplicasPath")?,
            status_replicas: path("statusReplicasPath")?,
            selector: path("labelSelectorPath"),
        })
    }

    pub fn validate_spec(&self, object: &Value, errors: &mut Errors) {
        validate_replicas(&self.spec_replicas, object, errors);
    }

    pub fn validate_status(&self, object: &Value, errors: &mut Errors) {
        validate_replicas(&self.status_replicas, object, errors);
        let Some(path) = &self.selector else { return };
        if let Some(value) = path.find(object).filter(|value| !value.is_string()) {
            let detail = accessor_error(path, value, "string");
            errors.invalid(&Path::of(&path.text), "", &detail);
        }
    }
}

fn validate_replicas(path: &FieldPath, object: &Value, errors: &mut Errors) {
    let Some(value) = path.find(object) else { return };
    let at = Path::of(&path.text);
    match value.as_i64() {
        None => errors.invalid(&at, 0, &accessor_error(path, value, "int64")),
        Some(replicas) if replicas < 0 => errors.invalid(&at, replicas, "should be a non-negative integer"),
        Some(replicas) if replicas > i64::from(i32::MAX) => {
            errors.invalid(&at, replicas, &format!("should be less than or equal to {}", i32::MAX));
        }
        Some(_) => {}
    }
}

/// How Kubernetes says that a field is of another type than it read it as.
fn accessor_error(path: &FieldPath, value: &Value, expected: &str) -> String {
    let found = match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    format!("{} accessor error: {shown} is of the type {found}, expected {expected}", path.text)
}
