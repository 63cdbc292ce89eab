//! Whatever comes and goes: no node holds more than it has, none a Pod that it may not hold, and every refusal says why.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use proptest::prelude::*;
use serde_json::json;
use setpoint_core::scheduling::{Board, NodeState, node_affinity, place, resources, tolerations};

#[derive(Debug, Clone)]
enum Step {
    Come { cpu: u32, zone: Option<u8>, tolerates: bool },
    Go(usize),
    Change { node: usize, cpu: u32, zone: u8, is_tainted: bool, is_cordoned: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let come = (0u32..2500, proptest::option::of(0u8..3), any::<bool>())
        .prop_map(|(cpu, zone, tolerates)| Step::Come { cpu, zone, tolerates });
    let go = any::<usize>().prop_map(Step::Go);
    let change = (0usize..4, 500u32..6000, 0u8..3, any::<bool>(), any::<bool>()).prop_map(
        |(node, cpu, zone, is_tainted, is_cordoned)| Step::Change { node, cpu, zone, is_tainted, is_cordoned },
    );
    proptest::collection::vec(prop_oneof![5 => come, 2 => go, 1 => change], 1..120)
}

fn pod(number: usize, cpu: u32, zone: Option<u8>, tolerates: bool) -> Arc<Pod> {
    let tolerations = if tolerates { json!([{"key": "t", "operator": "Exists"}]) } else { json!([]) };
    let selector = zone.map_or(json!({}), |zone| json!({"zone": zone.to_string()}));
    let container = json!({"name": "c", "command": ["x"], "resources": {"requests": {"cpu": format!("{cpu}m")}}});
    let pod = json!({
        "metadata": {"name": format!("p{number}"), "namespace": "n", "uid": format!("p{number}")},
        "spec": {"containers": [container], "nodeSelector": selector, "tolerations": tolerations},
    });
    Arc::new(serde_json::from_value(pod).expect("a Pod"))
}

fn node(number: usize, cpu: u32, zone: u8, is_tainted: bool, is_cordoned: bool) -> NodeState {
    let taints = if is_tainted { json!([{"key": "t", "effect": "NoSchedule"}]) } else { json!([]) };
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": format!("n{number}"), "labels": {"zone": zone.to_string()}},
        "spec": {"taints": taints, "unschedulable": is_cordoned},
        "status": {"allocatable": {"cpu": format!("{cpu}m"), "pods": "6"}},
    }))
    .expect("a Node");
    NodeState::of(&node)
}

proptest! {
    #[test]
    fn nothing_is_placed_where_it_does_not_fit(steps in steps()) {
        let mut board = Board::default();
        let mut again = Board::default();
        for number in 0..4 {
            board.set_node(node(number, 2000, u8::try_from(number % 3).unwrap(), false, false));
            again.set_node(node(number, 2000, u8::try_from(number % 3).unwrap(), false, false));
        }
        // Counted by hand: who is where.
        let mut placed: BTreeMap<String, (Arc<Pod>, String)> = BTreeMap::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Come { cpu, zone, tolerates } => {
                    let pod = pod(number, cpu, zone, tolerates);
                    let answer = place(&pod, &mut board);
                    prop_assert_eq!(&answer, &place(&pod, &mut again), "the same question has one answer");
                    let spec = pod.spec.as_ref().unwrap();
                    let room = |node: &NodeState, name: &str| {
                        let there = placed.values().filter(|(_, on)| **on == *node.name);
                        let used: i64 = there.map(|(pod, _)| resources::requests(pod).get(name)).sum();
                        node.allocatable.get(name) - used
                    };
                    let fits = |node: &NodeState| {
                        !node.is_unschedulable
                            && tolerations::untolerated(spec, &node.taints).is_none()
                            && node_affinity::is_wanted(spec, node)
                            && (cpu == 0 || room(node, "cpu") >= i64::from(cpu))
                            && room(node, "pods") >= 1
                    };
                    match answer {
                        Ok(name) => {
                            prop_assert!(board.node(&name).is_some_and(fits), "{} on {}", number, name);
                            board.place(&pod, &name);
                            again.place(&pod, &name);
                            placed.insert(format!("p{number}"), (pod, name.to_string()));
                        }
                        Err(refusal) => {
                            prop_assert!(!board.nodes().any(fits), "there was a place: {}", refusal);
                            let reasons: usize = refusal.reasons.values().sum();
                            prop_assert!(refusal.nodes == 4 && reasons >= 4, "every node has a reason: {}", refusal);
                        }
                    }
                }
                Step::Go(which) => {
                    let uid = placed.keys().nth(which % placed.len().max(1)).cloned();
                    if let Some(uid) = uid {
                        placed.remove(&uid);
                        prop_assert!(board.remove(&uid) && again.remove(&uid));
                    }
                }
                Step::Change { node: number, cpu, zone, is_tainted, is_cordoned } => {
                    board.set_node(node(number, cpu, zone, is_tainted, is_cordoned));
                    again.set_node(node(number, cpu, zone, is_tainted, is_cordoned));
                }
            }
        }
    }
}
