//! The kinds that charts bring and nothing acts on yet: kept like any other, and their writers are told.

use serde_json::{Value, json};

use crate::fixture::{Api, TABLE};
use crate::objects::*;

/// One of the kinds: a good object of it, what its writers are told, and an object that is refused, by which field.
struct Idle {
    kind: &'static str,
    collection: &'static str,
    object: Value,
    told: &'static str,
    refused: Value,
    field: &'static str,
}

const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

fn pods(app: &str) -> Value {
    json!({
        "selector": {"matchLabels": {"app": app}},
        "template": {
            "metadata": {"labels": {"app": app}},
            "spec": {"containers": [{"name": "main", "image": "example.com/app:1"}]},
        },
    })
}

fn kinds() -> Vec<Idle> {
    let idle = |kind, collection, spec: Value, told, refused: Value, field| Idle {
        kind,
        collection,
        object: json!({"metadata": {"name": "a"}, "spec": spec}),
        told,
        refused: json!({"metadata": {"name": "b"}, "spec": refused}),
        field,
    };
    let job = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "c:1"}]}}});
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    vec![
        idle(
            "StatefulSet",
            STATEFUL_SETS,
            pods("a"),
            "no Pods will be created",
            json!({"replicas": -1, "selector": {"matchLabels": {"app": "b"}}, "template": pods("b")["template"]}),
            "spec.replicas",
        ),
        idle(
            "DaemonSet",
            "/apis/apps/v1/namespaces/default/daemonsets",
            pods("a"),
            "no Pods will be created",
            json!({"selector": {}, "template": pods("b")["template"]}),
            "spec.selector",
        ),
        idle(
            "CronJob",
            "/apis/batch/v1/namespaces/default/cronjobs",
            json!({"schedule": "0 3 * * *", "jobTemplate": {"spec": job}}),
            "no Jobs will be created",
            json!({"schedule": "at night", "jobTemplate": {"spec": job}}),
            "spec.schedule",
        ),
        idle(
            "PersistentVolumeClaim",
            "/api/v1/namespaces/default/persistentvolumeclaims",
            json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}),
            "no volume will be provisioned or bound",
            json!({"resources": {"requests": {"storage": "1Gi"}}}),
            "spec.accessModes",
        ),
        idle(
            "HorizontalPodAutoscaler",
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3}),
            "nothing will be scaled",
            json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}),
            "spec.maxReplicas",
        ),
        idle(
            "PodDisruptionBudget",
            BUDGETS,
            json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}),
            "evictions are not limited by it",
            json!({"minAvailable": "half"}),
            "spec.minAvailable",
        ),
        idle(
            "Ingress",
            "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
            json!({"defaultBackend": backend}),
            "no requests will be routed by it",
            json!({"rules": [{"host": "10.0.0.1"}]}),
            "spec.rules[0].host",
        ),
        idle(
            "IngressClass",
            "/apis/networking.k8s.io/v1/ingressclasses",
            json!({"controller": "example.com/gate"}),
            "no controller serves the Ingresses of this class",
            json!({}),
            "spec.controller",
        ),
        idle(
            "NetworkPolicy",
            "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
            json!({"podSelector": {}}),
            "no traffic is restricted",
            json!({"podSelector": {}, "policyTypes": ["Sideways"]}),
            "spec.policyTypes[0]",
        ),
        Idle {
            kind: "StorageClass",
            collection: "/apis/storage.k8s.io/v1/storageclasses",
            object: json!({"metadata": {"name": "a"}, "provisioner": "example.com/disks"}),
            told: "no volumes will be provisioned",
            refused: json!({"metadata": {"name": "b"}, "provisioner": ""}),
            field: "provisioner",
        },
    ]
}

