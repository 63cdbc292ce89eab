//! Goals and Plans through the real binary: each is resolved when either changes, and never otherwise.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};
use setpoint_testkit::{Client, Server, wait_for};

use crate::SETPOINT;

const PATIENCE: Duration = Duration::from_secs(60);

fn path(namespace: &str, plural: &str) -> String {
    format!("/apis/planspec.io/v1alpha1/namespaces/{namespace}/{plural}")
}

fn goal(spec: &Value) -> Value {
    let mut goal = json!({
        "apiVersion": "planspec.io/v1alpha1", "kind": "Goal", "metadata": {"name": "g"}, "spec": {"description": "d"},
    });
    merge(&mut goal["spec"], spec);
    goal
}

/// A plan of the goal `g`, unless `spec` says otherwise.
fn plan(name: &str, spec: &Value) -> Value {
    let mut plan = json!({
        "apiVersion": "planspec.io/v1alpha1", "kind": "Plan", "metadata": {"name": name},
        "spec": {"description": "d", "goalRef": {"name": "g"}, "graph": {"nodes": [{"id": "a", "kind": "Task"}]}},
    });
    merge(&mut plan["spec"], spec);
    plan
}

fn version(name: &str, series: &str, version: &str) -> Value {
    plan(name, &json!({"series": series, "version": version}))
}

fn superseding(name: &str, series: &str, others: &[&str]) -> Value {
    let supersedes: Value = others.iter().map(|name| json!({"name": name})).collect();
    plan(name, &json!({"series": series, "version": "1", "supersedes": supersedes}))
}

fn labelled(name: &str, labels: &Value) -> Value {
    let mut plan = plan(name, &json!({}));
    plan["metadata"]["labels"] = labels.clone();
    plan
}

fn merge(into: &mut Value, from: &Value) {
    for (key, value) in from.as_object().into_iter().flatten() {
        into[key] = value.clone();
    }
}

/// A status in words: `Ready b PlanResolved=True/PlanFound; a LowerVersion`.
fn said(goal: &Value) -> String {
    let status = &goal["status"];
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let each = |list: &Value, said: &dyn Fn(&Value) -> String| -> Vec<String> {
        list.as_array().into_iter().flatten().map(said).collect()
    };
    let condition = |it: &Value| format!("{}={}/{}", text(&it["type"]), text(&it["status"]), text(&it["reason"]));
    let candidate = |it: &Value| format!("{} {}", text(&it["planRef"]["name"]), text(&it["reason"]));
    let conditions = each(&status["conditions"], &condition).join(" ");
    let mut said = format!("{} {} {conditions}", text(&status["phase"]), text(&status["activePlanRef"]["name"]));
    each(&status["candidates"], &candidate).iter().for_each(|candidate| said += &format!("; {candidate}"));
    said
}

async fn until_said(server: &Server, row: &str, path: &str, expected: &str) -> Result<Value> {
    let waited = wait_for(format!("{row}: {expected}"), PATIENCE, || async move {
        let goal = server.client()?.get(path).await?.success()?;
        Ok((said(&goal) == expected).then_some(goal))
    });
    match waited.await {
        Ok(goal) => Ok(goal),
        Err(error) => bail!("{error}, and it says {}", said(&server.client()?.get(path).await?.success()?)),
    }
}

async fn add(client: &mut Client, namespace: &str, plural: &str, object: &Value) -> Result<Value> {
    client.post(&path(namespace, plural), object).await?.success()
}

const FOUND: &str = "PlanResolved=True/PlanFound";
const NONE: &str = "PlanResolved=False/NoPlanFound";

