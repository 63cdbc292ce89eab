//! Kinds in the style of a gateway API: unions, lists with keys and what must not change, all said in rules.

use serde_json::{Value, json};

use super::schema::*;
use super::{Example, Family, Shared, Wrong};

const GROUP: &str = "roads.example.com";
const HOST: &str = r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

pub(super) fn family() -> Family {
    let definition = |kind, cluster, spec: Schema| Definition {
        group: GROUP,
        kind,
        cluster,
        versions: vec![
            selectable(version("v1", spec.clone(), object([("parents", list(anything()))]))),
            version("v1beta1", spec, object([("parents", list(anything()))])),
        ],
    };
    Family {
        definitions: vec![
            definition("RoadClass", true, class()),
            definition("Gate", false, gate()),
            definition("Road", false, road()),
        ],
        fields: 200,
        examples: vec![class_example(), gate_example(), road_example()],
    }
}

/// The version with its text fields to select by.
fn selectable(mut version: Value) -> Value {
    let fields = &version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    let paths = ["className", "controller"].into_iter().filter(|name| !fields[name].is_null());
    let paths: Vec<Value> = paths.map(|name| json!({"jsonPath": format!(".spec.{name}")})).collect();
    if !paths.is_empty() {
        version["selectableFields"] = json!(paths);
    }
    version
}

fn host() -> Schema {
    text().longest(253).pattern(HOST)
}

fn class() -> Schema {
    let parameters = object(texts(&["group", "kind", "name", "namespace"])).required(&["group", "kind", "name"]);
    let controller = text().longest(253).pattern(r"^[a-z0-9.-]+/[A-Za-z0-9/._-]+$");
    let controller = controller.rule("self == oldSelf", "a class keeps its controller");
    object([("controller", controller), ("parameters", parameters), ("description", text().longest(64))])
        .required(&["controller"])
}

fn gate() -> Schema {
    let reference =
        object([("kind", text().default("Secret")), ("name", text().longest(253)), ("namespace", text().longest(63))]);
    let tls = object([
        ("mode", choice(&["Terminate", "Passthrough"]).default("Terminate")),
        ("certificates", list(reference.required(&["name"])).at_most(16)),
    ])
    .rule("self.mode != 'Terminate' || size(self.certificates) > 0", "who terminates needs certificates");
    let listener = object([
        ("name", text().longest(253)),
        ("hostname", host()),
        ("port", integer().between(1, 65535)),
        ("protocol", choice(&["HTTP", "HTTPS", "TCP", "UDP"])),
        ("tls", tls),
    ]);
    let listeners = keyed(&["name"], listener)
        .at_most(16)
        .rule("self.all(l, l.protocol in ['HTTP', 'TCP', 'UDP'] ? !has(l.tls) : true)", "only HTTPS has tls")
        .rule(
            "self.all(a, self.exists_one(b, a.port == b.port && a.protocol == b.protocol && \
             (has(a.hostname) == has(b.hostname)) && (!has(a.hostname) || a.hostname == b.hostname)))",
            "port, protocol and hostname are not those of another listener",
        );
    let address = object([("type", choice(&["IP", "Name"]).default("IP")), ("value", text().longest(253))])
        .rule("self.type != 'IP' || isIP(self.value)", "an address is an address");
    object([
        ("className", text().longest(253)),
        ("listeners", listeners),
        ("addresses", list(address).at_most(16)),
        ("labels", map(text().longest(63))),
    ])
    .required(&["className", "listeners"])
}

fn headers() -> Schema {
    keyed(&["name"], object([("name", text().longest(256)), ("value", text().longest(4096))])).at_most(16)
}

fn backend() -> Schema {
    object([
        ("name", text().longest(253)),
        ("namespace", text().longest(63)),
        ("port", integer().between(1, 65535)),
        ("weight", integer().between(0, 1_000_000).default(1)),
    ])
    .required(&["name"])
}

