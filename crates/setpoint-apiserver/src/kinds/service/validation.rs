//! The rules of Services.

use std::collections::HashSet;

use serde_json::Value;

use super::{cluster_ips, load_balancer, ports, spec};
use crate::ip;
use setpoint_api::field::{Errors, Node};
use setpoint_api::labels;
use setpoint_api::names;

const TYPES: [&str; 4] = [spec::CLUSTER_IP, spec::EXTERNAL_NAME, spec::LOAD_BALANCER, spec::NODE_PORT];
const AFFINITIES: [&str; 2] = ["ClientIP", "None"];
const TRAFFIC_POLICIES: [&str; 2] = ["Cluster", "Local"];
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
const AFFINITY_TIMEOUT_MAX_S: i64 = 86_400;
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";

/// Everything that must hold of a Service; addresses that an older one already had are let be.
pub(super) fn validate(service: Node<'_, '_>, old: Option<&Value>, errors: &mut Errors) {
    validate_topology(service, errors);
    let spec = service.field("spec");
    let ports = spec.field("ports");
    if ports.is_empty() && !spec::is_headless(service.value) && spec::kind(service.value) != spec::EXTERNAL_NAME {
        errors.required(&ports.path, "");
    }
    validate_for_type(service, errors);
    ports::validate(spec.field("ports"), errors);
    labels::validate_labels(spec.field("selector"), errors);
    validate_affinity(spec, errors);
    cluster_ips::validate(service, old, errors);
    validate_external_ips(spec, old, errors);
    one_of(spec.field("type"), &TYPES, errors);
    ports::validate_unique(service, errors);
    load_balancer::validate(service, old, errors);
    validate_traffic(service, errors);
}

/// What may not change.
pub(super) fn validate_change(service: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    cluster_ips::validate_change(service, old, errors);
    let spec = service.field("spec");
    let class = spec.field("loadBalancerClass");
    let balanced = |service: &Value| spec::kind(service) == spec::LOAD_BALANCER;
    if balanced(old) && balanced(service.value) && *class.value != old["spec"]["loadBalancerClass"] {
        let shown = if class.is_set() { class.str() } else { "null" };
        errors.invalid(&class.path, shown, "may not change once set");
    }
    load_balancer::validate_class(service, errors);
    if spec::needs_health_port(old)
        && spec::needs_health_port(service.value)
        && spec::health_port(old) != spec::health_port(service.value)
    {
        errors.forbidden(&spec.field("healthCheckNodePort").path, "field is immutable");
    }
}

/// Remarks on what is accepted and has no effect.
pub(super) fn warnings(service: Node<'_, '_>) -> Vec<String> {
    let spec = service.field("spec");
    let external_ips = !spec.field("externalIPs").is_empty();
    let mut warnings = Vec::new();
    if service.field("metadata").field("annotations").field(TOPOLOGY_HINTS).is_set() {
        warnings.push(format!("annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"));
    }
    if spec::is_headless(service.value) {
        let ignored = [
            ("loadBalancerIP", !spec.field("loadBalancerIP").str().is_empty()),
            ("externalIPs", external_ips),
            ("SessionAffinity", spec.field("sessionAffinity").str() != "None"),
        ];
        let ignored = ignored.iter().filter(|(_, set)| *set);
        warnings.extend(ignored.map(|(field, _)| format!("spec.{field} is ignored for headless services")));
    }
    if external_ips && spec::kind(service.value) == spec::EXTERNAL_NAME {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    warnings
}

fn validate_topology(service: Node<'_, '_>, errors: &mut Errors) {
    let metadata = service.field("metadata");
    let annotations = metadata.field("annotations");
    let (mode, hints) = (annotations.field(TOPOLOGY_MODE), annotations.field(TOPOLOGY_HINTS));
    if mode.is_set() && hints.is_set() && mode.str() != hints.str() {
        let detail = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        errors.invalid(&annotations.path.key(TOPOLOGY_MODE), mode.str(), &detail);
    }
}

fn validate_for_type(service: Node<'_, '_>, errors: &mut Errors) {
    let spec = service.field("spec");
    match spec::kind(service.value) {
        kind @ (spec::LOAD_BALANCER | spec::NODE_PORT) if spec::is_headless(service.value) => {
            let detail = format!("may not be set to 'None' for {kind} services");
            errors.invalid(&spec.field("clusterIPs").path.index(0), spec::NONE, &detail);
        }
        spec::EXTERNAL_NAME => {
            for name in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                let field = spec.field(name);
                if !field.is_empty() || !field.str().is_empty() {
                    errors.forbidden(&field.path, "may not be set for ExternalName services");
                }
            }
            let external = spec.field("externalName");
            let name = external.str().strip_suffix('.').unwrap_or(external.str());
            if name.is_empty() {
                errors.required(&external.path, "");
            }
            for message in names::dns1123_subdomain(name).iter().filter(|_| !name.is_empty()) {
                errors.invalid(&external.path, name, message);
            }
        }
        _ => {}
    }
}

