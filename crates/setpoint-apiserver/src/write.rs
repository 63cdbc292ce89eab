//! The way of an object from a client's body to what is stored: decode, default, prepare, validate.
//!
//! Everything here is pure; time, ids and random names come in as a [`Stamp`].

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::custom::CustomKind;
use crate::deletion::seconds;
use crate::failure::{Failure, Result};
use crate::kind::Part;
use crate::object_meta;
use crate::object_size;
use crate::query::FieldValidation;
use crate::registry::{Resource, text_at};
use crate::schema::{self, Body, DecodeError, Format};
use setpoint_api::field::{Errors, Node, Path};

/// What a new object gets that its writer cannot choose.
#[derive(Debug, Clone)]
pub struct Stamp {
    pub now: Timestamp,
    pub uid: String,
    /// What is appended to a `generateName`.
    pub suffix: String,
}

/// An object as it was sent, checked against its schema, in the form it is stored in; and what to tell its writer.
#[derive(Debug)]
pub struct Decoded {
    pub object: Value,
    pub warnings: Vec<String>,
}

/// Reads a body as an object of this resource.
pub fn decode(resource: &Resource, body: Body<'_>, validation: FieldValidation) -> Result<Decoded> {
    if body.format == Format::Protobuf && (resource.custom.is_some() || resource.is_definitions()) {
        return Err(Failure::unsupported_body());
    }
    if let Some(custom) = &resource.custom {
        return decode_custom(resource, custom, body, validation);
    }
    let decoded = match body.decode(&resource.schema) {
        Ok(decoded) => decoded,
        Err(error) => {
            let stated = body.type_meta().map_err(|error| unrecognized(resource, body, &error))?;
            check_type(resource, &stated.kind, &stated.api_version)?;
            return Err(unhandled(resource, &error.to_string()));
        }
    };
    let mut object = decoded.object;
    check_type(resource, text_at(&object, &["kind"]), text_at(&object, &["apiVersion"]))?;
    object["kind"] = resource.kind.as_ref().into();
    object["apiVersion"] = resource.api_version().into();
    if object.get("metadata").is_none() {
        object["metadata"] = json!({});
    }
    let warnings = judge(decoded.remarks, validation).map_err(|why| unhandled(resource, &why))?;
    Ok(Decoded { object: resource.behaviour.to_stored(object), warnings })
}

/// Reads a body as a custom object. Whether its fields are what its schema asks for is looked at later.
fn decode_custom(
    resource: &Resource,
    custom: &CustomKind,
    body: Body<'_>,
    validation: FieldValidation,
) -> Result<Decoded> {
    let decoded = body.decode_any().map_err(|error| unrecognized(resource, body, &error))?;
    if !decoded.object.is_object() {
        return Err(unhandled(resource, "an object is needed"));
    }
    check_custom_type(resource, &decoded.object)?;
    let mut decoded = custom.decode(decoded).map_err(|error| unhandled(resource, &error.to_string()))?;
    if !decoded.object["metadata"].is_object() {
        decoded.object["metadata"] = json!({});
    }
    let warnings = judge(decoded.remarks, validation).map_err(|why| unhandled(resource, &why))?;
    Ok(Decoded { object: decoded.object, warnings })
}

/// A custom object says what it is, and that is what is served under its path.
fn check_custom_type(resource: &Resource, object: &Value) -> Result<()> {
    let (kind, version) = (text_at(object, &["kind"]), text_at(object, &["apiVersion"]));
    if kind.is_empty() {
        return Err(Failure::bad_request("Object 'Kind' is missing in the request body"));
    }
    if version != resource.api_version() {
        return Err(Failure::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({})",
            resource.api_version()
        )));
    }
    if kind != resource.kind {
        let mut errors = Errors::default();
        errors.invalid(&Path::of("kind"), kind, &format!("must be {}", resource.kind));
        let name = text_at(object, &["metadata", "name"]);
        return Err(Failure::invalid_kind(&resource.group, kind, name, errors));
    }
    Ok(())
}

