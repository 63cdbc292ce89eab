//! Kinds in the style of a certificate manager: deep issuers with templates of what solves their challenges.

use serde_json::json;

use super::pods::pod_template;
use super::schema::*;
use super::{Example, Family, Shared, Wrong};

const GROUP: &str = "papers.example.com";

pub(super) fn family() -> Family {
    let both = |spec: fn() -> Schema| {
        vec![version("v1", spec(), object([])), version("v1beta1", spec(), object([("note", text())]))]
    };
    let issuer = |kind, cluster| Definition { group: GROUP, kind, cluster, versions: both(issuer) };
    let certificate = Definition { group: GROUP, kind: "Certificate", cluster: false, versions: both(certificate) };
    Family {
        definitions: vec![issuer("Issuer", false), issuer("ClusterIssuer", true), certificate],
        fields: 2_000,
        examples: vec![certificate_example(), issuer_example()],
    }
}

fn secret_key() -> Schema {
    object([("name", text()), ("key", text().default("tls.key"))]).required(&["name"])
}

fn certificate() -> Schema {
    let private_key = object([
        ("algorithm", choice(&["RSA", "ECDSA", "Ed25519"]).default("RSA")),
        ("encoding", choice(&["PKCS1", "PKCS8"])),
        ("size", integer().between(256, 8192)),
        ("rotation", choice(&["Never", "Always"]).default("Never")),
    ])
    .rule("self.algorithm != 'Ed25519' || !has(self.size)", "an Ed25519 key has no size")
    .default(json!({}));
    let issuer = object([("name", text()), ("kind", text().default("Issuer")), ("group", text())]).required(&["name"]);
    let store = || object([("create", boolean()), ("password", secret_key())]).required(&["create"]);
    let output = object([("type", choice(&["DER", "CombinedPEM"])), ("path", text())]);
    object([
        ("commonName", text().longest(64)),
        ("dnsNames", set_of_names()),
        ("duration", text().format("duration").default("2160h")),
        ("renewBefore", text().format("duration")),
        ("secretName", text().longest(253)),
        ("issuer", issuer),
        ("privateKey", private_key),
        ("keystores", object([("jks", store()), ("pkcs12", store())])),
        ("usages", set(choice(&["signing", "key encipherment", "server auth", "client auth"])).at_most(4)),
        ("outputs", keyed(&["type"], output).at_most(2)),
        (
            "subject",
            object(texts(&["serialNumber"])).and([("countries", list(text())), ("organizations", list(text()))]),
        ),
        ("secretTemplate", object([("labels", map(text())), ("annotations", map(text()))])),
    ])
    .required(&["secretName", "issuer"])
    .rule(
        "!has(self.renewBefore) || duration(self.renewBefore) < duration(self.duration)",
        "a certificate is renewed before it ends",
    )
    .rule("has(self.commonName) || (has(self.dnsNames) && self.dnsNames.size() > 0)", "a certificate is for some name")
}

fn set_of_names() -> Schema {
    set(text().longest(253).pattern(r"^(\*\.)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")).at_most(100)
}

fn issuer() -> Schema {
    const PROVIDERS: [&str; 6] = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot"];
    let provider = |name| {
        let account = object(texts(&["account", "project", "region", "zone", "endpoint", "user"]));
        (name, account.and([("token", secret_key()), ("secret", secret_key())]))
    };
    let http = || {
        object([
            ("class", text()),
            ("serviceType", choice(&["ClusterIP", "NodePort"]).default("ClusterIP")),
            ("podTemplate", pod_template()),
            ("routeTemplate", object([("labels", map(text())), ("annotations", map(text()))])),
        ])
    };
    let selector = object([("matchLabels", map(text())), ("dnsNames", set_of_names()), ("dnsZones", set_of_names())]);
    let solver = object([
        ("name", text().longest(63)),
        ("selector", selector),
        ("http", object([("ingress", http()), ("gateway", http())])),
        ("dns", object(PROVIDERS.map(provider))),
    ])
    .rule("has(self.http) != has(self.dns)", "a solver is either http or dns");
    let acme = object([
        ("server", text().format("uri").longest(2048)),
        ("email", text()),
        ("privateKey", secret_key()),
        ("solvers", keyed(&["name"], solver).at_most(20)),
    ])
    .required(&["server", "privateKey"]);
    let vault = object(texts(&["server", "path", "namespace", "role"])).and([("token", secret_key())]);
    object([("acme", acme), ("vault", vault), ("ca", object(texts(&["secretName"]))), ("selfSigned", object([]))]).rule(
        "[has(self.acme), has(self.vault), has(self.ca), has(self.selfSigned)].filter(is, is).size() == 1",
        "an issuer is of exactly one sort",
    )
}

