//! Small requests that would make large objects.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};
use setpoint_testkit::{Answer, Server};

use crate::SETPOINT;

const MIB: u64 = 1 << 20;
/// The most bytes of a stored object.
const LIMIT: usize = 1_572_864;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
pub(super) const BOXES: &str = "/apis/example.com/v1/namespaces/default/boxes";
const FULL: &str = "/apis/example.com/v1/namespaces/default/boxes/full";

/// What refusing a request may cost beyond what the body is read into.
const COST: u64 = 160 * MIB;

async fn server_with_boxes() -> Result<Server> {
    let server = Server::start_with(SETPOINT, &["--store", "memory"]).await?;
    define_boxes(&server).await?;
    Ok(server)
}

/// Defines a kind with defaults that are large, with texts, and with a field in which anything may stand.
pub(super) async fn define_boxes(server: &Server) -> Result<()> {
    let item = json!({"type": "object", "properties": {
        "a": {"type": "string", "default": "x".repeat(50_000)},
        "b": {"type": "string", "default": "x".repeat(50_000)},
    }});
    let strings = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let properties = json!({
        "spec": {"type": "object", "properties": {"items": {"type": "array", "items": item}, "data": strings, "free": free}},
        "status": {"type": "object", "properties": {"data": strings}},
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boxes.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
                "subresources": {"status": {}},
            }],
        },
    });
    server.client()?.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?.success()?;
    Ok(())
}

pub(super) fn a_box(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Box", "metadata": {"name": name}, "spec": spec})
}