fn filter() -> Schema {
    let change = || object([("set", headers()), ("add", headers()), ("remove", set(text().longest(256)).at_most(16))]);
    let redirect =
        object([("scheme", choice(&["http", "https"])), ("hostname", host()), ("code", integer().default(302))])
            .rule("self.code in [301, 302, 303, 307, 308]", "a redirect has a code that redirects");
    let fields = [
        ("RequestHeaders", "requestHeaders", change()),
        ("ResponseHeaders", "responseHeaders", change()),
        ("Mirror", "mirror", object([("backend", backend())]).required(&["backend"])),
        ("Redirect", "redirect", redirect),
    ];
    let mut filter = object([("type", choice(&fields.each_ref().map(|(kind, ..)| *kind)))]).required(&["type"]);
    for (kind, name, schema) in fields {
        let rule = format!("(self.type == '{kind}') == has(self.{name})");
        filter = filter.and([(name, schema)]).rule(&rule, &format!("{name} goes with the type {kind}"));
    }
    filter
}

fn road() -> Schema {
    let path = object([
        ("type", choice(&["Exact", "Prefix", "Regex"]).default("Prefix")),
        ("value", text().longest(1024).default("/")),
    ])
    .rule("self.type == 'Regex' || self.value.startsWith('/')", "a path begins with a slash")
    .rule("self.type == 'Regex' || !self.value.contains('//')", "a path has no two slashes in a row")
    .rule("self.type != 'Prefix' || self.value.matches('^[A-Za-z0-9/._~-]+$')", "a prefix has simple characters")
    .default(json!({"type": "Prefix", "value": "/"}));
    let condition =
        object([("path", path), ("method", choice(&["GET", "POST", "PUT", "DELETE"])), ("headers", headers())]);
    let timeout = || text().pattern(r"^([0-9]{1,5}(h|m|s|ms)){1,4}$");
    let timeouts = object([("request", timeout()), ("backend", timeout())]).rule(
        "!(has(self.request) && has(self.backend) && duration(self.request) != duration('0s') && \
         duration(self.backend) > duration(self.request))",
        "a backend has no more time than its request",
    );
    let rule = object([
        ("name", text().longest(253)),
        ("matches", list(condition).at_most(8).default(json!([{"path": {"type": "Prefix", "value": "/"}}]))),
        (
            "filters",
            list(filter())
                .at_most(8)
                .rule("self.filter(f, f.type == 'Redirect').size() <= 1", "one redirect is enough"),
        ),
        ("backends", list(backend()).at_most(16)),
        ("timeouts", timeouts),
    ])
    .rule(
        "!(has(self.backends) && self.backends.size() > 0 && has(self.filters) && \
         self.filters.exists(f, has(f.redirect)))",
        "what is redirected has no backends",
    );
    let parent = object([
        ("kind", text().longest(63).default("Gate")),
        ("name", text().longest(253)),
        ("section", text().longest(253)),
    ]);
    let parents = list(parent.required(&["name"])).at_most(32).rule(
        "self.all(a, self.exists_one(b, a.kind == b.kind && a.name == b.name && \
         (has(a.section) ? a.section : '') == (has(b.section) ? b.section : '')))",
        "a parent is named once",
    );
    object([
        ("parents", parents),
        ("hostnames", list(host()).at_most(16)),
        ("rules", keyed(&["name"], rule).at_most(16)),
    ])
}

fn class_example() -> Example {
    Example {
        path: "/apis/roads.example.com/v1/roadclasses",
        kind: "RoadClass",
        spec: json!({"controller": "example.com/roads"}),
        defaulted: vec![],
        wrong: vec![
            Wrong::later(
                "another controller",
                "/spec/controller",
                json!("example.com/other"),
                "a class keeps its controller",
            ),
            Wrong::new(
                "no controller",
                "/spec/controller",
                json!("roads"),
                "spec.controller: Invalid value: \"roads\"",
            ),
        ],
        shared: Shared::nothing(),
    }
}

