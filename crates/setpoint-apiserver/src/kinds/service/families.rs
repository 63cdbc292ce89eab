//! Which families of addresses a Service has, on a cluster that gives out one.

use serde_json::{Value, json};

use super::{cluster_ips, spec};
use crate::ip;
use setpoint_api::field::{Errors, Node, Path};

/// The one family of addresses that is given out.
const FAMILY: &str = "IPv4";
const SINGLE_STACK: &str = "SingleStack";
const REQUIRE_DUAL_STACK: &str = "RequireDualStack";

/// Settles `ipFamilies` and `ipFamilyPolicy` for a cluster that has one family.
pub(super) fn choose(service: &mut Value, old: Option<&Value>) -> Result<(), Errors> {
    if !spec::needs_cluster_ip(service) {
        return Ok(());
    }
    let selectorless = service["spec"]["selector"].as_object().is_none_or(|selector| selector.is_empty());
    let open = service["spec"]["clusterIP"] == spec::NONE && selectorless;
    if service["spec"]["ipFamilyPolicy"].is_null() {
        let before = old.map(|old| &old["spec"]["ipFamilyPolicy"]).filter(|policy| !policy.is_null()).cloned();
        let fresh = if open { REQUIRE_DUAL_STACK } else { SINGLE_STACK };
        service["spec"]["ipFamilyPolicy"] = before.unwrap_or_else(|| fresh.into());
    }
    let mut errors = Errors::default();
    cluster_ips::validate(Node::root(service), old, &mut errors);
    refuse(errors)?;
    if let Some(old) = old {
        shrink_to_single_stack(service, old);
    }
    refuse(policy_faults(service))?;
    infer_families(service)?;

    let dual = service["spec"]["ipFamilyPolicy"] != SINGLE_STACK;
    if spec::families(service).is_empty() {
        service["spec"]["ipFamilies"] = json!([FAMILY]);
    }
    if open {
        // Nothing is given out and nothing selected, so both families may be named even where only one exists.
        if dual && spec::families(service).len() == 1 {
            let other = if spec::families(service) == [FAMILY] { "IPv6" } else { FAMILY };
            let families = json!([spec::families(service)[0], other]);
            service["spec"]["ipFamilies"] = families;
        }
        return Ok(());
    }
    refuse(family_faults(service))
}

/// To ask for a single stack without changing the lists is to give up their second entries.
fn shrink_to_single_stack(service: &mut Value, old: &Value) {
    if service["spec"]["ipFamilyPolicy"] != SINGLE_STACK {
        return;
    }
    for field in ["clusterIPs", "ipFamilies"] {
        if service["spec"][field] == old["spec"][field]
            && let Some(Value::Array(list)) = service["spec"].get_mut(field)
        {
            list.truncate(1);
        }
    }
}

fn policy_faults(service: &Value) -> Errors {
    let mut errors = Errors::default();
    let root = Node::root(service);
    let spec_node = root.field("spec");
    let policy = spec_node.field("ipFamilyPolicy");
    if policy.str() == SINGLE_STACK {
        let counts = [("cluster IPs", spec::cluster_ips(service)), ("IP families", spec::families(service))];
        for (noun, _) in counts.iter().filter(|(_, list)| list.len() == 2) {
            let detail = format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {noun} are specified");
            errors.invalid(&policy.path, policy.str(), &detail);
        }
    }
    errors
}

/// Names the families of the addresses that were asked for.
fn infer_families(service: &mut Value) -> Result<(), Errors> {
    let ips: Vec<String> = spec::cluster_ips(service).into_iter().map(str::to_owned).collect();
    let named = spec::families(service).len();
    let mut families: Vec<String> = spec::families(service).into_iter().map(str::to_owned).collect();
    for (index, text) in ips.iter().enumerate().skip(named).filter(|(_, text)| *text != spec::NONE) {
        match ip::parse(text).map(ip::family) {
            Some(FAMILY) => families.push(FAMILY.to_owned()),
            other => {
                let detail = format!("{} is not configured on this cluster", other.unwrap_or_default());
                let mut errors = Errors::default();
                let spec = Path::of("spec");
                errors.invalid(&spec.field("clusterIPs").index(index), json!(ips), &detail);
                return Err(errors);
            }
        }
    }
    if families.len() > named {
        service["spec"]["ipFamilies"] = json!(families);
    }
    Ok(())
}

fn family_faults(service: &Value) -> Errors {
    let mut errors = Errors::default();
    let root = Node::root(service);
    let spec_node = root.field("spec");
    let policy = spec_node.field("ipFamilyPolicy");
    if policy.str() == REQUIRE_DUAL_STACK {
        errors.invalid(&policy.path, policy.str(), "this cluster is not configured for dual-stack services");
    }
    for family in spec_node.field("ipFamilies").items().filter(|family| family.str() != FAMILY) {
        errors.invalid(&family.path, family.str(), "not configured on this cluster");
    }
    errors
}

fn refuse(errors: Errors) -> Result<(), Errors> {
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}