/// What is told, the goal's spec, its plans, and what its status comes to say.
type Row = (&'static str, Value, Vec<Value>, String);

fn rows() -> Vec<Row> {
    let any = json!({});
    let selecting = |expression: Value| json!({"planSelector": {"matchExpressions": [expression]}});
    let gold = json!({"planSelector": {"matchLabels": {"tier": "gold"}}});
    let circle = "SupersessionSound=False/CyclicSupersession";
    vec![
        ("no plan", any.clone(), vec![], format!("Pending - {NONE}")),
        (
            "only plans that name the goal",
            any.clone(),
            vec![plan("a", &json!({"goalRef": {"name": "other"}})), plan("b", &json!({"goalRef": null}))],
            format!("Pending - {NONE}"),
        ),
        (
            "only those that matchLabels selects",
            gold,
            vec![labelled("a", &json!({"tier": "gold"})), labelled("b", &json!({"tier": "tin"}))],
            format!("Ready a {FOUND}; b NotSelected"),
        ),
        (
            "only those that matchExpressions selects",
            selecting(json!({"key": "tier", "operator": "DoesNotExist"})),
            vec![labelled("a", &json!({"tier": "gold"})), labelled("b", &json!({}))],
            format!("Ready b {FOUND}; a NotSelected"),
        ),
        (
            "only valid ones",
            any.clone(),
            vec![
                version("a", "s", "1"),
                plan(
                    "b",
                    &json!({"series": "s", "version": "2", "graph": {"nodes": [{"id": "a", "kind": "Task", "dependsOn": ["a"]}]}}),
                ),
            ],
            format!("Ready a {FOUND}; b Invalid"),
        ),
        (
            "versions are numbers",
            any.clone(),
            vec![version("a", "s", "2"), version("b", "s", "10"), version("c", "s", "1")],
            format!("Ready b {FOUND}; a LowerVersion; c LowerVersion"),
        ),
        (
            "or dotted, with a v and pre-releases",
            any.clone(),
            vec![version("a", "s", "1.9"), version("b", "s", "v2.0-rc.1"), version("c", "s", "2.0")],
            format!("Ready c {FOUND}; b LowerVersion; a LowerVersion"),
        ),
        (
            "the longer is the higher",
            any.clone(),
            vec![version("a", "s", "1.1"), version("b", "s", "1.1.0")],
            format!("Ready b {FOUND}; a LowerVersion"),
        ),
        (
            "a missing version is 0, and a group of its own",
            any.clone(),
            vec![plan("a", &json!({})), version("b", "s", "1")],
            format!("Ready b {FOUND}; a LowerVersion"),
        ),
        (
            "ties go by series, then by name",
            any.clone(),
            vec![version("a", "t", "1"), version("c", "s", "1"), version("b", "s", "1")],
            format!("Ready b {FOUND}; c TieBroken; a TieBroken"),
        ),
        (
            "who is superseded is out, with the lower versions of its series",
            any.clone(),
            vec![
                version("a", "s", "8"),
                version("b", "s", "9"),
                version("c", "s", "10"),
                superseding("d", "t", &["b"]),
            ],
            format!("Ready c {FOUND}; d LowerVersion; b Superseded; a Superseded"),
        ),
        (
            "claims of invalid plans, and of plans of other goals, do not count",
            any.clone(),
            vec![
                version("a", "s", "9"),
                plan("b", &json!({"supersedes": [{"name": "a"}], "goalRef": {"name": "other"}})),
                plan(
                    "c",
                    &json!({"supersedes": [{"name": "a"}], "graph": {"nodes": [{"id": "x", "kind": "Task"}, {"id": "y", "kind": "Task", "dependsOn": ["z"]}]}}),
                ),
            ],
            format!("Ready a {FOUND}; c Invalid"),
        ),
        (
            "a circle is told of, and obeyed by none",
            any.clone(),
            vec![superseding("a", "s", &["b"]), superseding("b", "t", &["a"])],
            format!("Ready a {FOUND} {circle}; b TieBroken"),
        ),
        (
            "a selector that selects nothing stops no other goal",
            selecting(json!({"key": "tier", "operator": "Like", "values": []})),
            vec![plan("a", &json!({}))],
            format!("Pending - {NONE}; a NotSelected"),
        ),
    ]
}

#[tokio::test]
async fn goals_are_resolved_whatever_comes_first() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    let mut client = server.client()?;
    let names: Vec<String> = (0..rows().len()).map(|row| format!("row-{row}")).collect();
    for (namespace, (row, spec, plans, _)) in names.iter().zip(rows()) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        client.post("/api/v1/namespaces", &object).await?.success()?;
        // The goal comes before all of its plans, or after, or among them.
        let place = row.len() % (plans.len() + 1);
        for plan in &plans[..place] {
            add(&mut client, namespace, "plans", plan).await.context(row)?;
        }
        add(&mut client, namespace, "goals", &goal(&spec)).await.context(row)?;
        for plan in &plans[place..] {
            add(&mut client, namespace, "plans", plan).await.context(row)?;
        }
    }
    for (namespace, (row, _, _, expected)) in names.iter().zip(rows()) {
        until_said(&server, row, &format!("{}/g", path(namespace, "goals")), &expected).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_plan_of_another_namespace_serves_a_goal_only_if_it_names_it_there() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    let mut client = server.client()?;
    let ops = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ops"}});
    client.post("/api/v1/namespaces", &ops).await?.success()?;
    add(&mut client, "default", "goals", &goal(&json!({}))).await?;
    add(&mut client, "ops", "plans", &plan("theirs", &json!({}))).await?;
    let place = format!("{}/g", path("default", "goals"));
    until_said(&server, "its own namespace's", &place, &format!("Pending - {NONE}")).await?;
    let named = json!({"spec": {"goalRef": {"name": "g", "namespace": "default"}}});
    let theirs = format!("{}/theirs", path("ops", "plans"));
    client.patch(&theirs, "merge-patch", &named).await?.success()?;
    let resolved = until_said(&server, "by name", &place, &format!("Ready theirs {FOUND}")).await?;
    assert_eq!(resolved["status"]["activePlanRef"], json!({"name": "theirs", "namespace": "ops"}));
    client.delete(&theirs).await?.success()?;
    until_said(&server, "gone", &place, &format!("Pending - {NONE}")).await?;
    Ok(())
}

