//! Where Pods go and why not elsewhere, by tables.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::resources::{self, Amounts};
use super::{Board, NodeState, place};

fn pod(name: &str, spec: Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "command": ["serve"]}]},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn asks(requests: Value) -> Value {
    json!({"name": "web", "command": ["serve"], "resources": {"requests": requests}})
}

fn node(name: &str, over: Value) -> NodeState {
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": over.get("labels").cloned().unwrap_or(json!({}))},
        "spec": over.get("spec").cloned().unwrap_or(json!({})),
        "status": {"allocatable": over.get("has").cloned().unwrap_or(json!({"cpu": "4", "memory": "8Gi", "pods": "10"}))},
    }))
    .unwrap();
    NodeState::of(&node)
}

fn board(nodes: Vec<NodeState>) -> Board {
    let mut board = Board::default();
    for node in nodes {
        assert!(board.set_node(node));
    }
    board
}

/// Where a Pod goes, or why it does not.
fn answer(pod: &Pod, board: &mut Board) -> String {
    place(pod, board).map_or_else(|refusal| refusal.to_string(), |node| node.to_string())
}

fn zones() -> Vec<NodeState> {
    let zone = |zone: &str| json!({"labels": {"zone": zone, "cores": "8"}});
    vec![node("a1", zone("a")), node("a2", zone("a")), node("b1", zone("b"))]
}

#[test]
fn a_pod_goes_where_it_fits_or_says_why_it_does_not() {
    let tainted = |effect: &str| json!({"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": effect}]}});
    let affinity = |key: &str, operator: &str, values: Value| {
        let wanted = json!({"key": key, "operator": operator, "values": values});
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [wanted]}],
        }}}})
    };
    let no_match = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.";
    let rows: Vec<(&str, Value, Vec<NodeState>, &str)> = vec![
        ("nowhere to go", json!({}), vec![], "no nodes available to schedule pods"),
        ("any node will do", json!({}), zones(), "a1"),
        ("its label", json!({"nodeSelector": {"zone": "b"}}), zones(), "b1"),
        ("another label", json!({"nodeSelector": {"zone": "c"}}), zones(), no_match),
        ("In", affinity("zone", "In", json!(["b", "c"])), zones(), "b1"),
        ("NotIn", affinity("zone", "NotIn", json!(["a"])), zones(), "b1"),
        ("Exists", affinity("rack", "Exists", json!([])), zones(), no_match),
        ("DoesNotExist", affinity("rack", "DoesNotExist", json!([])), zones(), "a1"),
        ("Gt", affinity("cores", "Gt", json!(["7"])), zones(), "a1"),
        ("Lt", affinity("cores", "Lt", json!(["8"])), zones(), no_match),
        ("Gt of what is no number", affinity("zone", "Gt", json!(["7"])), zones(), no_match),
        (
            "by its name",
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a2"]}]}],
            }}}}),
            zones(),
            "a2",
        ),
        (
            "what it would like",
            json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 5, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}},
            ]}}}),
            zones(),
            "b1",
        ),
        (
            "one is cordoned",
            json!({}),
            vec![node("a", json!({"spec": {"unschedulable": true}}))],
            "0/1 nodes are available: 1 node(s) were unschedulable.",
        ),
        (
            "a taint",
            json!({}),
            vec![node("a", tainted("NoSchedule")), node("b", tainted("NoExecute"))],
            "0/2 nodes are available: 2 node(s) had untolerated taint {gpu: yes}.",
        ),
        (
            "a taint that it puts up with",
            json!({"tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]}),
            vec![node("a", tainted("NoSchedule"))],
            "a",
        ),
        (
            "a taint of another value",
            json!({"tolerations": [{"key": "gpu", "value": "no"}]}),
            vec![node("a", tainted("NoSchedule"))],
            "0/1 nodes are available: 1 node(s) had untolerated taint {gpu: yes}.",
        ),
        ("a taint that deters", json!({}), vec![node("a", tainted("PreferNoSchedule")), node("b", json!({}))], "b"),
        ("and is the only place", json!({}), vec![node("a", tainted("PreferNoSchedule"))], "a"),
        (
            "too much of two things, and the wrong label",
            json!({"containers": [asks(json!({"cpu": "5", "memory": "9Gi"}))], "nodeSelector": {"disk": "ssd"}}),
            vec![node("a", json!({"labels": {"disk": "ssd"}})), node("b", json!({}))],
            "0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 node(s) didn't match Pod's node \
             affinity/selector.",
        ),
        (
            "what no node has",
            json!({"containers": [asks(json!({"example.com/gpu": "1"}))]}),
            vec![node("a", json!({}))],
            "0/1 nodes are available: 1 Insufficient example.com/gpu.",
        ),
        (
            "no room for a Pod",
            json!({}),
            vec![node("a", json!({"has": {"pods": "0"}}))],
            "0/1 nodes are available: 1 Too many pods.",
        ),
        (
            "an image where commands run",
            json!({"containers": [{"name": "web", "image": "x"}]}),
            vec![node("local", json!({"labels": {"setpoint.dev/needs-command": "true"}}))],
            "0/1 nodes are available: 1 node(s) run processes, and a container has no command.",
        ),
    ];
    for (name, spec, nodes, expected) in rows {
        assert_eq!(answer(&pod("p", spec), &mut board(nodes)), expected, "{name}");
    }
}

