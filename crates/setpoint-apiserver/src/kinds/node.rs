//! Nodes: the places Pods run on, as their agents report them.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{defaults, shown};
use crate::columns;
use crate::ip;
use crate::kind::{Behaviour, Column, Part, SelectableField};
use setpoint_api::field::{Errors, Fault, Node as Field, Path};
use setpoint_api::labels;
use setpoint_api::names;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE_LABEL: &str = "kubernetes.io/role";
const POD_CIDR_CHANGED: &str = "node updates may not change podCIDR except from \"\" to valid";
const TAINT_EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const INFO: [&str; 10] = [
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
];

#[derive(Debug, Clone, Copy)]
pub struct Node;

impl Behaviour for Node {
    fn default(&self, object: &mut Value) {
        agree_on_pod_cidrs(defaults::section(object, "spec"));
        let status = defaults::section(object, "status");
        if status["allocatable"].is_null() && status["capacity"].is_object() {
            status["allocatable"] = status["capacity"].clone();
        }
        for condition in defaults::items(status, "conditions") {
            defaults::show_null(condition, "lastHeartbeatTime");
            defaults::show_null(condition, "lastTransitionTime");
        }
        let endpoints = defaults::section(status, "daemonEndpoints");
        defaults::fill(defaults::section(endpoints, "kubeletEndpoint"), "Port", 0);
        let info = defaults::section(status, "nodeInfo");
        INFO.iter().for_each(|field| defaults::fill(info, field, ""));
    }

    /// A new node gets no Pods before it has reported to be ready.
    fn prepare_create(&self, object: &mut Value) {
        defaults::remove(defaults::section(object, "status"), "config");
        let spec = defaults::section(object, "spec");
        defaults::remove(spec, "configSource");
        if !spec["taints"].is_array() {
            spec["taints"] = json!([]);
        }
        if let Value::Array(taints) = &mut spec["taints"] {
            let taint = json!({"key": NOT_READY, "effect": "NoSchedule"});
            if !taints.iter().any(|other| other["key"] == taint["key"] && other["effect"] == taint["effect"]) {
                taints.push(taint);
            }
        }
    }

    fn validate(&self, object: Field<'_, '_>, errors: &mut Errors) {
        validate_taints(object, errors);
        validate_resources(object, errors);
        let spec = object.field("spec");
        let ranges = spec.field("podCIDRs");
        for range in ranges.items() {
            ip::validate_cidr(range.str(), &range.path, errors);
        }
        let families: Vec<_> = ranges.items().map(|range| ip::cidr_family(range.str())).collect();
        if families.len() > 2 || families.len() == 2 && families[0] == families[1] {
            errors.invalid(&ranges.path, ranges.value, "may specify no more than one CIDR for each IP family");
        }
    }

    fn validate_update(&self, object: Field<'_, '_>, old: &Value, part: Part, errors: &mut Errors) {
        if part == Part::Main {
            self.validate(object, errors);
        }
        validate_change(object, old, errors);
    }

    fn warnings(&self, object: Field<'_, '_>, _old: Option<&Value>) -> Vec<String> {
        let spec = object.field("spec");
        let config = spec.field("configSource").is_set().then_some("spec.configSource: the feature is removed");
        let external = (!spec.field("externalID").str().is_empty())
            .then_some("spec.externalID: this field is deprecated, and is unused by Kubernetes");
        config.into_iter().chain(external).map(str::to_owned).collect()
    }

    fn columns(&self) -> &[Column] {
        const COLUMNS: [Column; 10] = [
            columns::NAME,
            columns::text("Status", "The status of the node"),
            columns::text("Roles", "The roles of the node"),
            columns::AGE,
            columns::text("Version", "The version of the node's agent."),
            columns::wide("Internal-IP", "The node's address inside the cluster."),
            columns::wide("External-IP", "The node's address outside the cluster."),
            columns::wide("OS-Image", "The operating system, as it calls itself."),
            columns::wide("Kernel-Version", "The kernel and its architecture."),
            columns::wide("Container-Runtime", "What runs containers, and its version."),
        ];
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let info = |name: &str| object["status"]["nodeInfo"][name].as_str().unwrap_or_default().to_owned();
        let known = |text: String| if text.is_empty() { columns::UNKNOWN.to_owned() } else { text };
        let mut kernel = known(info("kernelVersion"));
        if !info("architecture").is_empty() {
            kernel = format!("{kernel} ({})", info("architecture"));
        }
        vec![
            columns::name_cell(object),
            status(object).into(),
            roles(object).into(),
            columns::age_cell(object, now),
            info("kubeletVersion").into(),
            address(object, "InternalIP").into(),
            address(object, "ExternalIP").into(),
            known(info("osImage")).into(),
            kernel.into(),
            known(info("containerRuntimeVersion")).into(),
        ]
    }

