//! What somebody may ask of a token.

use serde_json::{Value, json};

use setpoint_api::field::{Errors, Node};

const DEFAULT_LIFETIME_S: i64 = 60 * 60;
const SHORTEST_S: i64 = 10 * 60;
const LONGEST_S: i64 = 1 << 32;

/// How long all audiences may be together, so that the token fits into a header.
const AUDIENCES_LIMIT_BYTES: usize = 8 * 1024;

/// The kinds of objects that a token can be bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bond {
    Pod,
    Secret,
    Node,
}

impl Bond {
    /// What a reference is to; the name of any other kind, as Kubernetes repeats it.
    pub fn of(reference: &Value) -> Result<Bond, String> {
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let (group, version) = match text("apiVersion").split_once('/') {
            Some((_, version)) if version.contains('/') => ("", ""),
            Some(parts) => parts,
            None => ("", text("apiVersion")),
        };
        match (group, text("kind")) {
            ("", "Pod") => Ok(Bond::Pod),
            ("", "Secret") => Ok(Bond::Secret),
            ("", "Node") => Ok(Bond::Node),
            (group, kind) => Err(format!("{group}/{version}, Kind={kind}")),
        }
    }

    pub fn plural(self) -> &'static str {
        match self {
            Bond::Pod => "pods",
            Bond::Secret => "secrets",
            Bond::Node => "nodes",
        }
    }
}

/// Fills in what a TokenRequest leaves open and does not depend on the server.
pub fn default(request: &mut Value) {
    let spec = &mut request["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    if spec["expirationSeconds"].is_null() {
        spec["expirationSeconds"] = DEFAULT_LIFETIME_S.into();
    }
}

/// What is wrong with a TokenRequest that has its defaults.
pub fn validate(request: Node<'_, '_>, errors: &mut Errors) {
    let spec = request.field("spec");
    let (lifetime, audiences) = (spec.field("expirationSeconds"), spec.field("audiences"));
    match lifetime.i64().unwrap_or_default() {
        seconds if seconds < SHORTEST_S => {
            errors.invalid(&lifetime.path, seconds, "may not specify a duration less than 10 minutes");
        }
        seconds if seconds > LONGEST_S => {
            errors.invalid(&lifetime.path, seconds, "may not specify a duration larger than 2^32 seconds");
        }
        _ => {}
    }
    if audiences.items().map(|audience| audience.str().len()).sum::<usize>() > AUDIENCES_LIMIT_BYTES {
        errors.too_long(&audiences.path, AUDIENCES_LIMIT_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_lasts_no_less_than_ten_minutes_and_not_for_ever() {
        let too_short = "may not specify a duration less than 10 minutes";
        let too_long = "may not specify a duration larger than 2^32 seconds";
        let rows = [
            ("an hour unless said otherwise", json!({}), None),
            ("null says nothing", json!({"expirationSeconds": null}), None),
            ("ten minutes", json!({"expirationSeconds": 600}), None),
            (
                "less",
                json!({"expirationSeconds": 599}),
                Some(format!("spec.expirationSeconds: Invalid value: 599: {too_short}")),
            ),
            (
                "none",
                json!({"expirationSeconds": 0}),
                Some(format!("spec.expirationSeconds: Invalid value: 0: {too_short}")),
            ),
            (
                "before now",
                json!({"expirationSeconds": -1}),
                Some(format!("spec.expirationSeconds: Invalid value: -1: {too_short}")),
            ),
            ("the longest", json!({"expirationSeconds": 4_294_967_296_i64}), None),
            (
                "longer",
                json!({"expirationSeconds": 4_294_967_297_i64}),
                Some(format!("spec.expirationSeconds: Invalid value: 4294967297: {too_long}")),
            ),
            (
                "for audiences that fit into no header",
                json!({"audiences": ["x".repeat(8_193)]}),
                Some("spec.audiences: Too long: may not be more than 8192 bytes".to_owned()),
            ),
        ];
        for (row, spec, expected) in rows {
            let mut request = json!({"spec": spec});
            default(&mut request);
            let mut errors = Errors::default();
            validate(Node::root(&request), &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).next(), expected, "{row}");
        }
    }

    #[test]
    fn a_token_is_bound_to_few_kinds() {
        let rows = [
            ("a Pod", json!({"apiVersion": "v1", "kind": "Pod"}), Ok(Bond::Pod)),
            ("a Secret", json!({"apiVersion": "v1", "kind": "Secret"}), Ok(Bond::Secret)),
            ("a Node, of no version", json!({"kind": "Node"}), Ok(Bond::Node)),
            ("another kind", json!({"apiVersion": "v1", "kind": "ConfigMap"}), Err("/v1, Kind=ConfigMap")),
            ("a group's Pod", json!({"apiVersion": "a.io/v1", "kind": "Pod"}), Err("a.io/v1, Kind=Pod")),
            ("nothing", json!({}), Err("/, Kind=")),
        ];
        for (row, reference, expected) in rows {
            assert_eq!(Bond::of(&reference), expected.map_err(str::to_owned), "{row}");
        }
    }
}
