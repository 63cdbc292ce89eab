//! Tables of who is behind a Service and how it is told.

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

use super::*;
use crate::workload::fixtures::{laid_over, object};

pub(super) fn service(over: Value) -> Service {
    let base = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "s-uid"},
        "spec": {
            "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
            "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}],
        },
    });
    object(laid_over(base, over))
}

pub(super) fn pod(name: &str, over: Value) -> Pod {
    let base = json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "containers": [
            {"name": "c", "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]},
        ]},
        "status": {
            "phase": "Running", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    object(laid_over(base, over))
}

/// What is stored, and how it is written to.
#[derive(Default, Clone)]
pub(super) struct World {
    pub(super) slices: Vec<EndpointSlice>,
    pub(super) endpoints: Option<Endpoints>,
}

impl World {
    pub(super) fn plan(&self, service: &Service, pods: &[Pod]) -> Plan {
        let pods: Vec<&Pod> = pods.iter().filter(|pod| selects(service, pod.metadata.labels.as_ref())).collect();
        let slices: Vec<&EndpointSlice> = self.slices.iter().collect();
        super::plan(&Facts {
            service,
            pods: &pods,
            slices: &slices,
            endpoints: self.endpoints.as_ref(),
            zone: &|node| (node == "n1").then(|| "east".into()),
            is_taken: &|name| self.slices.iter().any(|slice| slice.metadata.name.as_deref() == Some(name)),
        })
    }

    pub(super) fn apply(&mut self, plan: Plan) {
        let name = |slice: &EndpointSlice| slice.metadata.name.clone();
        for slice in plan.update.iter().chain(&plan.delete) {
            self.slices.retain(|old| name(old) != name(slice));
        }
        self.slices.extend(plan.create.into_iter().chain(plan.update));
        if let Some(Mirror::Create(endpoints) | Mirror::Update(endpoints)) = plan.mirror {
            self.endpoints = Some(endpoints);
        }
    }

    pub(super) fn after(service: &Service, pods: &[Pod]) -> World {
        let mut world = World::default();
        world.apply(world.plan(service, pods));
        world
    }

    /// `8080: 10.1.0.1 ready; …`, one line for each slice.
    fn told(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.slices.iter().map(told).collect();
        lines.sort();
        lines
    }
}

fn told(slice: &EndpointSlice) -> String {
    let ports: Vec<String> =
        slice.ports.iter().flatten().map(|port| port.port.unwrap_or_default().to_string()).collect();
    let endpoint = |endpoint: &k8s_openapi::api::discovery::v1::Endpoint| {
        let conditions = endpoint.conditions.clone().unwrap_or_default();
        let words =
            [("ready", conditions.ready), ("serving", conditions.serving), ("terminating", conditions.terminating)];
        let words = words.into_iter().filter(|(_, is)| *is == Some(true)).map(|(word, _)| format!(" {word}"));
        format!("{}{}", endpoint.addresses.join(","), words.collect::<String>())
    };
    let endpoints: Vec<String> = slice.endpoints.iter().flatten().map(endpoint).collect();
    format!("{} {}: {}", slice.address_type, ports.join(","), endpoints.join("; "))
}

#[test]
fn who_is_behind_a_service_and_how() {
    let at = |ip: &str| json!({"status": {"podIP": ip, "podIPs": [{"ip": ip}]}});
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let going = json!({"metadata": {"deletionTimestamp": "2026-03-01T11:59:00Z"}});
    let named = json!({"spec": {"ports": [{"port": 80, "targetPort": "http", "protocol": "TCP"}]}});
    let publishing = json!({"spec": {"publishNotReadyAddresses": true}});
    let given =
        |port: u16| json!({"metadata": {"annotations": {"setpoint.dev/assigned-ports": format!("8080={port}")}}});
    let rows: Vec<(&str, Value, Vec<Pod>, Vec<&str>)> = vec![
        ("nobody: one empty slice says so", json!({}), vec![], vec!["IPv4 : "]),
        ("a ready Pod", json!({}), vec![pod("a", json!({}))], vec!["IPv4 8080: 10.1.0.1 ready serving"]),
        ("one that is not ready is told of", json!({}), vec![pod("a", not_ready.clone())], vec!["IPv4 8080: 10.1.0.1"]),
        (
            "one that goes while it still serves",
            json!({}),
            vec![pod("a", going.clone())],
            vec!["IPv4 8080: 10.1.0.1 serving terminating"],
        ),
        ("who wants all has them ready", publishing, vec![pod("a", not_ready)], vec!["IPv4 8080: 10.1.0.1 ready"]),
        (
            "one that ended is gone",
            json!({}),
            vec![pod("a", json!({"status": {"phase": "Succeeded"}}))],
            vec!["IPv4 : "],
        ),
        (
            "one without an address is not there",
            json!({}),
            vec![pod("a", json!({"status": {"podIPs": []}}))],
            vec!["IPv4 : "],
        ),
        ("other labels", json!({}), vec![pod("a", json!({"metadata": {"labels": {"app": "db"}}}))], vec!["IPv4 : "]),
        (
            "a loopback address is an address",
            json!({}),
            vec![pod("a", at("127.0.0.1"))],
            vec!["IPv4 8080: 127.0.0.1 ready serving"],
        ),
        (
            "a name is looked up in each Pod: two numbers, two slices",
            named.clone(),
            vec![
                pod("a", json!({})),
                pod(
                    "b",
                    laid_over(
                        at("10.1.0.2"),
                        json!({"spec": {"containers": [
                    {"name": "c", "ports": [{"name": "http", "containerPort": 9090}]}]}}),
                    ),
                ),
            ],
            vec!["IPv4 8080: 10.1.0.1 ready serving", "IPv4 9090: 10.1.0.2 ready serving"],
        ),
        (
            "a name that a Pod does not have leads nowhere",
            json!({"spec": {"ports": [{"port": 80, "targetPort": "other"}]}}),
            vec![pod("a", json!({}))],
            vec!["IPv4 : 10.1.0.1 ready serving"],
        ),
        (
            "Pods that share an address are reached at the port that each was given",
            named,
            vec![pod("a", at("127.0.0.1")), pod("b", laid_over(at("127.0.0.1"), given(20_001)))],
            vec!["IPv4 20001: 127.0.0.1 ready serving", "IPv4 8080: 127.0.0.1 ready serving"],
        ),
        (
            "a number is the port that was given for it, too",
            json!({}),
            vec![pod("b", given(20_001))],
            vec!["IPv4 20001: 10.1.0.1 ready serving"],
        ),
        (
            "two families, a slice of each",
            json!({"spec": {"ipFamilies": ["IPv6", "IPv4"]}}),
            vec![pod("a", json!({"status": {"podIPs": [{"ip": "10.1.0.1"}, {"ip": "fd00::1"}]}}))],
            vec!["IPv4 8080: 10.1.0.1 ready serving", "IPv6 8080: fd00::1 ready serving"],
        ),
        ("no selector: not ours to say", json!({"spec": {"selector": null}}), vec![pod("a", json!({}))], vec![]),
        ("elsewhere by name", json!({"spec": {"type": "ExternalName"}}), vec![pod("a", json!({}))], vec![]),
    ];
    for (name, over, pods, expected) in rows {
        assert_eq!(World::after(&service(over), &pods).told(), expected, "{name}");
    }
}

#[test]
fn an_endpoint_says_whose_it_is_and_where() {
    let service = service(json!({"metadata": {"labels": {"tier": "front"}}, "spec": {"clusterIP": "None"}}));
    let pod = pod("a", json!({"spec": {"hostname": "first", "subdomain": "web"}}));
    let world = World::after(&service, &[pod]);
    let slice = &world.slices[0];
    let endpoint = &slice.endpoints.as_ref().unwrap()[0];
    let target = endpoint.target_ref.as_ref().unwrap();
    assert_eq!(
        (target.kind.as_deref(), target.name.as_deref(), target.uid.as_deref()),
        (Some("Pod"), Some("a"), Some("uid-a"))
    );
    assert_eq!(
        (endpoint.node_name.as_deref(), endpoint.zone.as_deref(), endpoint.hostname.as_deref()),
        (Some("n1"), Some("east"), Some("first"))
    );
    let labels: Value = json!(slice.metadata.labels);
    assert_eq!(
        labels,
        json!({
            "tier": "front", "kubernetes.io/service-name": "web", "service.kubernetes.io/headless": "",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        })
    );
    let owner = &slice.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.uid.as_str(), owner.controller), ("Service", "s-uid", Some(true)));
}