#[test]
fn what_a_pod_takes_up_is_the_most_that_runs_at_once() {
    let cpu = |name: &str, cpu: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu}}});
    let sidecar = |name: &str, amount: &str| {
        let mut container = cpu(name, amount);
        container["restartPolicy"] = json!("Always");
        container
    };
    let rows = [
        ("containers run together", json!({"containers": [cpu("a", "1"), cpu("b", "500m")]}), 1500),
        ("init containers run alone", json!({"containers": [cpu("a", "1")], "initContainers": [cpu("i", "3")]}), 3000),
        (
            "a sidecar runs beside all",
            json!({"containers": [cpu("a", "1")], "initContainers": [sidecar("s", "1"), cpu("i", "3")]}),
            4000,
        ),
        (
            "one that starts later does not run beside what came before",
            json!({"containers": [cpu("a", "1")], "initContainers": [cpu("i", "3"), sidecar("s", "1")]}),
            3000,
        ),
        ("overhead comes on top", json!({"containers": [cpu("a", "1")], "overhead": {"cpu": "250m"}}), 1250),
        (
            "what the Pod says as a whole counts",
            json!({"containers": [cpu("a", "1")], "resources": {"requests": {"cpu": "2"}}}),
            2000,
        ),
    ];
    for (name, spec, expected) in rows {
        assert_eq!(resources::requests(&pod("p", spec)).get("cpu"), expected, "{name}");
    }
    assert_eq!(Amounts::read(None).get("cpu"), 0);
}

#[test]
fn pods_of_a_kind_are_spread_and_room_is_given_back() {
    let owned = |name: &str| {
        let mut pod = (*pod(name, json!({"containers": [asks(json!({"cpu": "3"}))]}))).clone();
        pod.metadata.owner_references = Some(vec![
            serde_json::from_value(json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": true,
            }))
            .unwrap(),
        ]);
        Arc::new(pod)
    };
    let mut board = board(zones());
    for (name, expected) in [("p1", "a1"), ("p2", "a2"), ("p3", "b1")] {
        let pod = owned(name);
        assert_eq!(answer(&pod, &mut board), expected, "{name}");
        board.place(&pod, expected);
    }
    let full = "0/3 nodes are available: 3 Insufficient cpu.";
    assert_eq!(answer(&owned("p4"), &mut board), full);
    board.place(&owned("p1"), "a1");
    assert_eq!(answer(&owned("p4"), &mut board), full, "to be told of one again changes nothing");
    assert!(board.remove("p2"));
    assert_eq!(answer(&owned("p4"), &mut board), "a2");
    assert!(!board.remove("p2"), "room is given back once");
}

