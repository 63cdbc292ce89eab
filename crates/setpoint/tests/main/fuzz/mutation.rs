//! Mutations of requests: of the method, the path, the query, the headers and the body.

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::{IndexedMutRandom, IndexedRandom};
use serde_json::Value;

use super::case::Case;
use super::json;

/// Changes one thing or several.
pub(super) fn mutate(case: &mut Case, random: &mut SmallRng) {
    for _ in 0..random.random_range(1..4) {
        match random.random_range(0..20) {
            0 => case.method = pick(METHODS, random).to_owned(),
            1..=3 => path(case, random),
            4..=8 => query(case, random),
            9..=11 => header(case, random),
            12..=17 => tree(case, random),
            _ => text(case, random),
        }
    }
}

fn pick<'a>(choices: &[&'a str], random: &mut SmallRng) -> &'a str {
    choices.choose(random).expect("not empty")
}

const METHODS: &[&str] =
    &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get", "", "G\u{7}T", "GET GET"];

const SEGMENTS: &[&str] = &[
    "",
    ".",
    "..",
    "%2e%2e",
    "%2F",
    "%00",
    "%ff%fe",
    "%zz",
    "%",
    "~",
    "a b",
    "\u{7f}",
    "Fuzz",
    "status",
    "scale",
    "exec",
    "finalize",
    "token",
    "eviction",
    "watch",
    "proxy",
    "v1",
    "v2",
    "apis",
    "namespaces",
    "kube-system",
    "missing",
    "fuzz",
    "configmaps",
    "🦀",
    "%F0%9F%A6%80",
    "*",
    "-",
    "fuzz:80",
    "a%0d%0ax: y",
];

fn path(case: &mut Case, random: &mut SmallRng) {
    let mut segments: Vec<String> = case.path.split('/').map(str::to_owned).collect();
    let segment = match random.random_range(0..40) {
        0 => "a".repeat(random.random_range(254..9000)),
        _ => pick(SEGMENTS, random).to_owned(),
    };
    let place = random.random_range(1..=segments.len());
    match random.random_range(0..3) {
        0 => segments.insert(place, segment),
        1 => drop(segments.remove(place - 1)),
        _ => segments[place - 1] = segment,
    }
    case.path = segments.join("/");
}

const PARAMETERS: &[&str] = &[
    "labelSelector",
    "fieldSelector",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "watch",
    "timeoutSeconds",
    "sendInitialEvents",
    "allowWatchBookmarks",
    "dryRun",
    "fieldValidation",
    "fieldManager",
    "force",
    "pretty",
    "gracePeriodSeconds",
    "propagationPolicy",
    "timeout",
    "orphanDependents",
    "includeObject",
    "verbose",
    "unknown",
    "",
    "exclude",
    "%00",
];

const VALUES: &[&str] = &[
    "",
    "0",
    "1",
    "-1",
    "true",
    "false",
    "maybe",
    "a",
    "a=b",
    "a%3Db",
    "a%20in%20(b,c)",
    "a%20notin%20()",
    "!a",
    "a,!b,c!=d",
    "a%3E1",
    "a%3Cx",
    "((((",
    "=",
    ",",
    "metadata.name%3Dfuzz",
    "metadata.name!=a",
    "spec.nodeName=",
    "status.phase%3DRunning",
    "nonsense.path=1",
    "9223372036854775807",
    "9223372036854775808",
    "99999999999999999999999",
    "1.5",
    "All",
    "all",
    "Exact",
    "NotOlderThan",
    "Strict",
    "Warn",
    "Ignore",
    "Background",
    "Foreground",
    "Orphan",
    "%ff",
    "%",
    "%00",
    "🦀",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
    "e30",
    "AAAA",
    "1s",
    "1h",
    "-5s",
    "NaN",
    "Table",
    "None",
    "Metadata",
    "Object",
    "a\\=b",
    "+",
    "&&&",
];

fn query(case: &mut Case, random: &mut SmallRng) {
    let name = pick(PARAMETERS, random);
    let value = match random.random_range(0..60) {
        0 => "a".repeat(random.random_range(254..9000)),
        1 => format!("a%20in%20({})", "b,".repeat(random.random_range(1..1000))),
        _ => pick(VALUES, random).to_owned(),
    };
    case.query.push((name.to_owned(), value));
}