fn certificate_example() -> Example {
    let spec = json!({
        "secretName": "shop-tls", "dnsNames": ["shop.example.com"], "renewBefore": "360h", "issuer": {"name": "shop"},
        "outputs": [{"type": "DER", "path": "/der"}],
    });
    Example {
        path: "/apis/papers.example.com/v1/namespaces/default/certificates",
        kind: "Certificate",
        spec,
        defaulted: vec![
            ("/spec/duration", json!("2160h")),
            ("/spec/issuer/kind", json!("Issuer")),
            ("/spec/privateKey", json!({"algorithm": "RSA", "rotation": "Never"})),
        ],
        wrong: vec![
            Wrong::new("no name", "/spec/dnsNames", json!([]), "spec: Invalid value: a certificate is for some name"),
            Wrong::new("ends first", "/spec/renewBefore", json!("2160h"), "a certificate is renewed before it ends"),
            Wrong::new("a size", "/spec/privateKey", json!({"algorithm": "Ed25519", "size": 256}), "has no size"),
            Wrong::new("a choice", "/spec/usages", json!(["flying"]), "spec.usages[0]: Unsupported value: \"flying\""),
            Wrong::new("a pattern", "/spec/dnsNames", json!(["-"]), "spec.dnsNames[0]: Invalid value: \"-\""),
            Wrong::new("a format", "/spec/duration", json!("soon"), "spec.duration: Invalid value: \"soon\""),
            Wrong::new("twice", "/spec/dnsNames", json!(["a.b", "a.b"]), "spec.dnsNames[1]: Duplicate value: \"a.b\""),
        ],
        shared: Shared {
            list: "/spec/outputs",
            element: json!({"type": "CombinedPEM", "path": "/pem"}),
            conflicting: json!({"type": "DER", "path": "/other"}),
            conflict: r#"conflict with "one": .spec.outputs[type="DER"].path"#,
        },
    }
}

fn issuer_example() -> Example {
    let container =
        json!({"name": "solver", "image": "solver:1", "ports": [{"containerPort": 8089}], "livenessProbe": {}});
    let template = json!({"spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]}});
    let solver = json!({"name": "web", "http": {"ingress": {"podTemplate": template}}});
    let spec = json!({"acme": {
        "server": "https://acme.example.com/directory", "privateKey": {"name": "account"}, "solvers": [solver],
    }});
    Example {
        path: "/apis/papers.example.com/v1/clusterissuers",
        kind: "ClusterIssuer",
        spec,
        defaulted: vec![
            ("/spec/acme/privateKey/key", json!("tls.key")),
            ("/spec/acme/solvers/0/http/ingress/serviceType", json!("ClusterIP")),
            ("/spec/acme/solvers/0/http/ingress/podTemplate/spec/containers/0/ports/0/protocol", json!("TCP")),
            ("/spec/acme/solvers/0/http/ingress/podTemplate/spec/containers/0/livenessProbe/periodSeconds", json!(10)),
        ],
        wrong: vec![
            Wrong::new("two sorts", "/spec/selfSigned", json!({}), "an issuer is of exactly one sort"),
            Wrong::new(
                "two solutions",
                "/spec/acme/solvers/0/dns",
                json!({"echo": {"region": "north"}}),
                "spec.acme.solvers[0]: Invalid value: a solver is either http or dns",
            ),
            Wrong::new(
                "a port out of range, far below",
                "/spec/acme/solvers/0/http/ingress/podTemplate/spec/containers/0/ports/0/containerPort",
                json!(70_000),
                "spec.acme.solvers[0].http.ingress.podTemplate.spec.containers[0].ports[0].containerPort",
            ),
            Wrong::new("no address", "/spec/acme/server", json!("::"), "spec.acme.server: Invalid value: \"::\""),
        ],
        shared: Shared {
            list: "/spec/acme/solvers",
            element: json!({"name": "names", "dns": {"alpha": {"zone": "z"}}}),
            conflicting: json!({"name": "web", "http": {"ingress": {"podTemplate": {
                "spec": {"containers": [{"name": "solver", "image": "solver:2"}]},
            }}}}),
            conflict: r#"solvers[name="web"].http.ingress.podTemplate.spec.containers[name="solver"].image"#,
        },
    }
}