    fn selectable_fields(&self) -> &[SelectableField] {
        &[SelectableField {
            name: "spec.unschedulable",
            value: |object| object["spec"]["unschedulable"].as_bool().unwrap_or_default().to_string(),
        }]
    }
}

/// `podCIDR` is the first of `podCIDRs`; where they differ, the singular one is meant.
fn agree_on_pod_cidrs(spec: &mut Value) {
    let single = spec["podCIDR"].as_str().filter(|range| !range.is_empty()).map(str::to_owned);
    let first = spec["podCIDRs"][0].as_str().map(str::to_owned);
    match (single, first) {
        (Some(single), first) if first.as_deref() != Some(single.as_str()) => spec["podCIDRs"] = json!([single]),
        (None, Some(first)) => spec["podCIDR"] = first.into(),
        _ => {}
    }
}

/// Kubernetes reports taints at `metadata.taints`, though they stand in the spec.
fn validate_taints(object: Field<'_, '_>, errors: &mut Errors) {
    let metadata = Path::of("metadata");
    let path = metadata.field("taints");
    let mut seen = HashSet::new();
    for (index, taint) in object.field("spec").field("taints").items().enumerate() {
        let taint = Field { value: taint.value, path: path.index(index) };
        let (key, value, effect) = (taint.field("key"), taint.field("value"), taint.field("effect"));
        labels::validate_label_key(key.str(), &key.path, errors);
        let messages = names::label_value(value.str());
        if !messages.is_empty() {
            errors.invalid(&value.path, value.str(), &messages.join(";"));
        }
        match effect.str() {
            "" => errors.required(&effect.path, ""),
            known if TAINT_EFFECTS.contains(&known) => {}
            other => errors.unsupported(&effect.path, other, &TAINT_EFFECTS),
        }
        if !seen.insert((key.str(), effect.str())) {
            let fields = [
                ("Key", "key", json!("")),
                ("Value", "value", json!("")),
                ("Effect", "effect", json!("")),
                ("TimeAdded", "timeAdded", Value::Null),
            ];
            errors.push(Fault::Duplicate, &taint.path, || {
                let shown = shown::fields(taint.value, &fields);
                format!("Duplicate value: {shown}: taints must be unique by key and effect pair")
            });
        }
    }
}

fn validate_resources(object: Field<'_, '_>, errors: &mut Errors) {
    let status = object.field("status");
    for list in ["capacity", "allocatable"] {
        let list = status.field(list);
        for (name, quantity) in list.entries() {
            if quantity.str().starts_with('-') {
                errors.invalid(&list.path.field(name), quantity.str(), "must be greater than or equal to 0");
            }
        }
    }
}

fn validate_change(object: Field<'_, '_>, old: &Value, errors: &mut Errors) {
    validate_resources(object, errors);
    validate_addresses(object, errors);
    let spec = object.field("spec");
    let (ranges, old_ranges) = (spec.field("podCIDRs"), old["spec"]["podCIDRs"].as_array());
    if let Some(old_ranges) = old_ranges.filter(|ranges| !ranges.is_empty()) {
        let changed = if ranges.len() == old_ranges.len() {
            ranges.items().zip(old_ranges).filter(|(range, old)| range.value != *old).count()
        } else {
            1
        };
        (0..changed).for_each(|_| errors.forbidden(&ranges.path, POD_CIDR_CHANGED));
    }
    let provider = spec.field("providerID");
    match (old["spec"]["providerID"].as_str().unwrap_or_default(), provider.str()) {
        ("", _) => {}
        (_, "") => errors.invalid(&provider.path, "null", "field cannot be cleared once set"),
        (before, after) if before != after => {
            errors.invalid(&provider.path, "null", "field cannot be modified once set");
        }
        _ => {}
    }
    validate_taints(object, errors);
    let external = spec.field("externalID");
    if external.str() != old["spec"]["externalID"].as_str().unwrap_or_default() {
        errors.forbidden(&external.path, "may not be updated");
    }
}

fn validate_addresses(object: Field<'_, '_>, errors: &mut Errors) {
    let status = object.field("status");
    let addresses = status.field("addresses");
    let mut seen = HashSet::new();
    for address in addresses.items() {
        let identity = (address.field("type").str(), address.field("address").str());
        if !seen.insert(identity) {
            let shown = shown::fields(address.value, &[("Type", "type", json!("")), ("Address", "address", json!(""))]);
            errors.push(Fault::Duplicate, &address.path, || format!("Duplicate value: {shown}"));
        }
    }
}