fn applied(idle: &Idle) -> Value {
    let (group, rest) = idle.collection.split_at(idle.collection.find("/v").expect("a version"));
    let version = rest[1..].split('/').next().expect("a version");
    let group = group.trim_start_matches("/apis").trim_start_matches("/api").trim_start_matches('/');
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut config = idle.object.clone();
    config["apiVersion"] = api_version.into();
    config["kind"] = idle.kind.into();
    config["metadata"]["labels"] = json!({"colour": "green"});
    config
}

#[tokio::test]
async fn who_writes_what_nothing_acts_on_is_told_every_time() {
    let api = Api::new().await;
    for idle in kinds() {
        let (kind, told) = (idle.kind, idle.told);
        let warning = format!(r#"299 - "setpoint stores this {kind}, but nothing acts on it yet: {told}""#);
        let path = format!("{}/a", idle.collection);
        let created = api.post(idle.collection, idle.object.clone()).await.expect(201);
        assert_eq!(created.warnings(), [&*warning], "{kind}: create");
        let again = with(created.object.clone(), "labels", json!({"colour": "red"}));
        assert_eq!(api.put(&path, again).await.expect(200).warnings(), [&*warning], "{kind}: update");
        let patch = json!({"metadata": {"labels": {"colour": "blue"}}});
        assert_eq!(api.merge_patch(&path, patch).await.expect(200).warnings(), [&*warning], "{kind}: patch");
        for turn in ["apply", "the same apply again", "and again"] {
            let answer = api.apply(format!("{path}?force=true"), "someone", applied(&idle)).await.expect(200);
            assert_eq!(answer.warnings(), [&*warning], "{kind}: {turn}");
        }
        let dry = with(idle.object.clone(), "name", json!("dry"));
        let dry = api.post(format!("{}?dryRun=All", idle.collection), dry).await.expect(201);
        assert_eq!(dry.warnings(), [&*warning], "{kind}: a dry create");
        assert!(api.get(&path).await.expect(200).warnings().is_empty(), "{kind}: get");
        assert!(api.get(idle.collection).await.expect(200).warnings().is_empty(), "{kind}: list");
        let status = api.merge_patch(format!("{path}/status"), json!({"metadata": {"labels": {"a": "b"}}})).await;
        assert!(status.warnings().is_empty(), "{kind}: status");
        assert!(api.delete(&path).await.expect(200).warnings().is_empty(), "{kind}: delete");
    }
}

#[tokio::test]
async fn what_is_wrong_is_refused_and_not_stored() {
    let api = Api::new().await;
    for idle in kinds() {
        let refused = api.post(idle.collection, idle.refused.clone()).await.refused(422, "Invalid", &[idle.field]);
        assert!(refused.warnings().is_empty(), "{}: what is not stored needs no remark", idle.kind);
        api.get(format!("{}/b", idle.collection)).await.refused(404, "NotFound", &[]);
        api.post(idle.collection, idle.object.clone()).await.expect(201);
        let mut changed = idle.refused.clone();
        let before = api.get(format!("{}/a", idle.collection)).await.expect(200).object;
        changed["metadata"] = before["metadata"].clone();
        api.put(format!("{}/a", idle.collection), changed).await.refused(422, "Invalid", &[]);
        assert_eq!(api.get(format!("{}/a", idle.collection)).await.expect(200).object, before, "{}", idle.kind);
    }
}

#[tokio::test]
async fn they_are_shown_and_found_like_any_other() {
    let api = Api::new().await;
    for idle in kinds() {
        api.post(idle.collection, idle.object.clone()).await.expect(201);
        let table = api.get(idle.collection).accept(TABLE).await.expect(200);
        let (columns, cells) = (&table["columnDefinitions"], &table["rows"][0]["cells"]);
        assert_eq!(columns.as_array().map(Vec::len), cells.as_array().map(Vec::len), "{}", idle.kind);
        assert_eq!(cells[0], "a", "{}", idle.kind);
        for (selector, found) in [("metadata.name=a", 1), ("metadata.name=b", 0)] {
            let list = api.names(format!("{}?fieldSelector={selector}", idle.collection)).await;
            assert_eq!(list.len(), found, "{}: {selector}", idle.kind);
        }
    }
}

#[tokio::test]
async fn they_go_with_their_owner_and_their_namespace() {
    let api = Api::new().await;
    let owner = api.post(CONFIG_MAPS, config_map("owner")).await.expect(201);
    let reference =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}]);
    api.post(NAMESPACES, namespace("doomed")).await.expect(201);
    for idle in kinds() {
        api.post(idle.collection, with(idle.object.clone(), "ownerReferences", reference.clone())).await.expect(201);
        if idle.collection.contains("/namespaces/") {
            let elsewhere = idle.collection.replace("/default/", "/doomed/");
            api.post(elsewhere, idle.object.clone()).await.expect(201);
        }
    }
    api.delete(format!("{CONFIG_MAPS}/owner")).await.expect(200);
    api.delete(format!("{NAMESPACES}/doomed")).await.expect(200);
    for idle in kinds().into_iter().filter(|idle| idle.collection.contains("/namespaces/")) {
        for collection in [idle.collection.to_owned(), idle.collection.replace("/default/", "/doomed/")] {
            api.eventually(&collection, |list| list["items"].as_array().is_some_and(Vec::is_empty)).await;
        }
    }
}