/// How often goals were looked at.
async fn rounds(server: &Server) -> Result<u64> {
    let text = server.client()?.get("/metrics").await?.text();
    let series = "setpoint_controller_reconcile_seconds_count{controller=\"goal\"} ";
    let count = text.lines().find_map(|line| line.strip_prefix(series)).context("goals are not counted")?;
    Ok(count.parse()?)
}

async fn until_rounds(server: &Server, count: u64) -> Result<()> {
    wait_for(format!("round {count}"), PATIENCE, || async move { Ok((rounds(server).await? >= count).then_some(())) })
        .await
}

fn since(goal: &Value) -> &Value {
    &goal["status"]["conditions"][0]["lastTransitionTime"]
}

/// Waits until a time that is written now differs from that of a goal's condition.
async fn next_second(goal: &Value) -> Result<()> {
    let then: Timestamp = since(goal).as_str().context("a time")?.parse()?;
    let is_later = || Timestamp::now().as_second() > then.as_second();
    wait_for("another second", PATIENCE, || async { Ok(is_later().then_some(())) }).await
}

#[tokio::test]
async fn what_changes_nothing_writes_nothing_and_what_is_over_stays() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    let mut client = server.client()?;
    let (goals, plans) = (path("default", "goals"), path("default", "plans"));
    for name in ["g", "h"] {
        let mut other = goal(&json!({}));
        other["metadata"]["name"] = json!(name);
        add(&mut client, "default", "goals", &other).await?;
    }
    add(&mut client, "default", "plans", &version("a", "s", "1")).await?;
    let place = format!("{goals}/g");
    let first = until_said(&server, "a plan", &place, &format!("Ready a {FOUND}")).await?;
    until_said(&server, "no plan", &format!("{goals}/h"), &format!("Pending - {NONE}")).await?;
    assert_eq!(first["status"]["observedGeneration"], 1);

    let before = rounds(&server).await?;
    let labels = json!({"metadata": {"labels": {"tier": "gold"}}});
    client.patch(&format!("{plans}/a"), "merge-patch", &labels).await?.success()?;
    until_rounds(&server, before + 1).await?;
    let note = json!({"metadata": {"annotations": {"note": "x"}}});
    client.patch(&format!("{plans}/a"), "merge-patch", &note).await?.success()?;
    let unchanged = client.get(&place).await?.success()?;
    assert_eq!(unchanged["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);

    next_second(&first).await?;
    add(&mut client, "default", "plans", &version("b", "s", "2")).await?;
    let second = until_said(&server, "another", &place, &format!("Ready b {FOUND}; a LowerVersion")).await?;
    assert_eq!(rounds(&server).await?, before + 2, "labels and a plan: each one look, at one goal of two");
    assert_eq!(since(&second), since(&first), "the same status, since then");
    client.patch(&place, "merge-patch", &json!({"spec": {"priority": 1}})).await?.success()?;
    let third = wait_for("the new generation", PATIENCE, || async {
        let goal = server.client()?.get(&place).await?.success()?;
        Ok((goal["status"]["observedGeneration"] == 2).then_some(goal))
    });
    assert_eq!(since(&third.await?), since(&first), "nor for another generation");
    for name in ["a", "b"] {
        client.delete(&format!("{plans}/{name}")).await?.success()?;
    }
    let pending = until_said(&server, "none", &place, &format!("Pending - {NONE}")).await?;
    ensure!(since(&pending) != since(&first), "another status has another time");

    let over = json!({"status": {"phase": "Cancelled"}});
    client.patch(&format!("{place}/status"), "merge-patch", &over).await?.success()?;
    let before = rounds(&server).await?;
    add(&mut client, "default", "plans", &version("c", "s", "3")).await?;
    until_rounds(&server, before + 1).await?;
    assert_eq!(said(&client.get(&place).await?.success()?), format!("Cancelled - {NONE}"));
    Ok(())
}

#[tokio::test]
async fn plans_say_whether_they_are_valid() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    let mut client = server.client()?;
    let place = format!("{}/p", path("default", "plans"));
    let circle = json!({"nodes": [{"id": "a", "kind": "Task", "dependsOn": ["b"]}, {"id": "b", "kind": "Task", "dependsOn": ["a"]}]});
    add(&mut client, "default", "plans", &plan("p", &json!({"graph": circle}))).await?;
    let wrong = until_phase(&server, &place, "Invalid").await?;
    let valid = &wrong["status"]["conditions"][0];
    assert_eq!(
        (&valid["type"], &valid["status"], &valid["reason"]),
        (&json!("Valid"), &json!("False"), &json!("Invalid"))
    );
    ensure!(valid["message"].as_str().is_some_and(|message| message.starts_with("spec.graph: ")), "{valid}");
    assert_eq!((&wrong["status"]["nodeCount"], &wrong["status"]["observedGeneration"]), (&json!(2), &json!(1)));
    let right = json!({"spec": {"graph": {"nodes": [{"id": "a", "kind": "Task"}]}}});
    client.patch(&place, "merge-patch", &right).await?.success()?;
    let right = until_phase(&server, &place, "Ready").await?;
    assert_eq!((&right["status"]["nodeCount"], &right["status"]["observedGeneration"]), (&json!(1), &json!(2)));
    Ok(())
}

async fn until_phase(server: &Server, place: &str, phase: &str) -> Result<Value> {
    wait_for(format!("phase {phase}"), PATIENCE, || async move {
        let plan = server.client()?.get(place).await?.success()?;
        Ok((plan["status"]["phase"] == *phase).then_some(plan))
    })
    .await
}