/// Checks the result of a patch against the schema.
pub fn decode_patched(resource: &Resource, object: &Value, validation: FieldValidation) -> Result<Decoded> {
    // Kubernetes repeats the whole object here. It may be a Secret, and an error is logged in many places.
    let refused = |why: &str| {
        let mut errors = Errors::default();
        errors.invalid(&Path::of("patch"), "(the patched object)", why);
        Failure::invalid_kind("", "", "", errors)
    };
    if text_at(object, &["kind"]) != resource.kind || text_at(object, &["apiVersion"]) != resource.api_version() {
        return Err(refused("kind and apiVersion cannot be changed"));
    }
    let decoded = match &resource.custom {
        Some(custom) => custom.decode(schema::Decoded { object: object.clone(), remarks: Vec::new() }),
        None => resource.schema.decode(object),
    };
    let decoded = decoded.map_err(|error| refused(&error.to_string()))?;
    let warnings = judge(decoded.remarks, validation).map_err(|why| refused(&why))?;
    Ok(Decoded { object: resource.behaviour.to_stored(decoded.object), warnings })
}

fn judge(remarks: Vec<String>, validation: FieldValidation) -> std::result::Result<Vec<String>, String> {
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Strict if !remarks.is_empty() => Err(format!("strict decoding error: {}", remarks.join(", "))),
        FieldValidation::Warn | FieldValidation::Strict => Ok(remarks),
    }
}

/// Refuses an object of another kind or version. What is not stated is taken to be right.
fn check_type(resource: &Resource, kind: &str, version: &str) -> Result<()> {
    let wanted = resource.kind.as_ref();
    if (kind.is_empty() || kind == wanted) && (version.is_empty() || version == resource.api_version()) {
        return Ok(());
    }
    let (group, short) = version.split_once('/').unwrap_or(("", version));
    if kind == wanted && group == resource.group && !group.is_empty() {
        return Err(Failure::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({})",
            resource.api_version()
        )));
    }
    let why = if kind == wanted {
        format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/api/legacyscheme/scheme.go:30\""
        )
    } else {
        let group =
            if resource.group.is_empty() { "core" } else { resource.group.split('.').next().unwrap_or_default() };
        format!("converting ({short}.{kind}) to ({group}.{wanted}): unknown conversion")
    };
    Err(Failure::bad_request(format!("{kind} in version {short:?} cannot be handled as a {wanted}: {why}")))
}

fn unhandled(resource: &Resource, why: &str) -> Failure {
    let (kind, version) = (&resource.kind, &resource.version);
    Failure::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
}

fn unrecognized(resource: &Resource, body: Body<'_>, error: &DecodeError) -> Failure {
    let shown = match body.bytes {
        [] => "<empty>".to_owned(),
        _ if resource.is_secrets() => "<secret contents redacted>".to_owned(),
        bytes => hex(bytes),
    };
    let why = match body.format {
        Format::Json if body.bytes.trim_ascii().is_empty() => "unexpected end of JSON input".to_owned(),
        _ => error.to_string(),
    };
    let why =
        if body.format == Format::Json { format!("couldn't get version/kind; json parse error: {why}") } else { why };
    Failure::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {why} ({shown})",
        resource.kind
    ))
}

/// Puts the request's namespace into the object, or refuses an object of another one.
pub fn place(resource: &Resource, namespace: Option<&str>, object: &mut Value) -> Result<()> {
    let given = text_at(object, &["metadata", "namespace"]).to_owned();
    let metadata = metadata(object);
    match namespace {
        Some(namespace) if given.is_empty() || given == namespace => {
            metadata.insert("namespace".to_owned(), namespace.into());
            Ok(())
        }
        None if given.is_empty() || !resource.namespaced => {
            metadata.remove("namespace");
            Ok(())
        }
        _ => Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
    }
}

/// Gives a new object what it does not have: server-side metadata and defaults.
pub fn begin_create(resource: &Resource, object: &mut Value, stamp: &Stamp) -> Result<()> {
    if !text_at(object, &["metadata", "resourceVersion"]).is_empty() {
        return Err(Failure::bad_request("resourceVersion should not be set on objects to be created"));
    }
    let fields = metadata(object);
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion", "managedFields"] {
        fields.remove(field);
    }
    fields.insert("uid".to_owned(), stamp.uid.as_str().into());
    fields.insert("creationTimestamp".to_owned(), seconds(stamp.now).into());
    if resource.behaviour.has_generation() {
        fields.insert("generation".to_owned(), 1.into());
    }
    let prefix = text_of(fields, "generateName").to_owned();
    if text_of(fields, "name").is_empty() && !prefix.is_empty() {
        fields.insert("name".to_owned(), generated_name(&prefix, &stamp.suffix).into());
    }
    let kind = resource.behaviour.as_ref();
    complete(resource, object, None)?;
    let admitted = kind.admit(object);
    admitted.map_err(|why| Failure::forbidden(resource, text_at(object, &["metadata", "name"]), &why))
}

