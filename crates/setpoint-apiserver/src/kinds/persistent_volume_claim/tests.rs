//! What claims are given, what they are refused, and how they are shown.

use super::*;
use crate::kinds::probe::{completed, messages, update_messages};

fn claim(change: impl FnOnce(&mut Value)) -> Value {
    let mut object = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    change(&mut object);
    object
}

#[test]
fn a_claim_is_completed() {
    let object = completed(
        &PersistentVolumeClaim,
        &claim(|object| {
            object["spec"]["resources"]["requests"]["storage"] = json!("1024Mi");
        }),
    );
    assert_eq!(object["spec"]["volumeMode"], "Filesystem");
    assert_eq!(object["spec"]["resources"], json!({"requests": {"storage": "1Gi"}}));
    assert_eq!(object["status"], json!({"phase": "Pending"}));
}

#[test]
fn claims_are_checked() {
    type Change = fn(&mut Value);
    let rows: &[(&str, Change, &[&str])] = &[
        ("a good one", |_| {}, &[]),
        (
            "nothing said",
            |object| object["spec"] = json!({}),
            &[
                "spec.accessModes: Required value: at least 1 access mode is required",
                "spec.resources[storage]: Required value",
            ],
        ),
        (
            "a mode that is none",
            |object| object["spec"]["accessModes"] = json!(["Sometimes"]),
            &[
                r#"spec.accessModes: Unsupported value: "Sometimes": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod""#,
            ],
        ),
        (
            "alone and together",
            |object| object["spec"]["accessModes"] = json!(["ReadWriteOncePod", "ReadWriteMany"]),
            &["spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"],
        ),
        (
            "no room at all",
            |object| object["spec"]["resources"]["requests"]["storage"] = json!("0"),
            &[r#"spec.resources[storage]: Invalid value: "0": must be greater than zero"#],
        ),
        (
            "a mode of a volume that is none",
            |object| object["spec"]["volumeMode"] = json!("Tape"),
            &[r#"spec.volumeMode: Unsupported value: "Tape": supported values: "Block", "Filesystem""#],
        ),
        (
            "classes with bad names",
            |object| {
                object["spec"]["storageClassName"] = json!("A_B");
                object["spec"]["volumeAttributesClassName"] = json!("C_D");
            },
            &[
                "spec.storageClassName: Invalid value: \"A_B\": a lowercase RFC 1123 subdomain must consist of lower case \
                 alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
                "spec.volumeAttributesClassName: Invalid value: \"C_D\": a lowercase RFC 1123 subdomain must consist of lower \
                 case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            ],
        ),
        ("the class that is none", |object| object["spec"]["storageClassName"] = json!(""), &[]),
        (
            "an unnamed source",
            |object| object["spec"]["dataSourceRef"] = json!({"kind": "Disk"}),
            &[
                "spec.dataSourceRef.name: Required value",
                "spec.dataSourceRef: Invalid value: \"Disk\": must be 'PersistentVolumeClaim' when referencing the default \
                 apiGroup",
            ],
        ),
        (
            "two sources",
            |object| {
                object["spec"]["dataSource"] = json!({"kind": "PersistentVolumeClaim", "name": "a"});
                object["spec"]["dataSourceRef"] = json!({"kind": "PersistentVolumeClaim", "name": "b"});
            },
            &["spec: Invalid value: {}: must match dataSourceRef"],
        ),
    ];
    for (name, change, expected) in rows {
        assert_eq!(messages(&PersistentVolumeClaim, &claim(change)), *expected, "{name}");
    }
}

#[test]
fn a_source_is_said_twice() {
    let (other, disk) = (
        json!({"kind": "PersistentVolumeClaim", "name": "a"}),
        json!({"apiGroup": "example.com", "kind": "Disk", "name": "a"}),
    );
    let rows = [
        ("the old way", json!({"dataSource": other}), json!({"dataSource": other, "dataSourceRef": other})),
        ("the new way", json!({"dataSourceRef": disk}), json!({"dataSource": disk, "dataSourceRef": disk})),
        ("an unknown kind the old way", json!({"dataSource": disk}), json!({})),
        ("from elsewhere", json!({"dataSourceRef": {"kind": "K", "name": "a", "namespace": "n"}}), json!({})),
    ];
    for (name, mut spec, expected) in rows {
        volume_claim::agree_on_source(&mut spec, None);
        for field in ["dataSource", "dataSourceRef"] {
            assert_eq!(spec[field], expected[field], "{name}: {field}");
        }
    }
}

#[test]
fn what_was_asked_for_stays() {
    type Change = fn(&mut Value);
    let grow: Change = |object| object["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
    let immutable = "spec: Forbidden: spec is immutable after creation except resources.requests and \
                     volumeAttributesClassName for bound claims";
    let rows: &[(&str, &str, Change, &[&str])] = &[
        ("the same", "Pending", |_| {}, &[]),
        ("a volume is found", "Pending", |object| object["spec"]["volumeName"] = json!("pv1"), &[]),
        ("a class is found", "Pending", |object| object["spec"]["storageClassName"] = json!("fast"), &[]),
        ("more, before there is a volume", "Pending", grow, &[immutable]),
        ("more", "Bound", grow, &[]),
        (
            "less than there is",
            "Bound",
            |object| object["spec"]["resources"]["requests"]["storage"] = json!("1Mi"),
            &["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"],
        ),
        ("another use", "Bound", |object| object["spec"]["accessModes"] = json!(["ReadWriteMany"]), &[immutable]),
        (
            "another mode",
            "Bound",
            |object| object["spec"]["volumeMode"] = json!("Block"),
            &[immutable, r#"volumeMode: Invalid value: "Block": field is immutable"#],
        ),
        (
            "an annotation for the class",
            "Bound",
            |object| object["metadata"]["annotations"] = json!({CLASS_ANNOTATION: "fast"}),
            &[
                r#"metadata.annotations.volume.beta.kubernetes.io/storage-class: Invalid value: "fast": field is immutable"#,
            ],
        ),
    ];
    for (name, phase, change, expected) in rows {
        let status = json!({"phase": phase, "capacity": {"storage": "1Gi"}});
        let old = claim(|object| object["status"] = status.clone());
        let new = claim(|object| {
            object["status"] = status.clone();
            change(object);
        });
        let found = update_messages(&PersistentVolumeClaim, &new, &old, Part::Main);
        let first_lines: Vec<&str> = found.iter().filter_map(|message| message.lines().next()).collect();
        assert_eq!(first_lines, *expected, "{name}");
    }
}

#[test]
fn a_refused_change_is_shown() {
    let old = claim(|_| {});
    let new = claim(|object| object["spec"]["accessModes"] = json!(["ReadWriteMany"]));
    let found = update_messages(&PersistentVolumeClaim, &new, &old, Part::Main);
    assert!(found[0].contains("-  \"ReadWriteOnce\"\n+  \"ReadWriteMany\""), "{}", found[0]);
}

#[test]
fn a_status_is_checked() {
    let with = |status: Value| claim(|object| object["status"] = status);
    let rows = [
        ("a volume", json!({"capacity": {"storage": "1Gi"}, "allocatedResources": {"storage": "1Gi"}}), vec![]),
        (
            "less than nothing",
            json!({"capacity": {"storage": "-1"}}),
            vec!["status.capacity[storage]: Invalid value: -1: must be a valid resource quantity"],
        ),
        (
            "a state that is none",
            json!({"allocatedResourceStatuses": {"storage": "Fine"}}),
            vec![
                r#"status.allocatedResourceStatuses: Unsupported value: "storage": supported values: "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending""#,
            ],
        ),
        (
            "a resource that volumes do not have",
            json!({"allocatedResources": {"cpu": "1"}}),
            vec![r#"status.allocatedResources: Unsupported value: "cpu": supported values: "storage""#],
        ),
    ];
    for (name, status, expected) in rows {
        let found = update_messages(&PersistentVolumeClaim, &with(status), &claim(|_| {}), Part::Status);
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn a_claim_shows_its_volume() {
    let bound = claim(|object| {
        object["spec"]["volumeName"] = json!("pv1");
        object["spec"]["storageClassName"] = json!("fast");
        object["status"] = json!({"phase": "Bound", "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany", "ReadWriteOnce"]});
    });
    let cells = PersistentVolumeClaim.cells(&completed(&PersistentVolumeClaim, &bound), Timestamp::UNIX_EPOCH);
    assert_eq!(cells[1..7], ["Bound", "pv1", "1Gi", "RWO,RWX", "fast", "<unset>"].map(Value::from));
}

#[test]
fn sizes_are_whole_bytes() {
    let object = claim(|object| object["spec"]["resources"]["requests"]["storage"] = json!("100m"));
    assert_eq!(
        PersistentVolumeClaim.warnings(Node::root(&object), None),
        ["spec.resources.requests[storage]: fractional byte value \"100m\" is invalid, must be an integer"]
    );
}
