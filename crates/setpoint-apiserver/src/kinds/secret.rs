//! Secrets: named bytes of a type that says which names there must be.

use std::collections::HashSet;

use base64::prelude::{BASE64_STANDARD, Engine};
use jiff::Timestamp;
use serde_json::Value;

use super::config_map::{DATA_MAX, decoded_len, entry_count, validate_frozen, validate_key};
use super::defaults;
use crate::columns;
use crate::json_syntax;
use crate::kind::{Behaviour, Column, Part, SelectableField};
use setpoint_api::field::{Errors, Node, Path};

/// Where Secrets are kept, which a store may seal on disk.
pub const DIRECTORY: &str = "/core/secrets/";

#[derive(Debug, Clone, Copy)]
pub struct Secret;

impl Behaviour for Secret {
    fn default(&self, object: &mut Value) {
        fold_string_data(object);
        defaults::fill_text(object, "type", "Opaque");
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        let data = object.field("data");
        let mut size = 0;
        for (key, value) in data.entries() {
            validate_key(key, value, errors);
            size += key.len() + decoded_len(value.str());
        }
        if size > DATA_MAX {
            errors.too_long(&data.path, DATA_MAX);
        }
        validate_type(object, data, errors);
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, _part: Part, errors: &mut Errors) {
        let kind = object.field("type");
        if *kind.value != old["type"] {
            errors.invalid(&kind.path, kind.str(), "field is immutable");
        }
        validate_frozen(object, old, &["data"], errors);
        self.validate(object, errors);
    }

    /// Says when a TLS pair is none. Whether the key fits the certificate is not looked at.
    fn warnings(&self, object: Node<'_, '_>, _old: Option<&Value>) -> Vec<String> {
        if object.field("type").str() != "kubernetes.io/tls" {
            return Vec::new();
        }
        let data = object.field("data");
        let blocks = |name: &str| pem_blocks(&decode(data.field(name).str()));
        certificate_fault(&blocks("tls.crt")).or_else(|| key_fault(&blocks("tls.key"))).into_iter().collect()
    }

    fn columns(&self) -> &[Column] {
        const COLUMNS: [Column; 4] = [
            columns::NAME,
            columns::text("Type", "What the entries are for."),
            columns::text("Data", "The number of entries."),
            columns::AGE,
        ];
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![
            columns::name_cell(object),
            object["type"].clone(),
            entry_count(&object["data"]).into(),
            columns::age_cell(object, now),
        ]
    }

    fn selectable_fields(&self) -> &[SelectableField] {
        &[SelectableField { name: "type", value: |object| object["type"].as_str().unwrap_or_default().to_owned() }]
    }
}

/// Moves the texts of `stringData`, which is only ever written, into `data`.
fn fold_string_data(object: &mut Value) {
    let Some(Value::Object(texts)) = object.as_object_mut().and_then(|fields| fields.remove("stringData")) else {
        return;
    };
    if texts.is_empty() {
        return;
    }
    let data = defaults::section(object, "data");
    for (key, text) in texts {
        data[key] = Value::from(BASE64_STANDARD.encode(text.as_str().unwrap_or_default()));
    }
}

