//! What a container or a pod needs: its requests, limits and claims, and the class of service they amount to.

use std::collections::BTreeSet;

use serde_json::Value;

use setpoint_api::field::{Errors, Fault, Node, Path};
use setpoint_api::names;
use setpoint_api::quantity::Quantity;

use super::{Surroundings, named};

const HUGE_PAGES: &str = "hugepages-";

/// Resources that are known by a name without a domain.
const STANDARD: [&str; 20] = [
    "configmaps",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
    "storage",
];

/// Rewrites the amounts of a list of resources as Kubernetes keeps them: canonical, in thousandths at the finest.
pub(in crate::kinds) fn canonicalize(list: &mut Value) {
    for amount in list.as_object_mut().into_iter().flat_map(|list| list.values_mut()) {
        let Some(text) = amount.as_str() else { continue };
        let Ok(quantity) = Quantity::parse(text) else { continue };
        let rounded = Quantity::parse(&format!("{}m", quantity.milli_value()));
        let kept = match rounded {
            Ok(rounded) if rounded != quantity && quantity.milli_value() != i64::MAX => rounded.to_string(),
            _ => Quantity::normalize(text).unwrap_or_else(|_| text.to_owned()),
        };
        *amount = kept.into();
    }
}

/// Checks the resources of a container; without surroundings, those of a pod's overhead.
pub(super) fn validate(resources: Node<'_, '_>, surroundings: Option<&Surroundings<'_>>, errors: &mut Errors) {
    validate_amounts(resources, container_resource, errors);
    validate_claims(resources.field("claims"), surroundings, errors);
}

/// Checks the resources a pod asks for as a whole.
pub(super) fn validate_pod_level(spec: Node<'_, '_>, surroundings: &Surroundings<'_>, errors: &mut Errors) {
    let resources = spec.field("resources");
    if !resources.is_set() {
        return;
    }
    if surroundings.os == Some("windows") {
        return errors.forbidden(&resources.path, "may not be set for a windows pod");
    }
    if resources.field("claims").is_set() {
        errors.forbidden(&resources.path.field("claims"), "claims may not be set for Resources at pod-level");
    }
    validate_amounts(resources, pod_resource, errors);
    let limits = resources.field("limits");
    for (index, container) in spec.field("containers").items().enumerate() {
        for (name, limit) in container.field("resources").field("limits").entries() {
            let (Some(own), Some(whole)) = (amount(limit.value), limits.value.get(name).and_then(amount)) else {
                continue;
            };
            if own > whole {
                let (containers, detail) = (
                    resources.path.field("containers"),
                    format!("must be less than or equal to pod limits of {whole}"),
                );
                errors.invalid(&containers.index(index).key(name).field("limits"), own.to_string(), &detail);
            }
        }
    }
}

pub(super) fn validate_overhead(overhead: Node<'_, '_>, errors: &mut Errors) {
    let limits = Node { value: overhead.value, path: overhead.path.field("limits") };
    for (name, value) in limits.entries() {
        container_resource(name, &value.path, errors);
        validate_amount(name, value, errors);
    }
}

