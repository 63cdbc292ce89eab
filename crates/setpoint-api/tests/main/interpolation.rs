//! How `${NAME}` is replaced, and what is never sent.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use setpoint_api::field::Path;
use setpoint_api::interpolation::{MAX_RESULT, Source, SourceKind, interpolate};
use setpoint_api::machine::{Machine, MachineSpec};

use crate::fixture::{object, typed};

/// A sentence, what is given, and what comes of it or is said.
type Row<G, R, E> = (&'static str, G, Result<R, Vec<E>>);

fn source(kind: SourceKind, name: &str, values: &[(&str, &str)]) -> Source {
    let values = values.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect();
    Source { kind, namespace: "shop".to_owned(), name: name.to_owned(), values }
}

fn sources() -> Vec<Source> {
    let mut tokens =
        source(SourceKind::Secret, "tokens", &[("TOKEN", "s3cret"), ("BOTH", "from-secret"), ("NESTED", "${TOKEN}")]);
    tokens.values.insert("BYTES".to_owned(), vec![0xff, 0xfe]);
    vec![
        tokens,
        source(
            SourceKind::ConfigMap,
            "settings",
            &[("MODEL", "llama"), ("BOTH", "from-map"), ("a.b-c", "dotted"), ("EMPTY", "")],
        ),
    ]
}

#[test]
fn variables_are_replaced_or_refused() {
    let searched = "no such key in Secret shop/tokens, ConfigMap shop/settings";
    let missing = |name: &str| format!("spec.env[0].value: ${{{name}}} cannot be resolved: {searched}");
    let bad = |name: &str| {
        format!(
            "spec.env[0].value: ${{{name}}} is no variable: a name has letters, digits, '-', '_' and '.'; \
             write $${{ if none is meant"
        )
    };
    let unclosed = "spec.env[0].value: ${ is never closed; write $${ if no variable is meant".to_owned();
    let long = format!("spec.env[0].value: is longer than {MAX_RESULT} bytes once variables are replaced");
    let rows: Vec<Row<String, (&str, bool), String>> = vec![
        ("a text without variables stays", "plain".into(), Ok(("plain", false))),
        ("an empty text stays", String::new(), Ok(("", false))),
        ("a key of a ConfigMap", "${MODEL}".into(), Ok(("llama", false))),
        ("a key of a Secret is sensitive", "${TOKEN}".into(), Ok(("s3cret", true))),
        ("one secret part makes the whole sensitive", "${MODEL}:${TOKEN}!".into(), Ok(("llama:s3cret!", true))),
        ("the first source that has it gives it", "${BOTH}".into(), Ok(("from-secret", true))),
        ("a key may have dots and dashes", "${a.b-c}".into(), Ok(("dotted", false))),
        ("an empty value is a value", "<${EMPTY}>".into(), Ok(("<>", false))),
        ("an escape is taken off", "$${MODEL}".into(), Ok(("${MODEL}", false))),
        ("an escape before a variable", "$${${MODEL}}".into(), Ok(("${llama}", false))),
        ("other dollars are left to a shell", "$HOME $(id) $$ 5$".into(), Ok(("$HOME $(id) $$ 5$", false))),
        ("what a value holds is not looked at again", "${NESTED}".into(), Ok(("${TOKEN}", true))),
        ("text in any script", "å${MODEL}字".into(), Ok(("ållama字", false))),
        ("what is not there is never sent literally", "${HF_TOKEN}".into(), Err(vec![missing("HF_TOKEN")])),
        ("a name in other case is another name", "${model}".into(), Err(vec![missing("model")])),
        ("the environment of the process is no source", "${PATH}".into(), Err(vec![missing("PATH")])),
        ("everything missing is said", "${A}${B}".into(), Err(vec![missing("A"), missing("B")])),
        ("an empty name", "${}".into(), Err(vec![bad("")])),
        ("a default is not understood, and not ignored", "${MODEL:-x}".into(), Err(vec![bad("MODEL:-x")])),
        ("a variable that is never closed", "a ${MODEL".into(), Err(vec![unclosed])),
        (
            "bytes that are no text",
            "${BYTES}".into(),
            Err(vec!["spec.env[0].value: ${BYTES} is not text in Secret shop/tokens".into()]),
        ),
        ("a result has a bound", "${MODEL}".repeat(MAX_RESULT / 5 + 1), Err(vec![long])),
    ];
    let sources = sources();
    let sources: Vec<&Source> = sources.iter().collect();
    let spec = Path::of("spec");
    let env = spec.field("env");
    let first = env.index(0);
    for (name, template, expected) in rows {
        let result = interpolate(&first.field("value"), &template, &sources)
            .map(|text| (text.reveal().to_owned(), text.is_sensitive()))
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(result, expected.map(|(text, is_sensitive)| (text.to_owned(), is_sensitive)), "{name}");
    }
}

#[test]
fn without_sources_nothing_is_resolved() {
    let errors = interpolate(&Path::of("spec"), "${A}", &[]).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "spec: ${A} cannot be resolved: no Secret or ConfigMap is named to look it up in"
    );
}

