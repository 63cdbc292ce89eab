//! What is wrong with a graph, and the order of one that is right.

use proptest::prelude::*;
use serde_json::{Value, json};
use setpoint_api::field::Errors;
use setpoint_api::planspec::{Edge, Graph, Node, NodeKind, Plan, PlanSpec};
use setpoint_core::graph::{order, validate};

fn graph_of(value: Value) -> Graph {
    serde_json::from_value(value).expect("a document of its kind")
}

fn errors_of(graph: Graph) -> Vec<String> {
    let spec = PlanSpec { description: "d".to_owned(), graph, ..PlanSpec::default() };
    let mut errors = Errors::default();
    validate(&Plan::new("p", spec), &mut errors);
    errors.iter().map(|error| error.to_string().trim_start_matches("spec.graph").to_owned()).collect()
}

fn order_of(graph: &Graph) -> Result<String, String> {
    let ids = |nodes: Vec<&Node>| nodes.iter().map(|node| node.id.as_str()).collect::<Vec<_>>().join(" ");
    order(graph).map(ids).map_err(|cycle| cycle.to_string())
}

fn task(id: &str) -> Value {
    json!({"id": id, "kind": "Task"})
}

fn after(id: &str, others: &[&str]) -> Value {
    json!({"id": id, "kind": "Task", "dependsOn": others})
}

fn group(id: &str, children: &[&str]) -> Value {
    json!({"id": id, "kind": "Group", "children": children})
}

fn edges(pairs: &[(&str, &str)]) -> Value {
    pairs.iter().map(|(from, to)| json!({"from": from, "to": to})).collect()
}