/// Sets what a new object starts with and checks it.
pub fn finish_create(resource: &Resource, object: &mut Value) -> Result<()> {
    let kind = resource.behaviour.as_ref();
    kind.prepare_create(object);
    let mut errors = Errors::default();
    let node = Node::root(object);
    object_meta::validate(
        node.field("metadata"),
        resource.namespaced,
        &|name, prefix| kind.validate_name(name, prefix),
        &mut errors,
    );
    check_finalizers(resource, node, &mut errors);
    kind.validate(node, &mut errors);
    refuse(resource, object, errors)?;
    kind.settle(object);
    Ok(())
}

/// Gives an object its defaults, and refuses one that is far too large with them. `stored_size` is how large it is now.
pub fn complete(resource: &Resource, object: &mut Value, stored_size: Option<usize>) -> Result<()> {
    resource.behaviour.default(object);
    let name = text_at(object, &["metadata", "name"]);
    object_size::check(object, stored_size).map_err(|too_large| Failure::object_too_large(resource, name, too_large))
}

/// Takes from `old` what a writer of this part may not change.
pub fn begin_update(resource: &Resource, object: &mut Value, old: &Value, part: Part) {
    match part {
        Part::Main if resource.has_status() => copy_field(object, old, "status"),
        Part::Main => {}
        Part::Status => keep_only_status(object, old),
        Part::Other(_) => {}
    }
    if let Some(old) = old["metadata"].as_object() {
        let fields = metadata(object);
        fields.remove("selfLink");
        fields.remove("managedFields");
        object_meta::prepare_update(fields, old);
    }
}

/// Settles a changed object and checks it. Returns what its writer should be told although it is in order.
pub fn finish_update(resource: &Resource, object: &mut Value, old: &Value, part: Part) -> Result<Vec<String>> {
    let kind = resource.behaviour.as_ref();
    kind.prepare_update(object, old, part);
    if kind.has_generation() && kind.is_new_generation(object, old) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
        object["metadata"]["generation"] = generation.saturating_add(1).into();
    }
    let mut errors = Errors::default();
    let node = Node::root(object);
    object_meta::validate_update(node.field("metadata"), &old["metadata"], &mut errors);
    check_finalizers(resource, node, &mut errors);
    kind.validate_update(node, old, part, &mut errors);
    let remarks = refuse(resource, object, errors)?;
    kind.settle(object);
    Ok(remarks)
}

/// A finalizer that names nobody is refused; on custom objects it is only remarked upon.
fn check_finalizers(resource: &Resource, object: Node<'_, '_>, errors: &mut Errors) {
    if resource.custom.is_none() {
        object_meta::validate_standard_finalizers(object.field("metadata").field("finalizers"), errors);
    }
}

fn refuse(resource: &Resource, object: &Value, errors: Errors) -> Result<Vec<String>> {
    if errors.is_empty() {
        return Ok(errors.into_remarks());
    }
    Err(Failure::invalid(resource, text_at(object, &["metadata", "name"]), errors))
}

fn keep_only_status(object: &mut Value, old: &Value) {
    let status = object.get_mut("status").map(Value::take);
    let metadata = object["metadata"].take();
    *object = old.clone();
    object["metadata"] = metadata;
    match status {
        Some(status) => object["status"] = status,
        None => {
            object.as_object_mut().map(|fields| fields.remove("status"));
        }
    }
}

fn copy_field(object: &mut Value, old: &Value, field: &str) {
    let Some(fields) = object.as_object_mut() else { return };
    match old.get(field) {
        Some(value) => fields.insert(field.to_owned(), value.clone()),
        None => fields.remove(field),
    };
}

/// A prefix and a suffix, cut so that the name fits into a DNS label.
fn generated_name(prefix: &str, suffix: &str) -> String {
    let room = 63 - suffix.len();
    let end = (0..=room.min(prefix.len())).rev().find(|end| prefix.is_char_boundary(*end)).unwrap_or(0);
    format!("{}{suffix}", &prefix[..end])
}

/// The object's metadata, which decoding has made sure of.
fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    object["metadata"].as_object_mut().expect("the schema has made metadata an object")
}

fn text_of<'m>(fields: &'m Map<String, Value>, name: &str) -> &'m str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(64).map(|byte| format!("{byte:02x}")).collect()
}
