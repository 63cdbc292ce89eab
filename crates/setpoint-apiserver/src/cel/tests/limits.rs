//! Nothing panics, overflows the stack or runs for long, whatever a rule says.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use setpoint_api::field::{Errors, Path};

use super::super::data_type::DataType;
use super::super::value::Meter;
use super::outcome;
use crate::cel::{Budget, Rules};

fn schema() -> Json {
    json!({"type": "object", "properties": {
        "n": {"type": "integer"}, "s": {"type": "string"}, "d": {"type": "string", "format": "duration"},
        "l": {"type": "array", "items": {"type": "integer"}}, "t": {"type": "array", "items": {"type": "string"}},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
        "p": {"x-kubernetes-int-or-string": true},
    }})
}

fn object() -> Json {
    let numbers: Vec<i64> = (0..300).collect();
    let texts: Vec<String> = (0..50).map(|n| format!("text {n}")).collect();
    json!({"n": 7, "s": "hello wörld ".repeat(200), "d": "1h", "l": numbers, "t": texts, "m": {"a": "b"}, "p": "80"})
}

/// A text that may be an expression: pieces of some, in any order.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "self",
        "oldSelf",
        ".n",
        ".s",
        ".l",
        ".t",
        ".m",
        ".p",
        ".d",
        ".?s",
        "[0]",
        "[?1]",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "?",
        "+",
        "-",
        "*",
        "/",
        "%",
        "!",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        "&&",
        "||",
        " in ",
        "1",
        "2u",
        "1.5",
        "'a'",
        "\"b\"",
        "b'c'",
        "r'\\d'",
        "'''x'''",
        "true",
        "false",
        "null",
        "x",
        "has",
        ".all(x, ",
        ".map(x, ",
        ".filter(x, ",
        ".exists_one(x, ",
        ".transformMap(k, v, ",
        ".optMap(x, ",
        ".size()",
        ".matches('a*')",
        ".find(",
        ".split('')",
        ".join()",
        ".format([",
        "])",
        "dyn(",
        "string(",
        "int(",
        "timestamp(",
        "duration(",
        "quantity(",
        "ip(",
        "cidr(",
        "url(",
        "semver(",
        "optional.of(",
        "optional.none()",
        ".orValue(",
        "lists.range(",
        "sets.contains(",
        ".sort()",
        ".flatten()",
        ".distinct()",
        ".substring(1)",
        ".lastIndexOf(",
        ".replace('', 'xx')",
        "\\",
        "'",
        "\n",
        "ü",
        "@",
        "`",
        "0x",
        "1e",
        ".",
        "9223372036854775807",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// An expression that is right, and may be expensive.