fn validate_amounts(resources: Node<'_, '_>, rule: fn(&str, &Path<'_>, &mut Errors), errors: &mut Errors) {
    let (limits, requests) = (resources.field("limits"), resources.field("requests"));
    for (name, value) in limits.entries() {
        rule(name, &value.path, errors);
        validate_amount(name, value, errors);
    }
    for (name, value) in requests.entries() {
        rule(name, &value.path, errors);
        // Huge pages are checked last of all, after the comparison with the limit.
        validate_plain_amount(name, value, errors);
        let Some(request) = amount(value.value) else { continue };
        match limits.value.get(name).and_then(amount) {
            Some(limit) if request != limit && !may_overcommit(name) => {
                let detail = format!("must be equal to {name} limit of {limit}");
                errors.invalid(&requests.path, request.to_string(), &detail);
            }
            Some(limit) if request > limit => {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                errors.invalid(&requests.path, request.to_string(), &detail);
            }
            None if !may_overcommit(name) => {
                errors.required(&limits.path, "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
        validate_huge_pages(name, value, errors);
    }
    let has = |wanted: fn(&str) -> bool| limits.entries().chain(requests.entries()).any(|(name, _)| wanted(name));
    if has(|name| name.starts_with(HUGE_PAGES)) && !has(|name| matches!(name, "cpu" | "memory")) {
        errors.forbidden(&resources.path, "HugePages require cpu or memory");
    }
}

fn validate_amount(name: &str, value: Node<'_, '_>, errors: &mut Errors) {
    validate_plain_amount(name, value, errors);
    validate_huge_pages(name, value, errors);
}

fn validate_plain_amount(name: &str, value: Node<'_, '_>, errors: &mut Errors) {
    let Some(quantity) = amount(value.value) else { return };
    if quantity.is_negative() {
        errors.invalid(&value.path, quantity.to_string(), "must be greater than or equal to 0");
    }
    if is_extended(name) && !quantity.is_whole() {
        errors.invalid(&value.path, quantity.to_string(), "must be an integer");
    }
}

fn validate_huge_pages(name: &str, value: Node<'_, '_>, errors: &mut Errors) {
    let (Some(page), Some(quantity)) = (name.strip_prefix(HUGE_PAGES), amount(value.value)) else { return };
    let page = Quantity::parse(page).ok().filter(|page| *page > Quantity::ZERO && page.is_whole());
    if page.is_none_or(|page| quantity.value() % page.value() != 0) {
        let detail = format!("{quantity} is not positive integer multiple of {name}");
        errors.invalid(&value.path, quantity.to_string(), &detail);
    }
}

fn amount(value: &Value) -> Option<Quantity> {
    value.as_str().and_then(|text| Quantity::parse(text).ok())
}

/// Whether more may be limited than was requested.
fn may_overcommit(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether a resource is one that somebody added, such as `example.com/gpu`. Those come in whole pieces.
fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && names::qualified_name(&format!("requests.{name}")).is_empty()
}

fn resource_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    let messages = names::qualified_name(name);
    for message in &messages {
        errors.invalid(path, name, message);
    }
    let known = || STANDARD.contains(&name) || name.starts_with(HUGE_PAGES);
    if messages.is_empty() && !name.contains('/') && !known() {
        errors.invalid(path, name, "must be a standard resource type or fully qualified");
    }
}

pub(in crate::kinds) fn container_resource(name: &str, path: &Path<'_>, errors: &mut Errors) {
    resource_name(name, path, errors);
    let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with(HUGE_PAGES);
    if !name.contains('/') && !standard {
        errors.invalid(path, name, "must be a standard resource for containers");
    } else if !is_native(name) && !is_extended(name) {
        errors.invalid(path, name, "doesn't follow extended resource name standard");
    }
}

fn pod_resource(name: &str, path: &Path<'_>, errors: &mut Errors) {
    let before = errors.len();
    resource_name(name, path, errors);
    let supported = matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES);
    if errors.len() == before && !supported {
        errors.unsupported(path, name, &["cpu", "hugepages-", "memory"]);
    }
}

/// Checks which of the pod's claims a container uses.
fn validate_claims(claims: Node<'_, '_>, surroundings: Option<&Surroundings<'_>>, errors: &mut Errors) {
    let mut used: BTreeSet<(&str, &str)> = BTreeSet::new();
    for claim in claims.items() {
        let (name, request) = (claim.field("name").str(), claim.field("request").str());
        if name.is_empty() {
            errors.required(&claim.path, "");
            continue;
        }
        let whole_claim_used = used.contains(&(name, ""));
        if !whole_claim_used && !request.is_empty() {
            named(claim.field("request"), names::dns1123_label, errors);
        }
        let part_used = request.is_empty() && used.range((name, "")..).next().is_some_and(|(other, _)| *other == name);
        if whole_claim_used || part_used {
            errors.duplicate(&claim.path, name);
        } else if !used.insert((name, request)) {
            errors.duplicate(&claim.path, format!("{name}/{request}"));
        }
        if surroundings.is_none_or(|surroundings| !surroundings.claims.contains(name)) {
            errors.push(Fault::NotFound, &claim.path, || {
                let known: Vec<&str> =
                    surroundings.iter().flat_map(|surroundings| &surroundings.claims).copied().collect();
                let known =
                    if known.is_empty() { " which is empty".to_owned() } else { format!(": {}", known.join(", ")) };
                format!("Not found: \"{name}\": must be one of the names in pod.spec.resourceClaims{known}")
            });
        }
    }
}

/// Checks the claims of a pod.
pub(super) fn validate_pod_claims(claims: Node<'_, '_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for claim in claims.items() {
        let name = claim.field("name");
        if name.str().is_empty() {
            errors.required(&name.path, "");
        } else if !seen.insert(name.str()) {
            errors.duplicate(&name.path, name.str());
        } else {
            named(name, names::dns1123_label, errors);
        }
        let sources = [claim.field("resourceClaimName"), claim.field("resourceClaimTemplateName")];
        match sources.iter().filter(|source| source.is_set()).count() {
            0 => {
                let detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                errors.invalid(&claim.path, claim.value, detail);
            }
            1 => {}
            _ => {
                let detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                errors.invalid(&claim.path, claim.value, detail);
            }
        }
        for source in sources.into_iter().filter(Node::is_set) {
            named(source, names::dns1123_subdomain, errors);
        }
    }
}

/// How a pod is treated when its node runs short: `Guaranteed`, `Burstable` or `BestEffort`.
pub(in crate::kinds) fn quality_of_service(spec: &Value) -> &'static str {
    if spec["resources"]["requests"].is_object() || spec["resources"]["limits"].is_object() {
        return quality_of(&spec["resources"]);
    }
    let containers = ["initContainers", "containers"].into_iter().filter_map(|list| spec[list].as_array()).flatten();
    combine(containers.map(|container| quality_of(&container["resources"])))
}

/// Guaranteed is what has equal limits and requests, best effort what has none; anything else can burst.
fn quality_of(resources: &Value) -> &'static str {
    combine(["cpu", "memory"].into_iter().map(|name| {
        let of = |list: &str| amount(&resources[list][name]).unwrap_or(Quantity::ZERO);
        match (of("requests"), of("limits")) {
            (request, limit) if request != limit => "Burstable",
            (request, _) if request.is_zero() => "BestEffort",
            _ => "Guaranteed",
        }
    }))
}

fn combine(mut classes: impl Iterator<Item = &'static str>) -> &'static str {
    let first = classes.next().unwrap_or("BestEffort");
    if classes.all(|class| class == first) { first } else { "Burstable" }
}
