//! What Ingresses are refused, and how they are shown.

use super::*;
use crate::kinds::probe::{messages, update_messages};

fn ingress(change: impl FnOnce(&mut Value)) -> Value {
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let paths = json!([{"path": "/", "pathType": "Prefix", "backend": backend}]);
    let mut object = json!({
        "metadata": {"name": "web"},
        "spec": {"rules": [{"host": "example.com", "http": {"paths": paths}}]},
    });
    change(&mut object);
    object
}

fn rule(object: &mut Value) -> &mut Value {
    &mut object["spec"]["rules"][0]
}

fn path(object: &mut Value) -> &mut Value {
    &mut rule(object)["http"]["paths"][0]
}

#[test]
fn ingresses_are_checked() {
    type Change = fn(&mut Value);
    let rows: &[(&str, Change, &[&str])] = &[
        ("a good one", |_| {}, &[]),
        (
            "nothing at all",
            |object| object["spec"] = json!({}),
            &["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"],
        ),
        ("a backend alone", |object| object["spec"] = json!({"defaultBackend": path(object)["backend"]}), &[]),
        (
            "an address for a host",
            |object| rule(object)["host"] = json!("10.0.0.1"),
            &[r#"spec.rules[0].host: Invalid value: "10.0.0.1": must be a DNS name, not an IP address"#],
        ),
        ("any host of a domain", |object| rule(object)["host"] = json!("*.example.com"), &[]),
        (
            "a wildcard inside",
            |object| rule(object)["host"] = json!("a.*.com"),
            &[
                "spec.rules[0].host: Invalid value: \"a.*.com\": a wildcard DNS-1123 subdomain must start with '*.', followed by \
               a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an \
               alphanumeric character",
            ],
        ),
        ("no paths", |object| rule(object)["http"]["paths"] = json!([]), &["spec.rules[0].http.paths: Required value"]),
        (
            "no type of path",
            |object| path(object)["pathType"] = Value::Null,
            &["spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"],
        ),
        (
            "a type of path that is none",
            |object| path(object)["pathType"] = json!("Regex"),
            &[
                r#"spec.rules[0].http.paths[0].pathType: Unsupported value: "Regex": supported values: "Exact", "ImplementationSpecific", "Prefix""#,
            ],
        ),
        (
            "a path that starts nowhere and goes up",
            |object| path(object)["path"] = json!("a/../b/.."),
            &[
                r#"spec.rules[0].http.paths[0].path: Invalid value: "a/../b/..": must be an absolute path"#,
                r#"spec.rules[0].http.paths[0].path: Invalid value: "a/../b/..": must not contain '/../'"#,
                r#"spec.rules[0].http.paths[0].path: Invalid value: "a/../b/..": cannot end with '/..'"#,
            ],
        ),
        (
            "what only the server of it understands",
            |object| {
                path(object)["pathType"] = json!("ImplementationSpecific");
                path(object)["path"] = json!("/a//b");
            },
            &[],
        ),
        (
            "no backend",
            |object| path(object)["backend"] = json!({}),
            &[r#"spec.rules[0].http.paths[0].backend: Invalid value: "": resource or service backend is required"#],
        ),
        (
            "two backends",
            |object| path(object)["backend"]["resource"] = json!({"kind": "Bucket", "name": "a"}),
            &[
                r#"spec.rules[0].http.paths[0].backend: Invalid value: "": cannot set both resource and service backends"#,
            ],
        ),
        (
            "an object of no kind",
            |object| path(object)["backend"] = json!({"resource": {"apiGroup": "example.com", "name": "a"}}),
            &["spec.rules[0].http.paths[0].backend.resource.kind: Required value"],
        ),
        (
            "a service without name and port",
            |object| path(object)["backend"] = json!({"service": {"name": "", "port": {}}}),
            &[
                "spec.rules[0].http.paths[0].backend.service.name: Required value",
                "spec.rules[0].http.paths[0].backend: Required value: port name or number is required",
            ],
        ),
        (
            "a port twice",
            |object| path(object)["backend"]["service"]["port"] = json!({"name": "http", "number": 80}),
            &[r#"spec.rules[0].http.paths[0].backend: Invalid value: "": cannot set both port name & port number"#],
        ),
        (
            "a port that is none",
            |object| path(object)["backend"]["service"]["port"] = json!({"number": 70_000}),
            &[
                "spec.rules[0].http.paths[0].backend.service.port.number: Invalid value: 70000: must be between 1 and 65535, \
                 inclusive",
            ],
        ),
        (
            "a secret and a class with bad names",
            |object| {
                object["spec"]["tls"] = json!([{"hosts": ["example.com"], "secretName": "A"}]);
                object["spec"]["ingressClassName"] = json!("B");
            },
            &[
                "spec.tls[0].secretName: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case \
                 alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
                "spec.ingressClassName: Invalid value: \"B\": a lowercase RFC 1123 subdomain must consist of lower case \
                 alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            ],
        ),
        (
            "two classes",
            |object| {
                object["metadata"]["annotations"] = json!({CLASS_ANNOTATION: "a"});
                object["spec"]["ingressClassName"] = json!("b");
            },
            &[
                r#"annotations.kubernetes.io/ingress.class: Invalid value: "a": must match `ingressClassName` when both are specified"#,
            ],
        ),
    ];
    for (name, change, expected) in rows {
        assert_eq!(messages(&Ingress, &ingress(change)), *expected, "{name}");
    }
}

#[test]
fn a_status_says_where_it_is() {
    let with = |points: Value| ingress(|object| object["status"] = json!({"loadBalancer": {"ingress": points}}));
    let rows = [
        ("an address and a host", json!([{"ip": "10.0.0.1"}, {"hostname": "a.example.com"}]), vec![]),
        ("an address that it had", json!([{"ip": "010.0.0.1"}]), vec![]),
        (
            "no address",
            json!([{"ip": "here"}]),
            vec![r#"status.loadBalancer.ingress[0].ip: Invalid value: "here": must be a valid IP address,"#],
        ),
        (
            "an address for a host",
            json!([{"hostname": "10.0.0.1"}]),
            vec![
                "status.loadBalancer.ingress[0].hostname: Invalid value: \"10.0.0.1\": must be a DNS name, not an IP address",
            ],
        ),
    ];
    let old = with(json!([{"ip": "010.0.0.1"}]));
    for (name, points, expected) in rows {
        assert_eq!(update_messages(&Ingress, &with(points), &old, Part::Status), expected, "{name}");
    }
}

#[test]
fn the_old_way_to_name_a_class_is_remarked_on() {
    let object = ingress(|object| object["metadata"]["annotations"] = json!({CLASS_ANNOTATION: "a"}));
    let told = ["annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"];
    assert_eq!(Ingress.warnings(Node::root(&object), None), told);
    assert!(Ingress.warnings(Node::root(&object), Some(&object)).is_empty());
}

#[test]
fn hosts_and_addresses_are_listed() {
    let with = |hosts: &[&str]| {
        let rules: Vec<Value> = hosts.iter().map(|host| json!({"host": host})).collect();
        json!({"spec": {"rules": rules}})
    };
    let rows = [
        ("none", with(&[]), "*"),
        ("any", with(&[""]), "*"),
        ("three", with(&["a", "b", "c"]), "a,b,c"),
        ("five", with(&["a", "b", "c", "d", "e"]), "a,b,c + 2 more..."),
    ];
    for (name, object, expected) in rows {
        assert_eq!(hosts(&object), expected, "{name}");
    }
    let points = json!([{"ip": "10.0.0.2"}, {"hostname": "lb.example.com"}, {"ip": "10.0.0.1"}]);
    let object = json!({"status": {"loadBalancer": {"ingress": points}}});
    assert_eq!(addresses(&object), "10.0.0.1,10.0...");
}