fn expressions() -> impl Strategy<Value = String> {
    let leaf =
        prop::sample::select(vec!["self.l", "self.l.map(a, a * 2)", "lists.range(100)", "self.t.map(a, size(a))"]);
    leaf.prop_map(str::to_owned).prop_recursive(6, 24, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} + {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}.filter(x, {b}.exists(y, x == y))")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}.map(x, {b}.size() + x)")),
            inner.clone().prop_map(|a| format!("{a}.map(x, [x, x]).flatten()")),
            inner.clone().prop_map(|a| format!("{a}.sort().distinct().reverse()")),
            inner.clone().prop_map(|a| format!("{a}.map(x, (self.s + string(x)).findAll('o|.*z').size())")),
            inner.clone().prop_map(|a| format!("{a}.map(x, self.s.replace('', self.s).size() + x)")),
            inner.prop_map(|a| format!("{a}.map(x, self.s.matches('(a|aa)+' + string(x)) ? 1 : x)")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_text_is_refused_or_evaluated(source in pieces()) {
        let _ = outcome(&source, &DataType::of_resource(&schema()), &object(), &mut Meter::new(100_000));
    }

    #[test]
    fn any_characters_are_refused_or_evaluated(source in "\\PC{0,40}") {
        let _ = outcome(&source, &DataType::of_resource(&schema()), &object(), &mut Meter::new(100_000));
    }

    #[test]
    fn any_pattern_is_refused_or_matched(pattern in "[a-c\\[\\]\\\\(){}|*+?^$.&~:,0-9dDwWsSbBpPQE-]{0,20}", text in "[a-c]{0,20}") {
        if let Ok(regex) = crate::go_regex::GoRegex::new(&pattern) {
            let _ = regex.regex().is_match(&text);
        }
    }

    #[test]
    fn any_rule_leaves_an_object_alone_or_says_why(source in pieces()) {
        let mut schema = schema();
        schema["x-kubernetes-validations"] = json!([{"rule": source, "message": "m"}]);
        if let Ok(rules) = Rules::compile(&schema, &Path::ROOT) {
            let object = object();
            let budget = Budget { per_rule: 50_000, per_object: 100_000 };
            rules.validate(&object, Some(&object), budget, &mut Errors::default());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // Steps are counted, and the time is generous: what this catches is work that nobody pays for.
    #[test]
    fn an_expensive_expression_ends(source in expressions()) {
        let started = Instant::now();
        let result = outcome(&source, &DataType::of_resource(&schema()), &object(), &mut Meter::new(1_000_000));
        if let Err(problem) = result {
            prop_assert_eq!(problem, "fails: operation cancelled: actual cost limit exceeded");
        }
        prop_assert!(started.elapsed() < Duration::from_secs(20), "{:?} for {}", started.elapsed(), source);
    }
}

#[test]
fn runaway_rules_end() {
    let data = DataType::of_resource(&schema());
    let nested = (0..12).fold("true".to_owned(), |inner, n| format!("self.l.all(v{n}, {inner})"));
    let doubled = (0..40).fold("self.s".to_owned(), |inner, n| format!("[{inner}].map(a{n}, a{n} + a{n})[0]"));
    let shared = (0..40).fold("[1]".to_owned(), |inner, n| format!("[{inner}].map(a{n}, [dyn(a{n}), dyn(a{n})])[0]"));
    let rows = [
        ("loops in loops", nested),
        ("a text that doubles", format!("{doubled} == ''")),
        ("a value that doubles, compared", format!("{shared} == {shared}")),
        ("a value that doubles, written", format!("'%s'.format([{shared}]) == ''")),
        ("a huge range", "lists.range(9223372036854775807).size() == 0".to_owned()),
        ("a wide replacement", "self.s.replace('', self.s).replace('', self.s).replace('', self.s) == ''".to_owned()),
        ("a hard pattern", "self.l.all(a, self.l.all(b, self.s.matches('(.*)*' + string(a)) || true))".to_owned()),
        ("a pattern that repeats", "self.l.all(x, self.s.matches('((h|e|l|o){0,9}){0,9}b') || true)".to_owned()),
        ("many patterns", "self.l.all(a, self.l.all(b, ''.matches('a{9}' + string(a * 1000 + b)) || true))".to_owned()),
        ("many matches", "self.l.all(x, (self.s + self.s).findAll('.*z|.').size() >= 0)".to_owned()),
        ("sorting", "self.l.all(x, self.l.all(y, self.t.sort().size() > 0))".to_owned()),
        ("distinct", "lists.range(10000).distinct().size() == 0".to_owned()),
    ];
    for (about, source) in rows {
        let started = Instant::now();
        let outcome = outcome(&source, &data, &object(), &mut Meter::new(1_000_000));
        assert_eq!(outcome, Err("fails: operation cancelled: actual cost limit exceeded".to_owned()), "{about}");
        assert!(started.elapsed() < Duration::from_secs(20), "{about} took {:?}", started.elapsed());
    }
}

#[test]
fn deep_expressions_are_refused() {
    let data = DataType::of_resource(&schema());
    for (about, source) in [
        ("parentheses", format!("{}1{}", "(".repeat(10_000), ")".repeat(10_000))),
        ("lists", format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000))),
        ("sums", format!("1{}", " + 1".repeat(10_000))),
        ("fields", format!("self{}", ".s".repeat(10_000))),
        ("calls", format!("'a'{}", ".trim()".repeat(10_000))),
        ("conditions", format!("{}true", "true ? true : ".repeat(5_000))),
        ("indexes", format!("self.l{}", "[0]".repeat(10_000))),
        ("loops", format!("{}true{}", "[1].all(x, ".repeat(1_000), ")".repeat(1_000))),
    ] {
        let problem = outcome(&source, &data, &object(), &mut Meter::new(1_000_000)).expect_err(about);
        assert!(problem.contains("expression recursion limit exceeded: 250"), "{about}: {:.200}", problem);
    }
    let long = outcome(&format!("'{}'", "x".repeat(100_000)), &data, &object(), &mut Meter::new(1_000_000));
    assert!(long.is_err_and(|problem| {
        problem.contains("expression code point size exceeds limit: size: 100002, limit 100000")
    }));
    for (about, source) in [
        ("unary operators", format!("{}true", "!".repeat(90_000))),
        ("terms", format!("true{}", " && true".repeat(10_000))),
        ("nearly too deep", format!("{}true{}", "(".repeat(240), ")".repeat(240))),
        ("nearly too many", format!("1{} > 0", " + 1".repeat(240))),
    ] {
        assert_eq!(outcome(&source, &data, &object(), &mut Meter::new(1_000_000)).as_deref(), Ok("true"), "{about}");
    }
}

#[test]
fn types_that_double_are_checked_at_once() {
    let data = DataType::of_resource(&schema());
    let open: String = (0..60).map(|n| format!("[].all(a{n}, a{n} == {{a{m}: a{m}}} && ", m = n + 1)).collect();
    let source = format!("[].all(a60, {open}true{})", ")".repeat(61));
    let source = source.replace("[].all(a60, [].all(a0,", "[].all(a0, [].all(a60,");
    let started = Instant::now();
    let _ = outcome(&source, &data, &object(), &mut Meter::new(1_000_000));
    let nested = (0..60).fold("[1]".to_owned(), |inner, n| format!("{inner}.map(x{n}, {{x{n}: x{n}}})"));
    let _ = outcome(&format!("{nested} == {nested}"), &data, &object(), &mut Meter::new(1_000_000));
    assert!(started.elapsed() < Duration::from_secs(20));
}
