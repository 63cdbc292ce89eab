//! Nothing panics, overflows the stack or runs for long, whatever a rule says.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use setpoint_api::field::{Errors, Path};

use super::super::data_type::DataType;
use super::super::value::Meter;
use super::{outcome, work};
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
        if let Ok(regex) = crate::go_regex::GoRegex::computed(&pattern) {
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

/// The most steps, and the most bytes made, that may stand behind a unit of cost.
const STEPS_PER_UNIT: u64 = 4;
const BYTES_PER_UNIT: u64 = 64;

/// Evaluates with a budget, and checks that what was done was paid for.
fn paid(source: &str, object: &Json, budget: u64) -> Result<String, String> {
    let data = DataType::of_resource(&schema());
    let mut meter = Meter::new(budget);
    work::take();
    let outcome = outcome(source, &data, object, &mut meter);
    let (used, done) = (budget - meter.left(), work::take());
    // A rule is some nodes long however little it costs.
    assert!(done.steps <= STEPS_PER_UNIT * used + 1_000, "{done:?} for {used} units: {source:.2000}");
    assert!(done.bytes <= BYTES_PER_UNIT * used + 100_000, "{done:?} for {used} units: {source:.2000}");
    outcome
}

fn objects() -> impl Strategy<Value = Json> {
    (0..400_usize, 0..100_usize, 0..3_000_usize, "[a-c1-3 .:-]{0,30}").prop_map(|(numbers, texts, long, word)| {
        let numbers: Vec<usize> = (0..numbers).collect();
        let texts: Vec<String> = (0..texts).map(|n| format!("{word}{n}")).collect();
        let map: serde_json::Map<String, Json> = texts.iter().map(|text| (text.clone(), json!(word))).collect();
        json!({"n": 7, "s": word.repeat(long / 10), "d": "1h", "l": numbers, "t": texts, "m": map, "p": word})
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_budget_always_stops(source in expressions(), object in objects(), budget in 0..200_000_u64) {
        if let Err(problem) = paid(&source, &object, budget) {
            prop_assert_eq!(problem, "fails: operation cancelled: actual cost limit exceeded");
        }
    }

    #[test]
    fn whatever_an_expression_does_is_paid_for(source in pieces(), object in objects()) {
        let _ = paid(&source, &object, 100_000);
    }
}

/// An expression in three loops, which is more than any budget allows.
fn forever(inner: &str) -> String {
    format!("self.l.all(a, self.l.all(b, self.l.all(c, {inner})))")
}

#[test]
fn runaway_rules_end() {
    let nested = (0..12).fold("true".to_owned(), |inner, n| format!("self.l.all(v{n}, {inner})"));
    let doubled = (0..40).fold("self.s".to_owned(), |inner, n| format!("[{inner}].map(a{n}, a{n} + a{n})[0]"));
    let shared = (0..40).fold("[1]".to_owned(), |inner, n| format!("[{inner}].map(a{n}, [dyn(a{n}), dyn(a{n})])[0]"));
    let (terms, ones) = (vec!["true"; 10_000].join(" && "), vec!["1"; 20_000].join(","));
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
        ("many terms", forever(&format!("({terms})"))),
        ("a long literal", forever(&format!("[{ones}].size() > 0"))),
        ("bytes of a literal", forever(&format!("b'{}' != b''", "x".repeat(50_000)))),
        ("characters of a text", forever("(self.s + self.s).split('').size() > 0")),
        ("a long key", forever("self.s in {self.s: 1}")),
        ("a long key that is missing", forever("self.m[self.s] == '' || true")),
        ("failures that do not count", forever("dyn(a) + dyn('x') == dyn(1) || true")),
        ("lists", forever("size(self.l + self.l) > 0")),
        ("sets", forever("sets.contains(self.l, self.l)")),
        ("hexadecimal digits", forever("'%x'.format([self.s]) != ''")),
        ("numbers that are none", forever("int(self.s) == 0 || true")),
        ("durations that are none", forever("duration(self.s) == duration('1s') || true")),
        ("quantities that are none", forever("isQuantity(self.s) || true")),
        ("versions that are none", forever("isSemver(self.s) || true")),
        ("addresses that are none", forever("isIP(self.s) || isCIDR(self.s) || true")),
        ("addresses of pages", forever("url('https://a/?' + self.s.replace(' ', '&')).getQuery().size() >= 0")),
        ("long versions compared", forever("semver('1.2.3-' + 'a.b.c.d') == semver('1.2.3-a.b.c.d')")),
    ];
    for (about, source) in rows {
        let outcome = paid(&source, &object(), 1_000_000);
        assert_eq!(outcome, Err("fails: operation cancelled: actual cost limit exceeded".to_owned()), "{about}");
    }
}

#[test]
fn an_object_has_a_budget_of_its_own() {
    let rules: Vec<Json> = (0..100).map(|_| json!({"rule": "true"})).collect();
    let items = json!({"type": "integer", "x-kubernetes-validations": rules});
    let schema = json!({"type": "object", "properties": {"l": {"type": "array", "items": items}}});
    let rules = Rules::compile(&schema, &Path::ROOT).expect("the rules compile");
    let object = json!({"l": (0..10_000).collect::<Vec<_>>()});
    let mut errors = Errors::default();
    work::take();
    rules.validate(&object, None, Budget::default(), &mut errors);
    let said: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(matches!(said.as_slice(), [only] if only.contains("running out of cost budget")), "{said:?}");
    assert!(work::take().steps <= Budget::default().per_object, "a rule without cost is work, too");
}

#[test]
fn values_that_nest_deeply_are_refused() {
    let wrap = |depth: usize, inner: &str| format!("{}{inner}{}", "[".repeat(depth), "]".repeat(depth));
    let chain = (0..100).fold("[1]".to_owned(), |range, _| format!("{range}.map(a, {})", wrap(100, "dyn(a)")));
    let data = DataType::of_resource(&schema());
    let problem = outcome(&format!("{chain} == {chain}"), &data, &object(), &mut Meter::new(1_000_000));
    assert!(problem.is_err_and(|problem| problem.contains("value nesting limit exceeded: 1000")));
    let good = format!("{0} == {0}", wrap(200, "1"));
    assert_eq!(outcome(&good, &data, &object(), &mut Meter::new(1_000_000)).as_deref(), Ok("true"));
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
    let _ = outcome(&source, &data, &object(), &mut Meter::new(1_000_000));
    let nested = (0..60).fold("[1]".to_owned(), |inner, n| format!("{inner}.map(x{n}, {{x{n}: x{n}}})"));
    let _ = outcome(&format!("{nested} == {nested}"), &data, &object(), &mut Meter::new(1_000_000));
}
