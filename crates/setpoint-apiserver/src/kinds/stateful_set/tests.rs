//! What StatefulSets are given, and what they are refused.

use super::*;
use crate::kinds::probe::{completed, messages, update_messages};

fn set(change: impl FnOnce(&mut Value)) -> Value {
    let mounts = json!([{"name": "data", "mountPath": "/data"}]);
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let mut object = json!({
        "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "c", "image": "db:1", "volumeMounts": mounts}]},
            },
            "volumeClaimTemplates": [claim],
        },
    });
    change(&mut object);
    object
}

#[test]
fn a_set_is_completed() {
    let object = completed(&StatefulSet, &set(|_| {}));
    let spec = &object["spec"];
    assert_eq!(spec["podManagementPolicy"], "OrderedReady");
    assert_eq!(spec["updateStrategy"], json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}));
    assert_eq!(spec["persistentVolumeClaimRetentionPolicy"], json!({"whenDeleted": "Retain", "whenScaled": "Retain"}));
    assert_eq!((&spec["replicas"], &spec["revisionHistoryLimit"]), (&json!(1), &json!(10)));
    let claim = &spec["volumeClaimTemplates"][0];
    assert_eq!((&claim["apiVersion"], &claim["kind"]), (&json!("v1"), &json!("PersistentVolumeClaim")));
    assert_eq!((&claim["spec"]["volumeMode"], &claim["status"]), (&json!("Filesystem"), &json!({"phase": "Pending"})));
    let waiting =
        completed(&StatefulSet, &set(|object| object["spec"]["updateStrategy"] = json!({"type": "OnDelete"})));
    assert_eq!(waiting["spec"]["updateStrategy"], json!({"type": "OnDelete"}));
}

#[test]
fn sets_are_checked() {
    type Change = fn(&mut Value);
    let rows: &[(&str, Change, &[&str])] = &[
        ("a good one", |_| {}, &[]),
        (
            "pods in no order that is known",
            |object| object["spec"]["podManagementPolicy"] = json!("Random"),
            &[r#"spec.podManagementPolicy: Invalid value: "Random": must be 'OrderedReady' or 'Parallel'"#],
        ),
        (
            "a strategy that is none",
            |object| object["spec"]["updateStrategy"] = json!({"type": "Recreate"}),
            &[
                r#"spec.updateStrategy: Invalid value: {"Type":"Recreate","RollingUpdate":null}: must be 'RollingUpdate' or 'OnDelete'"#,
            ],
        ),
        (
            "steps for a strategy that has none",
            |object| object["spec"]["updateStrategy"] = json!({"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
            &[
                r#"spec.updateStrategy.rollingUpdate: Invalid value: {"Partition":1,"MaxUnavailable":null}: only allowed for updateStrategy 'RollingUpdate'"#,
            ],
        ),
        (
            "less than nothing",
            |object| {
                object["spec"]["updateStrategy"] = json!({"rollingUpdate": {"partition": -1}});
                object["spec"]["replicas"] = json!(-1);
                object["spec"]["minReadySeconds"] = json!(-1);
                object["spec"]["ordinals"] = json!({"start": -1});
            },
            &[
                "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0",
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
                "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            "volumes that are kept sometimes",
            |object| object["spec"]["persistentVolumeClaimRetentionPolicy"] = json!({"whenScaled": "Sometimes"}),
            &[
                r#"spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Sometimes": supported values: "Retain", "Delete""#,
            ],
        ),
        (
            "a claim for nothing",
            |object| object["spec"]["volumeClaimTemplates"][0]["spec"] = json!({}),
            &[
                "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
                "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
            ],
        ),
        (
            "a volume without a claim",
            |object| object["spec"]["volumeClaimTemplates"] = json!([]),
            &[r#"spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data""#],
        ),
        (
            "a service with a bad name",
            |object| object["spec"]["serviceName"] = json!("a.b"),
            &[r#"spec.serviceName: Invalid value: "a.b": must not contain dots"#],
        ),
        ("no selector", |object| object["spec"]["selector"] = Value::Null, &["spec.selector: Required value"]),
        (
            "an empty selector",
            |object| object["spec"]["selector"] = json!({}),
            &["spec.selector: Invalid value: {}: empty selector is invalid for statefulset"],
        ),
        (
            "labels that the selector does not match",
            |object| object["spec"]["template"]["metadata"]["labels"] = json!({"app": "web"}),
            &[
                r#"spec.template.metadata.labels: Invalid value: {"app":"web"}: `selector` does not match template `labels`"#,
            ],
        ),
        (
            "pods that end",
            |object| {
                object["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
                object["spec"]["template"]["spec"]["activeDeadlineSeconds"] = json!(5);
            },
            &[
                r#"spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always""#,
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in StatefulSet is not Supported",
            ],
        ),
        (
            "a name that its pods give up",
            |object| object["spec"]["template"]["spec"]["hostname"] = json!("not a host"),
            &[],
        ),
    ];
    for (name, change, expected) in rows {
        assert_eq!(messages(&StatefulSet, &set(change)), *expected, "{name}");
    }
}

#[test]
fn most_of_it_stays() {
    type Change = fn(&mut Value);
    let forbidden: &[&str] = &[
        "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', \
                                'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                                'minReadySeconds' are forbidden",
    ];
    let rows: &[(&str, Change, &[&str])] = &[
        ("more pods", |object| object["spec"]["replicas"] = json!(3), &[]),
        ("another image", |object| object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("db:2"), &[]),
        ("another strategy", |object| object["spec"]["updateStrategy"] = json!({"type": "OnDelete"}), &[]),
        ("another service", |object| object["spec"]["serviceName"] = json!("other"), forbidden),
        ("another order", |object| object["spec"]["podManagementPolicy"] = json!("Parallel"), forbidden),
        (
            "larger volumes",
            |object| {
                object["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
            },
            forbidden,
        ),
        (
            "other pods",
            |object| {
                object["spec"]["selector"] = json!({"matchLabels": {"tier": "db"}});
                object["spec"]["template"]["metadata"]["labels"] = json!({"tier": "db"});
            },
            forbidden,
        ),
    ];
    for (name, change, expected) in rows {
        let found = update_messages(&StatefulSet, &set(change), &set(|_| {}), Part::Main);
        assert_eq!(found, *expected, "{name}");
    }
}

#[test]
fn counts_agree() {
    let with = |status: Value| set(|object| object["status"] = status);
    let rows = [
        ("all ready", json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 2}), vec![]),
        (
            "more ready than there are",
            json!({"replicas": 1, "readyReplicas": 2}),
            vec!["status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"],
        ),
        (
            "more available than ready",
            json!({"replicas": 2, "availableReplicas": 1}),
            vec!["status.availableReplicas: Invalid value: 1: cannot be greater than status.readyReplicas"],
        ),
        (
            "fewer collisions",
            json!({"replicas": 0, "collisionCount": 0}),
            vec!["status.collisionCount: Invalid value: 0: cannot be decremented"],
        ),
    ];
    for (name, status, expected) in rows {
        let before = if name == "fewer collisions" { json!({"collisionCount": 1}) } else { json!({}) };
        assert_eq!(update_messages(&StatefulSet, &with(status), &with(before), Part::Status), expected, "{name}");
    }
}
