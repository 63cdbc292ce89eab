//! Deletions and owners that are refused: what is said of them, and that nothing happened.

use super::*;

/// Options, as a body and as a query where a query can say them.
type Row = (&'static str, Value, &'static str, u16, &'static str, &'static str);

fn rows(uid: &Value) -> Vec<Row> {
    let other = "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d";
    vec![
        (
            "a policy that nobody has",
            json!({"propagationPolicy": "Sideways"}),
            "propagationPolicy=Sideways",
            422,
            "Invalid",
            r#"propagationPolicy: Unsupported value: "Sideways": supported values: "Foreground", "Background", "Orphan", "nil""#,
        ),
        (
            "two ways to say it",
            json!({"propagationPolicy": "Orphan", "orphanDependents": true}),
            "propagationPolicy=Orphan&orphanDependents=true",
            422,
            "Invalid",
            "orphanDependents and deletionPropagation cannot be both set",
        ),
        (
            "two ways to say it, at odds",
            json!({"propagationPolicy": "Foreground", "orphanDependents": false}),
            "propagationPolicy=Foreground&orphanDependents=false",
            422,
            "Invalid",
            "orphanDependents and deletionPropagation cannot be both set",
        ),
        ("a rehearsal of something else", json!({"dryRun": ["Some"]}), "dryRun=Some", 422, "Invalid", "dryRun"),
        ("no number", json!({"gracePeriodSeconds": "soon"}), "gracePeriodSeconds=soon", 400, "BadRequest", ""),
        (
            "another object's uid",
            json!({"preconditions": {"uid": other}}),
            "",
            409,
            "Conflict",
            "the UID in the precondition (9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d) does not match the UID in record (",
        ),
        (
            "an old revision",
            json!({"preconditions": {"resourceVersion": "1"}}),
            "",
            409,
            "Conflict",
            "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (",
        ),
        (
            "the uid, but an old revision",
            json!({"preconditions": {"uid": uid, "resourceVersion": "1"}, "propagationPolicy": "Foreground"}),
            "",
            409,
            "Conflict",
            "the ResourceVersion in the precondition (1)",
        ),
        ("options of another kind", json!({"kind": "Sweep", "apiVersion": "v1"}), "", 400, "BadRequest", "Sweep"),
        ("options that are none", json!([]), "", 400, "BadRequest", ""),
    ]
}

#[tokio::test]
async fn a_refused_deletion_deletes_nothing_and_marks_nothing() {
    let api = Api::new().await;
    let top = owner(&api, "top").await;
    dependent(&api, "below", &[blocking(&top)]).await;
    settle(&api).await;
    let before = (api.store.revision(), api.get(path("top")).await.object);
    for (row, options, query, status, reason, words) in rows(&top["metadata"]["uid"]) {
        let mut sent = vec![("in its body", api.delete_with(path("top"), options).await)];
        if !query.is_empty() {
            sent.push(("in its query", api.delete(format!("{}?{query}", path("top"))).await));
            sent.push(("of a collection", api.delete(format!("{CONFIG_MAPS}?{query}")).await));
        }
        for (how, answer) in sent {
            assert_eq!((answer.status, &answer["reason"]), (status, &json!(reason)), "{row}, {how}: {}", answer.text());
            assert!(answer.message().contains(words), "{row}, {how}: {}", answer.message());
        }
        assert_eq!((api.store.revision(), api.get(path("top")).await.object), before, "{row}");
    }
    assert_eq!(api.names(CONFIG_MAPS).await, ["below", "top"]);
}

#[tokio::test]
async fn who_is_no_owner_is_not_stored_as_one() {
    let api = Api::new().await;
    let top = owner(&api, "top").await;
    let good = reference(&top);
    let with_field = |field: &str, value: Value| {
        let mut reference = good.clone();
        reference[field] = value;
        json!([reference])
    };
    let before = api.store.revision();
    let controllers = json!([with_field("controller", json!(true))[0], with_field("controller", json!(true))[0]]);
    let event = json!([{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": top["metadata"]["uid"]}]);
    let rows = [
        (
            "no uid",
            with_field("uid", json!("")),
            "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
        ),
        (
            "no name",
            with_field("name", json!("")),
            "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
        ),
        (
            "no kind",
            with_field("kind", json!("")),
            "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
        ),
        ("no version", with_field("apiVersion", json!("")), "version must not be empty"),
        ("two controllers", controllers, "Only one reference can have Controller set to true"),
        ("an event", event, "is disallowed from being an owner"),
    ];
    for (row, owners, words) in rows {
        let answer = api.post(CONFIG_MAPS, with(config_map("new"), "ownerReferences", owners.clone())).await;
        assert_eq!((answer.status, &answer["reason"]), (422, &json!("Invalid")), "{row}: {}", answer.text());
        assert!(answer.message().contains(words), "{row}: {}", answer.message());
        let answer = api.merge_patch(path("top"), json!({"metadata": {"ownerReferences": owners}})).await;
        assert_eq!((answer.status, &answer["reason"]), (422, &json!("Invalid")), "{row}: {}", answer.text());
        assert_eq!(api.store.revision(), before, "{row}: nothing is stored");
    }
}

#[tokio::test]
async fn what_is_being_deleted_takes_no_new_finalizer_and_comes_not_back() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, with(config_map("held"), "finalizers", json!(["example.com/hold"]))).await.expect(201);
    api.delete(path("held")).await.expect(200);
    let before = api.store.revision();
    let added = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}});
    let apply = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/more"]}});
    for answer in [api.merge_patch(path("held"), added).await, api.apply(path("held"), "two", apply).await] {
        answer.refused(422, "Invalid", &["metadata.finalizers: Forbidden: no new finalizers can be added"]);
    }
    let again = api.post(CONFIG_MAPS, config_map("held")).await;
    again.refused(409, "AlreadyExists", &["object is being deleted"]);
    assert_eq!(api.store.revision(), before);
}