fn validate_affinity(spec: Node<'_, '_>, errors: &mut Errors) {
    let affinity = spec.field("sessionAffinity");
    one_of(affinity, &AFFINITIES, errors);
    let config = spec.field("sessionAffinityConfig");
    if affinity.str() == "None" && config.is_set() {
        errors.forbidden(&config.path, "must not be set when session affinity is None");
    }
    if affinity.str() != "ClientIP" {
        return;
    }
    let client = config.field("clientIP");
    let timeout = client.field("timeoutSeconds");
    if let Some(missing) = [config, client, timeout].iter().find(|field| !field.is_set()) {
        return errors.required(&missing.path, "when session affinity type is ClientIP");
    }
    let seconds = timeout.i64().unwrap_or_default();
    if !(1..=AFFINITY_TIMEOUT_MAX_S).contains(&seconds) {
        let detail = format!("must be greater than 0 and less than {AFFINITY_TIMEOUT_MAX_S}");
        errors.invalid(&timeout.path, seconds, &detail);
    }
}

fn validate_external_ips(spec: Node<'_, '_>, old: Option<&Value>, errors: &mut Errors) {
    let known: HashSet<&str> =
        old.map(|old| spec::texts(&old["spec"]["externalIPs"])).unwrap_or_default().into_iter().collect();
    for address in spec.field("externalIPs").items() {
        let mut faults = Errors::default();
        if !known.contains(address.str()) {
            ip::validate(address, &mut faults);
        }
        if faults.is_empty() {
            ip::validate_external(address, &mut faults);
        }
        errors.extend(faults);
    }
}

fn validate_traffic(service: Node<'_, '_>, errors: &mut Errors) {
    let spec = service.field("spec");
    let external = spec.field("externalTrafficPolicy");
    if spec::is_externally_accessible(service.value) {
        one_of(external, &TRAFFIC_POLICIES, errors);
    } else if !external.str().is_empty() {
        errors.invalid(&external.path, external.str(), "may only be set for externally-accessible services");
    }
    let health = spec.field("healthCheckNodePort");
    match (spec::needs_health_port(service.value), spec::health_port(service.value)) {
        (false, 0) => {}
        (false, port) => {
            let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.invalid(&health.path, port, detail);
        }
        (true, 0) => errors.required(&health.path, ""),
        (true, _) => ports::validate_number(health, errors),
    }
    let internal = spec.field("internalTrafficPolicy");
    let needed = matches!(spec::kind(service.value), spec::CLUSTER_IP | spec::NODE_PORT | spec::LOAD_BALANCER);
    if needed || internal.is_set() {
        one_of(internal, &TRAFFIC_POLICIES, errors);
    }
    let distribution = spec.field("trafficDistribution");
    if distribution.is_set() && !DISTRIBUTIONS.contains(&distribution.str()) {
        errors.unsupported(&distribution.path, distribution.str(), &DISTRIBUTIONS);
    }
}

