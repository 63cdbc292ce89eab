//! How `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy` must agree.

use std::collections::HashSet;
use std::net::IpAddr;

use serde_json::Value;

use super::spec;
use crate::ip;
use setpoint_api::field::{Errors, Node};

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];

/// Checks the four fields of one Service.
pub(super) fn validate(service: Node<'_, '_>, old: Option<&Value>, errors: &mut Errors) {
    if !spec::needs_cluster_ip(service.value) {
        return;
    }
    let spec = service.field("spec");
    let ips = spec.field("clusterIPs");
    validate_first(spec.field("clusterIP").str(), ips, errors);
    validate_families(spec, errors);

    let known: HashSet<&str> = old.map(spec::cluster_ips).unwrap_or_default().into_iter().collect();
    let mut faults = Errors::default();
    for (index, address) in ips.items().enumerate() {
        if index == 0 && address.str() == spec::NONE {
            if ips.len() > 1 {
                faults.invalid(&ips.path, ips.value, "'None' must be the first and only value");
            }
        } else if !known.contains(address.str()) {
            ip::validate(address, &mut faults);
        }
    }
    let bad_addresses = !faults.is_empty();
    errors.extend(faults);
    if ips.len() > 2 {
        errors.invalid(&ips.path, ips.value, "may only hold up to 2 values");
    }
    if !bad_addresses {
        validate_against_families(service, errors);
    }
}

/// Checks a change: the first address stays, unless the Service becomes or was another name.
pub(super) fn validate_change(service: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    let (was_headless, is_headless) = (spec::is_headless(old), spec::is_headless(service.value));
    let named = !spec::needs_cluster_ip(service.value) || !spec::needs_cluster_ip(old);
    if named || was_headless && is_headless {
        return;
    }
    let spec = service.field("spec");
    let policy = spec.field("ipFamilyPolicy");
    validate_list_change(spec.field("clusterIPs"), &spec::cluster_ips(old), "clusterIP", policy, errors);
    if !was_headless && !is_headless {
        validate_list_change(spec.field("ipFamilies"), &spec::families(old), "ipFamily", policy, errors);
    }
}

fn validate_list_change(list: Node<'_, '_>, before: &[&str], noun: &str, policy: Node<'_, '_>, errors: &mut Errors) {
    let after = spec::texts(list.value);
    if before.len() == after.len() {
        for index in (0..before.len()).filter(|index| before[*index] != after[*index]) {
            errors.invalid(&list.path.index(index), &after, "may not change once set");
        }
    } else if after.is_empty() {
        errors.invalid(&list.path.index(0), &after, &format!("primary {noun} can not be unset"));
    } else if before.first().is_some_and(|before| *before != after[0]) {
        errors.invalid(&list.path.index(0), &after, "may not change once set");
    }
    if before.len() > 1 && after.len() == 1 && policy.str() != "SingleStack" {
        let detail = format!("must be set to 'SingleStack' when releasing the secondary {noun}");
        errors.invalid(&policy.path, policy.str(), &detail);
    }
}

fn validate_first(cluster_ip: &str, ips: Node<'_, '_>, errors: &mut Errors) {
    let first = ips.items().next().map(|first| first.str());
    match (cluster_ip, first) {
        ("", None) => {}
        ("", Some(_)) => {
            errors.invalid(&ips.path, ips.value, "must be empty when `clusterIP` is not specified");
        }
        (_, None) => errors.required(&ips.path, ""),
        (single, Some(first)) if single != first => {
            errors.invalid(&ips.path, ips.value, "first value must match `clusterIP`");
        }
        _ => {}
    }
}

fn validate_families(spec: Node<'_, '_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for family in spec.field("ipFamilies").items() {
        if !FAMILIES.contains(&family.str()) {
            errors.unsupported(&family.path, family.str(), &FAMILIES);
        }
        if !seen.insert(family.str()) {
            errors.duplicate(&family.path, family.str());
        }
    }
    let policy = spec.field("ipFamilyPolicy");
    if policy.is_set() && !POLICIES.contains(&policy.str()) {
        errors.unsupported(&policy.path, policy.str(), &POLICIES);
    }
}