#[tokio::test]
async fn a_stateful_set_is_scaled() {
    let api = Api::new().await;
    let path = format!("{STATEFUL_SETS}/db");
    let created = api.post(STATEFUL_SETS, json!({"metadata": {"name": "db"}, "spec": pods("db")})).await.expect(201);
    assert_eq!(created["status"], json!({"replicas": 0, "availableReplicas": 0}));
    assert_eq!(created["metadata"]["generation"], 1);
    let scaled = api.merge_patch(format!("{path}/scale"), json!({"spec": {"replicas": 3}})).await.expect(200);
    assert_eq!((&scaled["spec"]["replicas"], &scaled["status"]["selector"]), (&json!(3), &json!("app=db")));
    let set = api.get(&path).await.expect(200);
    assert_eq!((&set["spec"]["replicas"], &set["metadata"]["generation"]), (&json!(3), &json!(2)));
    let status = json!({"spec": {"replicas": 9}, "status": {"replicas": 3, "readyReplicas": 1}});
    let set = api.merge_patch(format!("{path}/status"), status).await.expect(200);
    assert_eq!((&set["spec"]["replicas"], &set["status"]["readyReplicas"]), (&json!(3), &json!(1)));
    let shown = api.get(STATEFUL_SETS).accept(TABLE).await.expect(200);
    assert_eq!(shown["rows"][0]["cells"][1], "1/3");
    let moved = json!({"spec": {"serviceName": "other"}});
    api.merge_patch(&path, moved).await.refused(422, "Invalid", &["updates to statefulset spec for fields other than"]);
    assert_eq!(api.get(&path).await.expect(200)["spec"]["serviceName"], "");
}

#[tokio::test]
async fn a_budget_is_written_by_those_who_read_it() {
    let api = Api::new().await;
    let path = format!("{BUDGETS}/web");
    let selector = json!({"matchLabels": {"app": "web", "tier": "front"}});
    let budget = json!({"metadata": {"name": "web"}, "spec": {"maxUnavailable": 1, "selector": selector}});
    api.post(BUDGETS, budget.clone()).await.expect(201);
    api.put(&path, budget).await.refused(
        422,
        "Invalid",
        &["metadata.resourceVersion", "must be specified for an update"],
    );
    let patch = json!({"spec": {"selector": {"matchLabels": {"app": "shop"}}}});
    let patched = api.strategic_patch(&path, patch).await.expect(200);
    assert_eq!(patched["spec"]["selector"], json!({"matchLabels": {"app": "shop"}}), "selectors are not mixed");
}