/// The answer says that the object is too large, how large it would be, and how large it may be.
pub(super) fn ensure_too_large(row: &str, answer: &Answer) -> Result<usize> {
    let status = answer.json()?;
    let message = status["message"].as_str().unwrap_or_default();
    let is_told = answer.status == 413 && status["reason"] == "RequestEntityTooLarge";
    ensure!(is_told, "{row}: {} {:.300}", answer.status, answer.text());
    ensure!(message.contains(&format!("an object may have {LIMIT}")), "{row}: {message}");
    let size = message.split("would have ").nth(1).and_then(|rest| rest.split(' ').next());
    let size: usize =
        size.and_then(|size| size.parse().ok()).with_context(|| format!("{row}: no size in {message}"))?;
    ensure!(size > LIMIT, "{row}: {message}");
    Ok(size)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defaults_do_not_make_a_huge_object_of_a_small_request() -> Result<()> {
    let server = server_with_boxes().await?;
    let mut client = server.client()?;
    client.post(BOXES, &a_box("full", json!({"data": {"a": "b"}}))).await?.success()?;
    let before = server.peak_memory()?;
    let items = vec![json!({}); 20_000];
    let (spec, patch) = (json!({"items": items}), json!({"spec": {"items": items}}));
    let operation = json!([{"op": "add", "path": "/spec/items", "value": items}]);
    let applied = format!("{FULL}?fieldManager=me&force=true");
    for (row, answer) in [
        ("a create", client.post(BOXES, &a_box("new", spec.clone())).await?),
        ("a create that is tried", client.post(&format!("{BOXES}?dryRun=All"), &a_box("new", spec.clone())).await?),
        ("an update", client.put(FULL, &revised(&server, &spec).await?).await?),
        ("a merge patch", client.patch(FULL, "merge-patch", &patch).await?),
        ("a JSON patch", client.patch(FULL, "json-patch", &operation).await?),
        ("an apply", client.apply(&applied, &a_box("full", spec.clone())).await?),
        ("an apply of a new one", client.apply(&format!("{BOXES}/new?fieldManager=me"), &a_box("new", spec)).await?),
    ] {
        ensure_too_large(row, &answer)?;
    }
    let growth = server.peak_memory()?.saturating_sub(before);
    println!("two gigabytes of defaults cost {} MiB at most", growth / MIB);
    ensure!(growth < COST, "two gigabytes of defaults cost {} MiB", growth / MIB);
    let full = client.get(FULL).await?.success()?;
    ensure!(full["spec"] == json!({"data": {"a": "b"}}), "it is as it was: {full}");
    Ok(())
}

/// The full box with another spec.
async fn revised(server: &Server, spec: &Value) -> Result<Value> {
    let mut object = server.client()?.get(FULL).await?.success()?;
    object["spec"] = spec.clone();
    Ok(object)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defaults_of_built_in_kinds_do_not_either() -> Result<()> {
    let server = Server::start_with(SETPOINT, &["--store", "memory"]).await?;
    let before = server.peak_memory()?;
    let body = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p"}},"spec":{{"containers":[{}{{}}]}}}}"#,
        "{},".repeat(900_000)
    );
    let request = Request::post(PODS).header("content-type", "application/json").body(Bytes::from(body))?;
    ensure_too_large("900 000 containers", &server.client()?.send(request).await?)?;
    let growth = server.peak_memory()?.saturating_sub(before);
    println!("900 000 containers cost {} MiB at most", growth / MIB);
    ensure!(growth < COST, "900 000 containers cost {} MiB", growth / MIB);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_writes_do_not_make_an_object_that_one_may_not() -> Result<()> {
    let server = server_with_boxes().await?;
    let mut client = server.client()?;
    let text = "x".repeat(200_000);
    let status = format!("{FULL}/status");
    // Each grows the object in another way, a little each time.
    type Grow = fn(usize, &str) -> (&'static str, Value);
    let rows: [(&str, &str, Grow); 4] = [
        ("merge patches", FULL, |turn, text| ("merge-patch", json!({"spec": {"data": {format!("k{turn}"): text}}}))),
        ("JSON patches", FULL, |turn, text| {
            ("json-patch", json!([{"op": "add", "path": format!("/spec/data/k{turn}"), "value": text}]))
        }),
        ("copies in JSON patches", FULL, |turn, _| {
            ("json-patch", json!([{"op": "copy", "from": "/spec/data/first", "path": format!("/spec/data/k{turn}")}]))
        }),
        ("patches of the status", &status, |turn, text| {
            ("merge-patch", json!({"status": {"data": {format!("k{turn}"): text}}}))
        }),
    ];
    for (row, path, grow) in rows {
        client.post(BOXES, &a_box("full", json!({"data": {"first": text}}))).await?.success()?;
        let mut taken = 0;
        let refused = loop {
            let (kind, patch) = grow(taken, &text);
            let answer = client.patch(path, kind, &patch).await?;
            if !answer.status.is_success() {
                break answer;
            }
            taken += 1;
            ensure!(taken < 16, "{row}: 16 of them were taken");
        };
        ensure!(taken == 6, "{row}: {taken} were taken");
        let size = ensure_too_large(row, &refused)?;
        ensure!(size < LIMIT + 300_000, "{row}: {size}");
        let stored = client.get(FULL).await?.success()?.to_string().len();
        ensure!(stored < LIMIT, "{row}: {stored} bytes");
        client.patch(FULL, "merge-patch", &json!({"spec": {"data": {"first": "short"}}})).await?.success()?;
        client.delete(FULL).await?.success()?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_patch_copies_no_more_than_an_object_may_have() -> Result<()> {
    let server = server_with_boxes().await?;
    let mut client = server.client()?;
    client.post(BOXES, &a_box("full", json!({"data": {"a": "x".repeat(1_000)}}))).await?.success()?;
    let before = server.peak_memory()?;
    // Each copy doubles what the next one copies.
    let doubling: Vec<Value> =
        (0..40).map(|turn| json!({"op": "copy", "from": "/spec", "path": format!("/spec/data{turn}")})).collect();
    let answer = client.patch(FULL, "json-patch", &doubling.into()).await?;
    let status = answer.json()?;
    ensure!(
        answer.status == 413 && status["message"].as_str().is_some_and(|message| message.contains("copies")),
        "{status}"
    );
    let growth = server.peak_memory()?.saturating_sub(before);
    ensure!(growth < COST, "a patch of 40 copies cost {} MiB", growth / MIB);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_that_is_stored_counts() -> Result<()> {
    let server = Server::start_with(SETPOINT, &["--store", "memory"]).await?;
    let mut client = server.client()?;
    let config_map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});

    let mut keys = config_map("keys");
    keys["data"] = (0..5_000).map(|key| (format!("{key:0>250}"), json!(""))).collect::<serde_json::Map<_, _>>().into();
    let answer = client.post(CONFIG_MAPS, &keys).await?;
    let message = answer.text();
    ensure!(answer.status == 422 && message.contains("may not be more than 1048576 bytes"), "keys: {message:.300}");

    let mut labels = config_map("labels");
    labels["metadata"]["labels"] =
        (0..12_000).map(|key| (format!("{key:0>60}"), json!("x".repeat(60)))).collect::<serde_json::Map<_, _>>().into();
    let size = ensure_too_large("labels, and that somebody owns them", &client.post(CONFIG_MAPS, &labels).await?)?;
    ensure!(size > labels.to_string().len() + 12_000 * 60, "managedFields count: {size}");

    let mut finalizers = config_map("finalizers");
    finalizers["metadata"]["finalizers"] = (0..9_000).map(|n| format!("example.com/{n:0>50}")).collect();
    client.post(CONFIG_MAPS, &finalizers).await?.success()?;
    let path = format!("{CONFIG_MAPS}/finalizers");
    let more: Value = (0..20_000).map(|n| json!(format!("example.com/{n:0>100}"))).collect();
    let patch = json!({"metadata": {"finalizers": more}});
    ensure_too_large("finalizers", &client.patch(&path, "merge-patch", &patch).await?)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_as_large_as_may_be_can_still_be_deleted() -> Result<()> {
    let server = server_with_boxes().await?;
    let mut client = server.client()?;
    let mut object = a_box("full", json!({"data": {"text": ""}}));
    object["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]);
    let make = |length: usize| {
        let mut object = object.clone();
        object["spec"]["data"]["text"] = "x".repeat(length).into();
        object
    };
    let size = ensure_too_large("too large", &client.post(BOXES, &make(LIMIT)).await?)?;
    let longest = LIMIT - (size - LIMIT);
    ensure_too_large("one byte more", &client.post(BOXES, &make(longest + 1)).await?)?;
    client.post(BOXES, &make(longest)).await?.success()?;
    let grown = json!({"spec": {"data": {"more": ""}}});
    ensure_too_large("a field more", &client.patch(FULL, "merge-patch", &grown).await?)?;

    client.delete(FULL).await?.success()?;
    let marked = client.get(FULL).await?.success()?;
    ensure!(marked["metadata"]["deletionTimestamp"].is_string(), "it is marked");
    for left in [json!(["example.com/a"]), Value::Null] {
        // Each of these writers is new to the record of who owns what, so the record grows.
        let path = format!("{FULL}?fieldManager=finalizer-{}", left.is_null());
        client.patch(&path, "merge-patch", &json!({"metadata": {"finalizers": left}})).await?.success()?;
    }
    ensure!(client.get(FULL).await?.status == 404, "it is gone");
    Ok(())
}