fn status(object: &Value) -> String {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ready = match conditions.iter().rfind(|condition| condition["type"] == "Ready") {
        Some(condition) if condition["status"] == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if object["spec"]["unschedulable"] == true { format!("{ready},SchedulingDisabled") } else { ready.to_owned() }
}

fn roles(object: &Value) -> String {
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    let mut roles: Vec<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix(ROLE_PREFIX) {
            Some(role) => Some(role),
            None if key == ROLE_LABEL => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    columns::none_if_empty(roles.join(","))
}

fn address(object: &Value, kind: &str) -> String {
    let addresses = object["status"]["addresses"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found =
        addresses.iter().find(|address| address["type"] == kind).and_then(|address| address["address"].as_str());
    found.unwrap_or(columns::NONE).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(check: impl Fn(Field<'_, '_>, &mut Errors), object: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        check(Field::root(object), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_new_node_is_not_ready() {
        let mut object = json!({"spec": {"podCIDR": "10.9.0.0/24", "taints": [{"key": "k", "effect": "NoExecute"}]}});
        Node.default(&mut object);
        Node.prepare_create(&mut object);
        Node.prepare_create(&mut object);
        assert_eq!(object["spec"]["podCIDRs"], json!(["10.9.0.0/24"]));
        assert_eq!(object["spec"]["taints"][1], json!({"key": NOT_READY, "effect": "NoSchedule"}));
        assert_eq!(object["spec"]["taints"].as_array().map(Vec::len), Some(2));
        assert_eq!(object["status"]["daemonEndpoints"], json!({"kubeletEndpoint": {"Port": 0}}));
        assert_eq!(object["status"]["nodeInfo"]["osImage"], "");
    }

    #[test]
    fn what_is_not_said_is_taken_from_elsewhere() {
        let mut object =
            json!({"spec": {"podCIDRs": ["::/64"]}, "status": {"capacity": {"cpu": "4"}, "conditions": [{}]}});
        Node.default(&mut object);
        assert_eq!(object["spec"]["podCIDR"], "::/64");
        assert_eq!(object["status"]["allocatable"], json!({"cpu": "4"}));
        assert_eq!(object["status"]["conditions"][0], json!({"lastHeartbeatTime": null, "lastTransitionTime": null}));
    }

    #[test]
    fn contents_are_checked() {
        let check = |node: Field<'_, '_>, errors: &mut Errors| Node.validate(node, errors);
        let rows = [
            ("nothing", json!({}), vec![]),
            ("both families", json!({"spec": {"podCIDRs": ["10.0.0.0/24", "2001:db8::/64"]}}), vec![]),
            (
                "one family twice",
                json!({"spec": {"podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"]}}),
                vec![
                    "spec.podCIDRs: Invalid value: [\"10.0.0.0/24\",\"10.0.1.0/24\"]: may specify no more than one CIDR for \
                     each IP family",
                ],
            ),
            (
                "one taint twice",
                json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}, {"key": "k", "effect": "NoExecute"}]}}),
                vec![
                    "metadata.taints[1]: Duplicate value: {\"Key\":\"k\",\"Value\":\"\",\"Effect\":\"NoExecute\",\
                     \"TimeAdded\":null}: taints must be unique by key and effect pair",
                ],
            ),
            (
                "less than nothing",
                json!({"status": {"capacity": {"cpu": "-1"}}}),
                vec![r#"status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0"#],
            ),
        ];
        for (name, object, expected) in rows {
            assert_eq!(messages(check, &object), expected, "{name}");
        }
    }

    #[test]
    fn some_fields_are_set_once() {
        let old = json!({"spec": {"podCIDRs": ["10.0.0.0/24"], "providerID": "a"}});
        let check = |node: Field<'_, '_>, errors: &mut Errors| Node.validate_update(node, &old, Part::Status, errors);
        let rows = [
            ("the same", old.clone(), vec![]),
            (
                "another range",
                json!({"spec": {"podCIDRs": ["10.0.1.0/24"], "providerID": "a"}}),
                vec![format!("spec.podCIDRs: Forbidden: {POD_CIDR_CHANGED}")],
            ),
            (
                "no provider",
                json!({"spec": {"podCIDRs": ["10.0.0.0/24"]}}),
                vec![r#"spec.providerID: Invalid value: "null": field cannot be cleared once set"#.to_owned()],
            ),
        ];
        for (name, object, expected) in rows {
            assert_eq!(messages(check, &object), expected, "{name}");
        }
    }

    #[test]
    fn cells_tell_state_roles_and_addresses() {
        let object = json!({
            "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/b": "", "kubernetes.io/role": "a"}},
            "spec": {"unschedulable": true},
            "status": {
                "conditions": [{"type": "Ready", "status": "False"}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.9"}],
                "nodeInfo": {"kernelVersion": "6", "architecture": "amd64", "kubeletVersion": "v1"},
            },
        });
        assert_eq!(
            Value::from(Node.cells(&object, Timestamp::UNIX_EPOCH)),
            json!([
                "n",
                "NotReady,SchedulingDisabled",
                "a,b",
                "<unknown>",
                "v1",
                "10.0.0.9",
                "<none>",
                "<unknown>",
                "6 (amd64)",
                "<unknown>",
            ])
        );
    }
}
