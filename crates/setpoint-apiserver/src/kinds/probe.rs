//! What the tests of kinds ask of them: an object, completed, and what is wrong with it.

use serde_json::Value;

use crate::kind::{Behaviour, Part};
use setpoint_api::field::{Errors, Node};

/// The object with its defaults.
pub(super) fn completed(kind: &dyn Behaviour, object: &Value) -> Value {
    let mut object = object.clone();
    kind.default(&mut object);
    object
}

/// What is wrong with a new object.
pub(super) fn messages(kind: &dyn Behaviour, object: &Value) -> Vec<String> {
    let mut errors = Errors::default();
    kind.validate(Node::root(&completed(kind, object)), &mut errors);
    told(&errors)
}

/// What is wrong with a changed object. The rules of a good object are not the point here.
pub(super) fn update_messages(kind: &dyn Behaviour, object: &Value, old: &Value, part: Part) -> Vec<String> {
    let (mut object, old) = (completed(kind, object), completed(kind, old));
    kind.prepare_update(&mut object, &old, part);
    let mut errors = Errors::default();
    kind.validate_update(Node::root(&object), &old, part, &mut errors);
    told(&errors)
}

/// Messages without the grammars that some of them end in.
fn told(errors: &Errors) -> Vec<String> {
    errors.iter().map(|error| error.to_string().split(" (e.g.").next().unwrap_or_default().to_owned()).collect()
}