#[test]
fn graphs_are_checked() {
    const CIRCLE: &str = "nodes must not wait for each other in a circle";
    let rows: Vec<(&str, Value, Vec<String>)> = vec![
        ("a chain", json!({"nodes": [task("a"), task("b")], "edges": edges(&[("a", "b")])}), vec![]),
        (
            "an id twice",
            json!({"nodes": [task("a"), task("a")]}),
            vec![r#".nodes[1].id: Duplicate value: "a""#.to_owned()],
        ),
        (
            "edges to nowhere, both ends told",
            json!({"nodes": [task("a")], "edges": edges(&[("x", "y")])}),
            vec![r#".edges[0].from: Not found: "x""#.to_owned(), r#".edges[0].to: Not found: "y""#.to_owned()],
        ),
        (
            "dependsOn nowhere, which the published validator overlooks",
            json!({"nodes": [after("a", &["x"])]}),
            vec![r#".nodes[0].dependsOn[0]: Not found: "x""#.to_owned()],
        ),
        (
            "a node after itself",
            json!({"nodes": [task("a")], "edges": edges(&[("a", "a")])}),
            vec![format!(r#": Invalid value: "a -> a": {CIRCLE}"#)],
        ),
        (
            "a cycle is told whole",
            json!({"nodes": [task("a"), task("b"), task("c")], "edges": edges(&[("a", "b"), ("b", "c"), ("c", "a")])}),
            vec![format!(r#": Invalid value: "a -> b -> c -> a": {CIRCLE}"#)],
        ),
        (
            "a cycle through edges and dependsOn together",
            json!({"nodes": [after("a", &["b"]), task("b")], "edges": edges(&[("a", "b")])}),
            vec![format!(r#": Invalid value: "a -> b -> a": {CIRCLE}"#)],
        ),
        (
            "two cycles are both told",
            json!({"nodes": [after("a", &["b"]), after("b", &["a"]), after("c", &["d"]), after("d", &["c"])]}),
            vec![
                format!(r#": Invalid value: "a -> b -> a": {CIRCLE}"#),
                format!(r#": Invalid value: "c -> d -> c": {CIRCLE}"#),
            ],
        ),
        (
            "what leads to a cycle is not in it",
            json!({"nodes": [task("z"), task("a"), task("b")], "edges": edges(&[("z", "a"), ("a", "b"), ("b", "a")])}),
            vec![format!(r#": Invalid value: "a -> b -> a": {CIRCLE}"#)],
        ),
        (
            "soft edges make cycles too, as published",
            json!({"nodes": [task("a"), task("b")],
                "edges": [{"from": "a", "to": "b", "type": "soft"}, {"from": "b", "to": "a"}]}),
            vec![format!(r#": Invalid value: "a -> b -> a": {CIRCLE}"#)],
        ),
        (
            "a child that is not there",
            json!({"nodes": [group("g", &["x"])]}),
            vec![r#".nodes[0].children[0]: Not found: "x""#.to_owned()],
        ),
        (
            "a node in two groups",
            json!({"nodes": [group("g", &["a"]), group("h", &["a"]), task("a")]}),
            vec![r#".nodes[1].children[0]: Invalid value: "a": is in the group "g" already"#.to_owned()],
        ),
        (
            "a group in itself",
            json!({"nodes": [group("g", &["g"])]}),
            vec![r#": Invalid value: "g -> g": a group must not be inside itself"#.to_owned()],
        ),
        (
            "groups in each other",
            json!({"nodes": [group("g", &["h"]), group("h", &["g"])]}),
            vec![r#": Invalid value: "g -> h -> g": a group must not be inside itself"#.to_owned()],
        ),
        (
            "a node in a group waits for what waits for the group",
            json!({"nodes": [group("g", &["a"]), after("a", &["x"]), after("x", &["g"])]}),
            vec![format!(r#": Invalid value: "a -> g -> x -> a": {CIRCLE}"#)],
        ),
        (
            "a sequence against its edges",
            json!({"nodes": [{"id": "g", "kind": "Group", "children": ["a", "b"], "mode": "sequence"}, task("a"), task("b")],
                "edges": edges(&[("b", "a")])}),
            vec![format!(r#": Invalid value: "a -> b -> a": {CIRCLE}"#)],
        ),
        (
            "an edge from a group to its child says what the group says",
            json!({"nodes": [group("g", &["a"]), task("a")], "edges": edges(&[("g", "a")])}),
            vec![],
        ),
        (
            "so does one from the child to the group",
            json!({"nodes": [group("g", &["a"]), task("a")], "edges": edges(&[("a", "g")])}),
            vec![],
        ),
        (
            "what a kind of node needs is told with the rest",
            json!({"nodes": [{"id": "a", "kind": "Gate"}, task("a")], "edges": edges(&[("a", "x")])}),
            vec![
                ".nodes[0].gateRef: Required value: for a node of kind Gate".to_owned(),
                r#".nodes[1].id: Duplicate value: "a""#.to_owned(),
                r#".edges[0].to: Not found: "x""#.to_owned(),
            ],
        ),
    ];
    for (name, graph, errors) in rows {
        assert_eq!(errors_of(graph_of(graph)), errors, "{name}");
    }
}

#[test]
fn graphs_are_ordered() {
    let ok = |order: &str| Ok(order.to_owned());
    let rows: Vec<(&str, Value, Result<String, String>)> = vec![
        ("nothing", json!({"nodes": []}), ok("")),
        ("nodes without edges stay as declared", json!({"nodes": [task("c"), task("a"), task("b")]}), ok("c a b")),
        (
            "an edge puts the first before the second",
            json!({"nodes": [task("b"), task("a")], "edges": edges(&[("a", "b")])}),
            ok("a b"),
        ),
        ("so does dependsOn", json!({"nodes": [after("b", &["a"]), task("a")]}), ok("a b")),
        (
            "an edge twice is an edge",
            json!({"nodes": [after("b", &["a"]), task("a")], "edges": edges(&[("a", "b"), ("a", "b")])}),
            ok("a b"),
        ),
        (
            "a diamond",
            json!({"nodes": [task("a"), after("d", &["b", "c"]), after("c", &["a"]), after("b", &["a"])]}),
            ok("a c b d"),
        ),
        (
            "what waits for a group waits for all in it",
            json!({"nodes": [after("z", &["g"]), task("a"), task("b"), group("g", &["a", "b"])]}),
            ok("g a b z"),
        ),
        (
            "what a group waits for comes before all in it",
            json!({"nodes": [task("a"), group("g", &["a"]), task("x")], "edges": edges(&[("x", "g")])}),
            ok("x g a"),
        ),
        (
            "a sequence goes as its children are listed",
            json!({"nodes": [task("a"), task("b"), {"id": "g", "kind": "Group", "children": ["b", "a"], "mode": "sequence"}]}),
            ok("g b a"),
        ),
        (
            "groups within groups",
            json!({"nodes": [after("z", &["g"]), group("g", &["h"]), group("h", &["a"]), task("a")]}),
            ok("g h a z"),
        ),
        (
            "a cycle has no order",
            json!({"nodes": [task("z"), after("a", &["b"]), after("b", &["a"])]}),
            Err("a -> b -> a".to_owned()),
        ),
    ];
    for (name, graph, expected) in rows {
        assert_eq!(order_of(&graph_of(graph)), expected, "{name}");
    }
}

#[test]
fn a_chain_of_a_hundred_thousand_fits_the_stack() {
    let length = 100_000;
    let node = |at: usize| Node { id: format!("n{at}"), kind: NodeKind::Task, ..Node::default() };
    let edge = |at: usize| Edge { from: format!("n{at}"), to: format!("n{}", at + 1), type_: None };
    let mut graph = Graph { nodes: (0..length).rev().map(node).collect(), edges: (0..length - 1).map(edge).collect() };
    assert_eq!(errors_of(graph.clone()), Vec::<String>::new());
    assert_eq!(order(&graph).unwrap().iter().map(|node| node.id.as_str()).next(), Some("n0"));
    graph.edges.push(Edge { from: format!("n{}", length - 1), to: "n0".to_owned(), type_: None });
    assert_eq!(order(&graph).unwrap_err().nodes.len(), length);
}

/// Graphs of up to ten nodes with any edges between them.
fn graphs() -> impl Strategy<Value = Graph> {
    (1..10_usize).prop_flat_map(|count| {
        proptest::collection::vec((0..count, 0..count), 0..15).prop_map(move |pairs| {
            let node = |at: usize| Node { id: format!("n{at}"), kind: NodeKind::Task, ..Node::default() };
            let edge =
                |(from, to): (usize, usize)| Edge { from: format!("n{from}"), to: format!("n{to}"), type_: None };
            Graph { nodes: (0..count).map(node).collect(), edges: pairs.into_iter().map(edge).collect() }
        })
    })
}

proptest! {
    #[test]
    fn an_order_respects_every_edge_and_a_cycle_is_one(graph in graphs()) {
        match order(&graph) {
            Ok(nodes) => {
                prop_assert_eq!(nodes.len(), graph.nodes.len());
                let place = |id: &str| nodes.iter().position(|node| node.id == id);
                prop_assert!(graph.edges.iter().all(|edge| place(&edge.from) < place(&edge.to)));
                prop_assert_eq!(errors_of(graph.clone()), Vec::<String>::new());
            }
            Err(cycle) => {
                let has = |from: &str, to: &str| graph.edges.iter().any(|edge| edge.from == from && edge.to == to);
                let next = cycle.nodes.iter().cycle().skip(1);
                prop_assert!(cycle.nodes.iter().zip(next).all(|(from, to)| has(from, to)));
                prop_assert!(!errors_of(graph.clone()).is_empty());
            }
        }
    }
}