fn validate_type(object: Node<'_, '_>, data: Node<'_, '_>, errors: &mut Errors) {
    let has = |key: &str| data.value.get(key).is_some();
    let require = |key: &str, errors: &mut Errors| {
        if !has(key) {
            errors.required(&data.path.key(key), "");
        }
    };
    match object.field("type").str() {
        "kubernetes.io/service-account-token" => {
            let metadata = object.field("metadata");
            let annotations = metadata.field("annotations");
            let name = "kubernetes.io/service-account.name";
            if annotations.field(name).str().is_empty() {
                errors.required(&annotations.path.key(name), "");
            }
        }
        "kubernetes.io/dockercfg" => validate_docker_config(data, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => validate_docker_config(data, ".dockerconfigjson", errors),
        // One of the two is enough; without either, both are asked for.
        "kubernetes.io/basic-auth" if has("username") || has("password") => {}
        "kubernetes.io/basic-auth" => ["username", "password"].iter().for_each(|key| require(key, errors)),
        "kubernetes.io/ssh-auth" if data.field("ssh-privatekey").str().is_empty() => {
            errors.required(&data.path.key("ssh-privatekey"), "");
        }
        "kubernetes.io/tls" => ["tls.crt", "tls.key"].iter().for_each(|key| require(key, errors)),
        _ => {}
    }
}

fn validate_docker_config(data: Node<'_, '_>, key: &str, errors: &mut Errors) {
    let path: Path<'_> = data.path.key(key);
    let Some(value) = data.value.get(key) else {
        return errors.required(&path, "");
    };
    let text = decode(value.as_str().unwrap_or_default());
    let fault = json_syntax::fault(&text).or_else(|| {
        let found = match serde_json::from_slice(&text).unwrap_or_default() {
            Value::Null | Value::Object(_) => return None,
            Value::Array(_) => "array",
            Value::String(_) => "string",
            Value::Number(_) => "number",
            Value::Bool(_) => "bool",
        };
        Some(format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"))
    });
    if let Some(fault) = fault {
        errors.invalid(&path, "<secret contents redacted>", &fault);
    }
}

fn decode(base64: &str) -> Vec<u8> {
    BASE64_STANDARD.decode(base64).unwrap_or_default()
}

/// The types of the PEM blocks in a text.
fn pem_blocks(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let begins = text.lines().filter_map(|line| line.trim_end().strip_prefix("-----BEGIN ")?.strip_suffix("-----"));
    let ends: HashSet<&str> =
        text.split("-----END ").skip(1).filter_map(|rest| rest.split_once("-----")).map(|(kind, _)| kind).collect();
    begins.filter(|kind| ends.contains(kind)).map(str::to_owned).collect()
}

fn certificate_fault(blocks: &[String]) -> Option<String> {
    Some(match blocks {
        _ if blocks.iter().any(|kind| kind == "CERTIFICATE") => return None,
        [] => "tls: failed to find any PEM data in certificate input".to_owned(),
        [only] if only.ends_with("PRIVATE KEY") => {
            "tls: failed to find certificate PEM data in certificate input, but \
             did find a private key; PEM inputs may have been switched"
                .to_owned()
        }
        skipped => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following \
             types: [{}]",
            skipped.join(" ")
        ),
    })
}

fn key_fault(blocks: &[String]) -> Option<String> {
    Some(match blocks {
        _ if blocks.iter().any(|kind| kind == "PRIVATE KEY" || kind.ends_with(" PRIVATE KEY")) => return None,
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [only] if only == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        skipped => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the \
             following types: [{}]",
            skipped.join(" ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_directory_is_where_they_are_kept() {
        let registry = crate::built_in::registry(&crate::schema::Schemas::built_in());
        assert_eq!(registry.built_in("", "v1", "secrets").directory(None), DIRECTORY);
    }

    fn complete(mut object: Value) -> Value {
        Secret.default(&mut object);
        object
    }

    fn messages(object: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        Secret.validate(Node::root(object), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn texts_become_bytes_and_win() {
        let object = complete(json!({"stringData": {"p": "x", "u": "admin"}, "data": {"p": "b2xk"}}));
        assert_eq!(object, json!({"data": {"p": "eA==", "u": "YWRtaW4="}, "type": "Opaque"}));
        assert_eq!(complete(object.clone()), object);
        assert_eq!(complete(json!({"stringData": {}})), json!({"type": "Opaque"}));
    }

    #[test]
    fn types_ask_for_entries() {
        let secret = |kind: &str, texts: Value| complete(json!({"type": kind, "stringData": texts}));
        let rows = [
            ("anything goes", secret("example.com/x", json!({"a": ""})), vec![]),
            ("a TLS pair", secret("kubernetes.io/tls", json!({"tls.crt": ""})), vec!["data[tls.key]: Required value"]),
            ("a password is enough", secret("kubernetes.io/basic-auth", json!({"password": ""})), vec![]),
            (
                "neither name nor password",
                secret("kubernetes.io/basic-auth", json!({"x": ""})),
                vec!["data[username]: Required value", "data[password]: Required value"],
            ),
            (
                "a token names its account",
                secret("kubernetes.io/service-account-token", json!({})),
                vec!["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
            ),
            (
                "an empty key is no key",
                secret("kubernetes.io/ssh-auth", json!({"ssh-privatekey": ""})),
                vec!["data[ssh-privatekey]: Required value"],
            ),
            (
                "a registry's configuration is JSON",
                secret("kubernetes.io/dockercfg", json!({".dockercfg": "{"})),
                vec![r#"data[.dockercfg]: Invalid value: "<secret contents redacted>": unexpected end of JSON input"#],
            ),
            (
                "and an object",
                secret("kubernetes.io/dockerconfigjson", json!({".dockerconfigjson": "[]"})),
                vec![
                    "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": json: cannot unmarshal array \
                     into Go value of type map[string]interface {}",
                ],
            ),
        ];
        for (name, object, expected) in rows {
            assert_eq!(messages(&object), expected, "{name}");
        }
    }

    #[test]
    fn the_type_never_changes() {
        let object = complete(json!({"type": "example.com/x"}));
        let mut errors = Errors::default();
        Secret.validate_update(Node::root(&object), &json!({"type": "Opaque"}), Part::Main, &mut errors);
        let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(messages, [r#"type: Invalid value: "example.com/x": field is immutable"#]);
    }

    #[test]
    fn a_tls_pair_that_is_none_is_remarked_on() {
        let certificate = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
        let key = "-----BEGIN EC PRIVATE KEY-----\nAA==\n-----END EC PRIVATE KEY-----\n";
        let rows = [
            (certificate, key, None),
            ("", "", Some("tls: failed to find any PEM data in certificate input")),
            (certificate, "", Some("tls: failed to find any PEM data in key input")),
            (
                certificate,
                certificate,
                Some("tls: found a certificate rather than a key in the PEM for the private key"),
            ),
        ];
        for (crt, key, expected) in rows {
            let object = complete(json!({"type": "kubernetes.io/tls", "stringData": {"tls.crt": crt, "tls.key": key}}));
            assert_eq!(Secret.warnings(Node::root(&object), None).first().map(String::as_str), expected);
        }
    }
}