fn gate_example() -> Example {
    let certificate = json!({"name": "tls"});
    Example {
        path: "/apis/roads.example.com/v1/namespaces/default/gates",
        kind: "Gate",
        spec: json!({"className": "main", "addresses": [{"value": "192.0.2.1"}], "listeners": [
            {"name": "web", "port": 80, "protocol": "HTTP"},
            {"name": "safe", "port": 443, "protocol": "HTTPS", "tls": {"certificates": [certificate]}},
        ]}),
        defaulted: vec![
            ("/spec/addresses/0/type", json!("IP")),
            ("/spec/listeners/1/tls/mode", json!("Terminate")),
            ("/spec/listeners/1/tls/certificates/0/kind", json!("Secret")),
        ],
        wrong: vec![
            Wrong::new(
                "tls without need",
                "/spec/listeners/0/tls",
                json!({"certificates": [certificate]}),
                "spec.listeners: Invalid value: only HTTPS has tls",
            ),
            Wrong::new("no certificate", "/spec/listeners/1/tls/certificates", json!([]), "needs certificates"),
            Wrong::new(
                "the same door",
                "/spec/listeners/-",
                json!({"name": "again", "port": 80, "protocol": "HTTP"}),
                "port, protocol and hostname are not those of another listener",
            ),
            Wrong::new(
                "the same name",
                "/spec/listeners/-",
                json!({"name": "web", "port": 81, "protocol": "HTTP"}),
                r#"spec.listeners[2]: Duplicate value: {"name":"web"}"#,
            ),
            Wrong::new("no address", "/spec/addresses/0/value", json!("here"), "an address is an address"),
            Wrong::new("no protocol", "/spec/listeners/0/protocol", json!("IPX"), "Unsupported value: \"IPX\""),
        ],
        shared: Shared {
            list: "/spec/listeners",
            element: json!({"name": "names", "port": 53, "protocol": "UDP"}),
            conflicting: json!({"name": "web", "port": 8080}),
            conflict: r#"conflict with "one": .spec.listeners[name="web"].port"#,
        },
    }
}

fn road_example() -> Example {
    let redirect = json!({"type": "Redirect", "redirect": {"scheme": "https"}});
    Example {
        path: "/apis/roads.example.com/v1/namespaces/default/roads",
        kind: "Road",
        spec: json!({"parents": [{"name": "main"}], "hostnames": ["*.example.com"], "rules": [
            {"name": "shop", "matches": [{"method": "GET"}], "backends": [{"name": "shop", "port": 80}]},
            {"name": "old", "filters": [redirect]},
        ]}),
        defaulted: vec![
            ("/spec/parents/0/kind", json!("Gate")),
            ("/spec/rules/0/backends/0/weight", json!(1)),
            ("/spec/rules/0/matches/0/path", json!({"type": "Prefix", "value": "/"})),
            ("/spec/rules/1/matches", json!([{"path": {"type": "Prefix", "value": "/"}}])),
            ("/spec/rules/1/filters/0/redirect/code", json!(302)),
        ],
        wrong: vec![
            Wrong::new(
                "a filter of another type",
                "/spec/rules/1/filters/0/type",
                json!("Mirror"),
                "spec.rules[1].filters[0]: Invalid value: mirror goes with the type Mirror",
            ),
            Wrong::new(
                "two redirects",
                "/spec/rules/1/filters/-",
                redirect,
                "spec.rules[1].filters: Invalid value: one",
            ),
            Wrong::new("both", "/spec/rules/1/backends", json!([{"name": "x"}]), "what is redirected has no backends"),
            Wrong::new(
                "no path",
                "/spec/rules/0/matches/0/path/value",
                json!("shop//x"),
                "spec.rules[0].matches[0].path: Invalid value: a path begins with a slash",
            ),
            Wrong::new("too slow", "/spec/rules/0/timeouts", json!({"request": "1s", "backend": "2s"}), "no more time"),
            Wrong::new("a parent twice", "/spec/parents/-", json!({"name": "main"}), "a parent is named once"),
            Wrong::new("no host", "/spec/hostnames", json!(["Shop"]), "spec.hostnames[0]: Invalid value: \"Shop\""),
        ],
        shared: Shared {
            list: "/spec/rules",
            element: json!({"name": "api", "backends": [{"name": "api"}]}),
            conflicting: json!({"name": "shop", "matches": [{"method": "PUT"}]}),
            conflict: r#"conflict with "one": .spec.rules[name="shop"].matches"#,
        },
    }
}