#[test]
fn a_secret_shows_itself_to_nobody() {
    let sources = sources();
    let sources: Vec<&Source> = sources.iter().collect();
    let secret = interpolate(&Path::ROOT, "Bearer ${TOKEN}", &sources).unwrap();
    let plain = interpolate(&Path::ROOT, "${MODEL}", &sources).unwrap();
    assert_eq!((format!("{secret}"), format!("{secret:?}")), ("(sensitive)".into(), "(sensitive)".into()));
    assert_eq!((format!("{plain}"), format!("{plain:?}")), ("llama".into(), "\"llama\"".into()));
    assert!(!format!("{sources:?}").contains("s3cret"));
    let broken = interpolate(&Path::ROOT, "${TOKEN} ${MISSING}", &sources).unwrap_err();
    assert!(!format!("{broken:?}").contains("s3cret"), "an error repeats no secret");
}

fn machine(spec: &Value) -> MachineSpec {
    typed::<Machine>(object("Machine", &json!({"environment": "rack"}), spec)).spec
}

#[test]
fn a_machine_is_resolved_from_what_it_names_and_from_nothing_else() {
    let from_map = json!([{"configMap": "settings"}]);
    let rows: Vec<Row<Value, Vec<&str>, &str>> = vec![
        ("what is not set stays so", json!({}), Ok(vec![])),
        (
            "command, arguments and variables",
            json!({"variablesFrom": from_map, "command": ["run", "${MODEL}"], "args": ["--x=${MODEL}"], "env": [{"name": "M", "value": "${MODEL}"}]}),
            Ok(vec!["run", "llama", "--x=llama", "M=llama"]),
        ),
        (
            "a Secret that is not named is not looked at",
            json!({"variablesFrom": from_map, "args": ["${TOKEN}"]}),
            Err(vec!["spec.args[0]: ${TOKEN} cannot be resolved: no such key in ConfigMap shop/settings"]),
        ),
        (
            "one key of a Secret needs no list",
            json!({"env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "TOKEN"}}}]}),
            Ok(vec!["T=(sensitive)"]),
        ),
        (
            "a key that is not there",
            json!({"env": [{"name": "T", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "NO"}}}]}),
            Err(vec![
                "spec.env[0].valueFrom.configMapKeyRef: ${NO} cannot be resolved: no such key in ConfigMap shop/settings",
            ]),
        ),
        (
            "a ConfigMap that is not there",
            json!({"env": [{"name": "T", "valueFrom": {"configMapKeyRef": {"name": "gone", "key": "K"}}}]}),
            Err(vec![
                "spec.env[0].valueFrom.configMapKeyRef: ${K} cannot be resolved: no such key in ConfigMap shop/gone, which does not exist",
            ]),
        ),
        (
            "a source that is not there is not passed over for the next",
            json!({"variablesFrom": [{"secret": "gone"}, {"configMap": "settings"}], "args": ["${MODEL}"]}),
            Err(vec!["spec.variablesFrom[0].secret: Secret shop/gone does not exist"]),
        ),
        ("a variable without a value is empty", json!({"env": [{"name": "T"}]}), Ok(vec!["T="])),
    ];
    for (name, spec, expected) in rows {
        let resolved = machine(&spec).resolve("shop", &sources()).map(|resolved| {
            let words = [resolved.command, resolved.args].into_iter().flatten().flatten().map(|word| word.to_string());
            let env = resolved.env.into_iter().flatten().map(|(name, text)| format!("{name}={text}"));
            words.chain(env).collect::<Vec<_>>()
        });
        let resolved = resolved.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>());
        let owned = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(resolved, expected.map(owned).map_err(owned), "{name}");
    }
    let elsewhere = machine(&json!({"variablesFrom": from_map, "args": ["${MODEL}"]})).resolve("other", &sources());
    assert!(elsewhere.is_err(), "a source of another namespace is not looked at");
}

proptest! {
    #[test]
    fn no_variable_is_ever_sent_literally(template in "[${}A-C ]{0,24}", value in "[a-z]{0,4}") {
        let source = Source {
            kind: SourceKind::ConfigMap,
            namespace: "n".into(),
            name: "m".into(),
            values: BTreeMap::from([("A".to_owned(), value.into_bytes())]),
        };
        if let Ok(text) = interpolate(&Path::ROOT, &template, &[&source]) {
            let escapes = template.matches("$${").count();
            prop_assert_eq!(text.reveal().matches("${").count(), escapes, "{} became {}", template, text);
        }
    }
}