const HEADERS: &[(&str, &[&str])] = &[
    (
        "accept",
        &[
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
            "*/*",
            "text/html",
            "",
            "application/json;as=Table;g=meta.k8s.io;v=v1",
            "application/json;as=Table;g=x;v=y",
            "application/json;as=",
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            ";;;,,,;q=2",
            "application/json;q=0",
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            "application/json;stream=watch",
        ],
    ),
    (
        "content-type",
        &[
            "application/json",
            "application/yaml",
            "application/json; charset=latin-1",
            "text/plain",
            "",
            "application/vnd.kubernetes.protobuf",
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
            "application/apply-patch+yaml",
            "application/cbor",
            "/",
            "json",
        ],
    ),
    ("content-encoding", &["gzip", "br", "identity", "gzip, gzip"]),
    ("accept-encoding", &["gzip", "gzip;q=0", "*", "br", "identity;q=0, *;q=0", ";"]),
    ("authorization", &["Bearer", "Bearer ", "Bearer x", "Basic YTpi", "Basic %", "Nonsense", ""]),
    ("impersonate-user", &["system:anonymous", ""]),
    ("expect", &["100-continue", "200-ok"]),
    ("connection", &["close", "keep-alive, upgrade"]),
    ("upgrade", &["websocket", "h2c", "SPDY/3.1"]),
    ("range", &["bytes=0-10", "bytes=9-1"]),
    ("if-none-match", &["*", "\"x\""]),
    ("x-bad name", &["x"]),
    ("x-bad-value", &["a\r\nb: c", "\u{0}", "ü"]),
];

fn header(case: &mut Case, random: &mut SmallRng) {
    if random.random_ratio(1, 100) {
        let value = vec![b'a'; random.random_range(1000..100_000)];
        return case.headers.push(("x-large".to_owned(), value));
    }
    let (name, values) = HEADERS.choose(random).expect("not empty");
    if random.random_bool(0.7) {
        case.headers.retain(|(other, _)| other != name);
    }
    case.headers.push(((*name).to_owned(), pick(values, random).as_bytes().to_vec()));
}

fn tree(case: &mut Case, random: &mut SmallRng) {
    let Ok(mut tree) = serde_json::from_slice::<Value>(&case.body) else { return text(case, random) };
    for _ in 0..random.random_range(1..4) {
        json::mutate(&mut tree, random);
    }
    case.body = tree.to_string().into_bytes();
}

const TEXTS: &[&str] = &[
    "",
    "{",
    "}",
    "null",
    "[]",
    "\"",
    "{}{}",
    "{\"a\":1,\"a\":2}",
    "1e999999",
    "-",
    "tru",
    "\u{feff}{}",
    "{\"kind\":\"ConfigMap\",\"kind\":\"Secret\"}",
    "{\"metadata\":{\"name\":\"\\ud800\"}}",
    "a: &a [*a]",
    "---\n---\n",
    "? {",
    "a: !!binary |\n  x",
    "k8s\u{0}\n\u{2}v1",
    "<xml/>",
];

fn text(case: &mut Case, random: &mut SmallRng) {
    let length = case.body.len();
    match random.random_range(0..24) {
        0..=4 => case.body.truncate(random.random_range(0..=length)),
        5..=9 => {
            if let Some(byte) = case.body.choose_mut(random) {
                *byte = random.random();
            }
        }
        10..=12 => case.body.insert(random.random_range(0..=length), random.random()),
        13..=15 => case.body.extend_from_slice(pick(TEXTS, random).as_bytes()),
        16 => case.body = nested(random),
        17 => case.body = laughs(),
        18 if random.random_ratio(1, 20) => case.body = oversized(),
        19 => case.body = (0..random.random_range(0..200)).map(|_| random.random()).collect(),
        _ => case.body = pick(TEXTS, random).as_bytes().to_vec(),
    }
}

/// Deeper than any parser's stack.
fn nested(random: &mut SmallRng) -> Vec<u8> {
    let (open, close) = *[("[", "]"), ("{\"a\":", "}"), ("- ", "")].choose(random).expect("not empty");
    let depth = random.random_range(50..50_000);
    let inner = format!("{}1{}", open.repeat(depth), close.repeat(depth));
    match random.random_bool(0.5) {
        true => inner.into_bytes(),
        false => format!("{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{inner}}}").into_bytes(),
    }
}

/// YAML whose aliases would expand to a thousand million nodes.
fn laughs() -> Vec<u8> {
    let mut text = "a0: &a0 [x]\n".to_owned();
    for level in 1..10 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(",");
        text += &format!("a{level}: &a{level} [{aliases}]\n");
    }
    text.into_bytes()
}

/// More than the server's limit of 3 MiB.
fn oversized() -> Vec<u8> {
    let text = "a".repeat(3 << 20);
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"large"}},"data":{{"a":"{text}"}}}}"#)
        .into_bytes()
}