#[test]
fn the_name_of_a_slice_follows_from_its_service() {
    let (service, pods) = (service(json!({})), [pod("a", json!({}))]);
    let (first, second) = (World::after(&service, &pods), World::after(&service, &pods));
    assert_eq!(first.slices[0].metadata.name, second.slices[0].metadata.name, "whoever makes it again meets it");
    let again = super::tests::service(json!({"metadata": {"uid": "other"}}));
    assert_ne!(first.slices[0].metadata.name, World::after(&again, &pods).slices[0].metadata.name);
}

#[test]
fn slices_of_others_are_left_alone() {
    let foreign: EndpointSlice = object(json!({
        "metadata": {"name": "web-own", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "endpoints": [{"addresses": ["10.9.9.9"]}], "ports": [],
    }));
    let mut world = World { slices: vec![foreign.clone()], endpoints: None };
    world.apply(world.plan(&service(json!({})), &[pod("a", json!({}))]));
    assert!(world.slices.contains(&foreign));
    assert_eq!(world.slices.len(), 2);
}

#[test]
fn what_changes_for_a_service() {
    let base = || pod("a", json!({}));
    let rows = [
        ("nothing", base(), base(), true),
        (
            "a restart",
            base(),
            pod("a", json!({"status": {"containerStatuses": []}, "metadata": {"resourceVersion": "2"}})),
            true,
        ),
        ("not ready any more", base(), pod("a", json!({"status": {"conditions": []}})), false),
        ("on its way out", base(), pod("a", json!({"metadata": {"deletionTimestamp": "2026-03-01T11:59:00Z"}})), false),
        ("ended", base(), pod("a", json!({"status": {"phase": "Failed"}})), false),
        ("another label", base(), pod("a", json!({"metadata": {"labels": {"x": "y"}}})), false),
        ("another address", base(), pod("a", json!({"status": {"podIPs": [{"ip": "10.1.0.2"}]}})), false),
        (
            "another port",
            base(),
            pod("a", json!({"metadata": {"annotations": {"setpoint.dev/assigned-ports": "1=2"}}})),
            false,
        ),
        (
            "put on a node, but not reachable yet",
            pod("a", json!({"status": {"podIPs": null}, "spec": {"nodeName": null}})),
            pod("a", json!({"status": {"podIPs": null}})),
            true,
        ),
    ];
    for (name, before, after, expected) in rows {
        assert_eq!(is_as_before(&before, &after), expected, "{name}");
    }
}

#[test]
fn what_old_clients_read() {
    let at = |name: &str, ip: &str, over: Value| {
        pod(name, laid_over(json!({"status": {"podIP": ip, "podIPs": [{"ip": ip}]}}), over))
    };
    let pods = [
        at("b", "10.1.0.10", json!({})),
        at("a", "10.1.0.9", json!({})),
        at("c", "10.1.0.11", json!({"status": {"conditions": []}})),
        at("gone", "10.1.0.12", json!({"metadata": {"deletionTimestamp": "2026-03-01T11:59:00Z"}})),
    ];
    let endpoints = World::after(&service(json!({})), &pods).endpoints.unwrap();
    let subsets = json!(endpoints.subsets);
    let ips = |addresses: &Value| -> Vec<String> {
        addresses.as_array().unwrap().iter().map(|address| address["ip"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ips(&subsets[0]["addresses"]), ["10.1.0.9", "10.1.0.10"], "in the order of numbers");
    assert_eq!(ips(&subsets[0]["notReadyAddresses"]), ["10.1.0.11"]);
    assert_eq!(subsets[0]["ports"], json!([{"port": 8080, "protocol": "TCP"}]));
    assert_eq!(json!(endpoints.metadata.labels), json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"}));
    assert!(mirror::is_left_over(&endpoints));
    assert!(!mirror::is_left_over(&Endpoints::default()), "what people wrote is theirs");
}

#[test]
fn endpoints_hold_a_thousand_addresses() {
    let many: Vec<Pod> = (0..1200)
        .map(|number| {
            let ip = format!("10.1.{}.{}", number / 250, number % 250 + 1);
            let ready = if number < 900 { "True" } else { "False" };
            let over = json!({"status": {"podIPs": [{"ip": ip}], "conditions": [{"type": "Ready", "status": ready}]}});
            pod(&format!("p{number:04}"), over)
        })
        .collect();
    let mut world = World::after(&service(json!({})), &many);
    let count = |world: &World| -> (usize, usize) {
        let subsets = world.endpoints.as_ref().unwrap().subsets.clone().unwrap();
        let len = |addresses: &Option<Vec<_>>| addresses.as_ref().map_or(0, Vec::len);
        (len(&subsets[0].addresses), len(&subsets[0].not_ready_addresses))
    };
    assert_eq!(count(&world), (900, 100), "those that are ready come first");
    let said = |world: &World| world.endpoints.as_ref().unwrap().metadata.annotations.clone().unwrap_or_default();
    assert_eq!(said(&world)[mirror::OVER_CAPACITY], "truncated");
    assert_eq!(
        world.slices.iter().map(|slice| slice.endpoints.iter().flatten().count()).sum::<usize>(),
        1200,
        "slices have them all"
    );
    world.apply(world.plan(&service(json!({})), &many[..1000]));
    assert_eq!((count(&world), said(&world).len()), ((900, 100), 0));
}