#[test]
fn a_port_of_the_node_is_taken_once() {
    let listens = |name: &str, ip: &str| {
        let port = json!({"containerPort": 80, "hostPort": 80, "hostIP": ip, "protocol": "TCP"});
        pod(name, json!({"containers": [{"name": "web", "command": ["x"], "ports": [port]}]}))
    };
    let mut board = board(vec![node("a", json!({}))]);
    board.place(&listens("p1", "127.0.0.1"), "a");
    assert_eq!(answer(&listens("p2", "127.0.0.2"), &mut board), "a");
    let taken = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.";
    assert_eq!(answer(&listens("p2", "127.0.0.1"), &mut board), taken);
    assert_eq!(answer(&listens("p2", "0.0.0.0"), &mut board), taken);
}

#[test]
fn pods_keep_to_one_another_or_away() {
    let wish = |kind: &str, app: &str| {
        json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "zone"},
        ]}}})
    };
    let mut board = board(zones());
    board.place(&pod("here", json!({})), "b1");
    let near = "0/3 nodes are available: 3 node(s) didn't match pod affinity rules.";
    let away = "0/3 nodes are available: 2 node(s) didn't match pod anti-affinity rules, 1 node(s) didn't satisfy \
                existing pods anti-affinity rules.";
    let mut rows = vec![
        ("with one that is there", wish("podAffinity", "web"), "b1"),
        ("with one that is nowhere", wish("podAffinity", "db"), near),
        ("away from one that is there", wish("podAntiAffinity", "web"), "a1"),
    ];
    for (name, spec, expected) in rows.drain(..) {
        assert_eq!(answer(&pod("p", spec), &mut board), expected, "{name}");
    }
    board.remove("here");
    assert_eq!(answer(&pod("p", wish("podAffinity", "web")), &mut board), "a1", "the first of a group goes anywhere");
    board.place(&pod("loner", wish("podAntiAffinity", "web")), "b1");
    board.place(&pod("other", json!({})), "a1");
    assert_eq!(answer(&pod("p", json!({})), &mut board), "a2", "nobody comes near one who wants to be alone");
    let alone = wish("podAntiAffinity", "web");
    assert!(answer(&pod("p", alone), &mut board).starts_with("0/3"), "{away}");
}

#[test]
fn what_a_pod_asks_for_is_counted_however_much_was_asked_for_before() {
    let chosen = |app: &str| json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "zone"});
    let away = |apps: &[&str]| {
        let terms: Vec<Value> = apps.iter().map(|app| chosen(app)).collect();
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
    };
    let of = |app: &str| {
        let mut pod = (*pod(app, json!({}))).clone();
        pod.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
        Arc::new(pod)
    };
    let mut board = board(zones());
    board.place(&of("aa"), "a1");
    board.place(&of("ab"), "b1");
    let spread = json!([{
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "ab"}},
    }]);
    for asked in 0..600 {
        answer(&pod("before", away(&[&format!("b{asked:03}")])), &mut board);
    }
    let refused = "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.";
    assert_eq!(answer(&pod("p", away(&["aa", "ab"])), &mut board), refused, "two terms that come before the others");
    for asked in 0..600 {
        answer(&pod("before", away(&[&format!("c{asked:03}")])), &mut board);
    }
    let mut both = away(&["aa"]);
    both["topologySpreadConstraints"] = spread;
    assert_eq!(answer(&pod("p", both), &mut board), "b1", "a term and a constraint");
}

#[test]
fn pods_are_divided_as_they_ask() {
    let spread = |when: &str, key: &str| {
        json!({"topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": {"matchLabels": {"app": "web"}},
        }]})
    };
    let mut board = board(zones());
    board.place(&pod("p1", json!({})), "a1");
    assert_eq!(answer(&pod("p2", spread("DoNotSchedule", "zone")), &mut board), "b1");
    assert_eq!(answer(&pod("p2", spread("ScheduleAnyway", "zone")), &mut board), "b1");
    board.set_node(node("b1", json!({"labels": {"zone": "b"}, "spec": {"unschedulable": true}})));
    assert_eq!(
        answer(&pod("p2", spread("DoNotSchedule", "zone")), &mut board),
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match pod topology spread constraints.",
    );
    assert_eq!(answer(&pod("p2", spread("ScheduleAnyway", "zone")), &mut board), "a2");
    assert_eq!(
        answer(&pod("p2", spread("DoNotSchedule", "rack")), &mut board),
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match pod topology spread constraints \
         (missing required label).",
    );
}