/// A field that must have one of some values.
fn one_of(field: Node<'_, '_>, values: &[&str], errors: &mut Errors) {
    match field.str() {
        "" => errors.required(&field.path, ""),
        known if values.contains(&known) => {}
        other => errors.unsupported(&field.path, other, values),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kind::Behaviour;
    use crate::kinds::service::Service;

    fn complete(spec: Value) -> Value {
        let mut service = json!({"metadata": {"name": "a"}, "spec": spec});
        Service.default(&mut service);
        service
    }

    fn messages(check: impl Fn(Node<'_, '_>, &mut Errors), service: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        check(Node::root(service), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn contents_are_checked() {
        let port = json!([{"port": 80}]);
        let rows = [
            ("a port", json!({"ports": port}), vec![]),
            ("no port", json!({}), vec!["spec.ports: Required value"]),
            ("headless without one", json!({"clusterIP": "None", "clusterIPs": ["None"]}), vec![]),
            ("no name to stand for", json!({"type": "ExternalName"}), vec!["spec.externalName: Required value"]),
            ("a name with its dot", json!({"type": "ExternalName", "externalName": "a.example."}), vec![]),
            (
                "a name that cannot be headless",
                json!({"type": "ExternalName", "externalName": "a", "clusterIPs": ["None"]}),
                vec!["spec.clusterIPs: Forbidden: may not be set for ExternalName services"],
            ),
            (
                "a node port nobody can be headless on",
                json!({"type": "NodePort", "clusterIP": "None", "clusterIPs": ["None"]}),
                vec![r#"spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for NodePort services"#],
            ),
            (
                "affinity for longer than a day",
                json!({"ports": port, "sessionAffinity": "ClientIP",
                    "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 86401}}}),
                vec![
                    "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be greater than 0 and \
                     less than 86400",
                ],
            ),
            (
                "this host as an external address",
                json!({"ports": port, "externalIPs": ["127.0.0.1"]}),
                vec![
                    "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, \
                     ::1/128)",
                ],
            ),
            (
                "traffic from outside that never comes",
                json!({"ports": port, "externalTrafficPolicy": "Local", "healthCheckNodePort": 30000}),
                vec![
                    "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible \
                     services",
                    "spec.healthCheckNodePort: Invalid value: 30000: may only be set when `type` is 'LoadBalancer' and \
                     `externalTrafficPolicy` is 'Local'",
                ],
            ),
            (
                "unknown words",
                json!({"type": "Nope", "ports": port, "sessionAffinity": "X", "trafficDistribution": "Any"}),
                vec![
                    r#"spec.sessionAffinity: Unsupported value: "X": supported values: "ClientIP", "None""#,
                    "spec.type: Unsupported value: \"Nope\": supported values: \"ClusterIP\", \"ExternalName\", \
                     \"LoadBalancer\", \"NodePort\"",
                    "spec.trafficDistribution: Unsupported value: \"Any\": supported values: \"PreferClose\", \
                     \"PreferSameZone\", \"PreferSameNode\"",
                ],
            ),
        ];
        let check = |node: Node<'_, '_>, errors: &mut Errors| validate(node, None, errors);
        for (name, spec, expected) in rows {
            assert_eq!(messages(check, &complete(spec)), expected, "{name}");
        }
    }

    #[test]
    fn some_fields_stay() {
        let old =
            complete(json!({"type": "LoadBalancer", "loadBalancerClass": "a/b", "externalTrafficPolicy": "Local",
            "healthCheckNodePort": 30000}));
        let mut service = old.clone();
        service["spec"]["loadBalancerClass"] = json!("a/c");
        service["spec"]["healthCheckNodePort"] = json!(30001);
        let check = |node: Node<'_, '_>, errors: &mut Errors| validate_change(node, &old, errors);
        assert_eq!(
            messages(check, &service),
            [
                r#"spec.loadBalancerClass: Invalid value: "a/c": may not change once set"#,
                "spec.healthCheckNodePort: Forbidden: field is immutable",
            ]
        );
    }

    #[test]
    fn what_has_no_effect_is_remarked_on() {
        let headless = complete(json!({"clusterIP": "None", "clusterIPs": ["None"], "sessionAffinity": "ClientIP"}));
        assert_eq!(warnings(Node::root(&headless)), ["spec.SessionAffinity is ignored for headless services"]);
        let named = complete(json!({"type": "ExternalName", "externalIPs": ["1.2.3.4"]}));
        assert_eq!(warnings(Node::root(&named)), ["spec.externalIPs is ignored when spec.type is \"ExternalName\""]);
    }
}