/// Checks well-formed addresses: one of each family, in the order of `ipFamilies`.
fn validate_against_families(service: Node<'_, '_>, errors: &mut Errors) {
    if spec::is_headless(service.value) {
        return;
    }
    let spec_node = service.field("spec");
    let ips = spec_node.field("clusterIPs");
    let parsed: Vec<Option<IpAddr>> = ips.items().map(|address| ip::parse(address.str())).collect();
    if parsed.len() > 1 {
        let both = |v4: bool| parsed.iter().flatten().any(|address| address.is_ipv4() == v4);
        if !(both(true) && both(false)) {
            errors.invalid(&ips.path, ips.value, "may specify no more than one IP for each IP family");
        }
    }
    let families = spec::families(service.value);
    for (index, (address, family)) in ips.items().zip(&families).enumerate() {
        let actual = parsed[index].map(ip::family);
        if FAMILIES.contains(family) && actual.is_some_and(|actual| actual != *family) {
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.invalid(&address.path, address.str(), &detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(check: impl Fn(Node<'_, '_>, &mut Errors), spec: Value) -> Vec<String> {
        let mut errors = Errors::default();
        check(Node::root(&json!({"spec": spec})), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_fields_agree() {
        let check = |node: Node<'_, '_>, errors: &mut Errors| validate(node, None, errors);
        let rows = [
            ("nothing said", json!({}), vec![]),
            ("headless", json!({"clusterIP": "None", "clusterIPs": ["None"], "ipFamilies": ["IPv4", "IPv6"]}), vec![]),
            (
                "both families",
                json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "2001:db8::1"], "ipFamilies": ["IPv4", "IPv6"]}),
                vec![],
            ),
            (
                "two first addresses",
                json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.2"]}),
                vec![r#"spec.clusterIPs: Invalid value: ["10.0.0.2"]: first value must match `clusterIP`"#],
            ),
            (
                "no first address",
                json!({"clusterIPs": ["10.0.0.2"]}),
                vec![
                    r#"spec.clusterIPs: Invalid value: ["10.0.0.2"]: must be empty when `clusterIP` is not specified"#,
                ],
            ),
            (
                "one family twice",
                json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "10.0.0.2"]}),
                vec![
                    "spec.clusterIPs: Invalid value: [\"10.0.0.1\",\"10.0.0.2\"]: may specify no more than one IP for each \
                     IP family",
                ],
            ),
            (
                "an address of the other family",
                json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv6"]}),
                vec![
                    "spec.clusterIPs[0]: Invalid value: \"10.0.0.1\": expected an IPv6 value as indicated by \
                     `ipFamilies[0]`",
                ],
            ),
            (
                "unknown words",
                json!({"ipFamilies": ["IPX", "IPX"], "ipFamilyPolicy": "Any"}),
                vec![
                    r#"spec.ipFamilies[0]: Unsupported value: "IPX": supported values: "IPv4", "IPv6""#,
                    r#"spec.ipFamilies[1]: Unsupported value: "IPX": supported values: "IPv4", "IPv6""#,
                    r#"spec.ipFamilies[1]: Duplicate value: "IPX""#,
                    "spec.ipFamilyPolicy: Unsupported value: \"Any\": supported values: \"PreferDualStack\", \
                     \"RequireDualStack\", \"SingleStack\"",
                ],
            ),
        ];
        for (name, spec, expected) in rows {
            assert_eq!(messages(check, spec), expected, "{name}");
        }
    }

    #[test]
    fn the_first_address_stays() {
        let old = json!({"spec": {"clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"]}});
        let check = |node: Node<'_, '_>, errors: &mut Errors| validate_change(node, &old, errors);
        let rows = [
            ("the same", old["spec"].clone(), vec![]),
            (
                "another",
                json!({"clusterIPs": ["10.0.0.2"], "ipFamilies": ["IPv4"]}),
                vec![r#"spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set"#],
            ),
            (
                "headless now",
                json!({"clusterIPs": ["None"]}),
                vec![r#"spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set"#],
            ),
            ("a name now", json!({"type": "ExternalName"}), vec![]),
        ];
        for (name, spec, expected) in rows {
            assert_eq!(messages(check, spec), expected, "{name}");
        }
    }
}
