//! Jobs as a user sees them.

use super::*;

fn job(change: impl FnOnce(&mut Value)) -> Value {
    let mut object = json!({
        "metadata": {"name": "a", "uid": "u"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox:1"}]}}},
    });
    change(&mut object);
    Behaviour::default(&Job, &mut object);
    Job.prepare_create(&mut object);
    object
}

fn messages(errors: Errors) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn a_job_is_completed() {
    let object = job(|_| {});
    let labels = json!({
        "batch.kubernetes.io/controller-uid": "u",
        "batch.kubernetes.io/job-name": "a",
        "controller-uid": "u",
        "job-name": "a",
    });
    assert_eq!(object["metadata"]["labels"], labels);
    let spec = &object["spec"];
    assert_eq!(spec["template"]["metadata"]["labels"], labels);
    assert_eq!(spec["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}));
    let rows = [
        ("parallelism", json!(1)),
        ("completions", json!(1)),
        ("backoffLimit", json!(6)),
        ("completionMode", json!("NonIndexed")),
        ("suspend", json!(false)),
        ("manualSelector", json!(false)),
        ("podReplacementPolicy", json!("TerminatingOrFailed")),
    ];
    for (field, expected) in rows {
        assert_eq!(spec[field], expected, "{field}");
    }
    assert_eq!(job(|object| object["spec"]["parallelism"] = json!(2))["spec"].get("completions"), None);
}

#[test]
fn jobs_are_checked() {
    type Change = fn(&mut Value);
    let rows: [(&str, Change, Vec<&str>); 7] = [
        ("a good one", |_| {}, vec![]),
        (
            "pods that never end",
            |object| object["spec"]["template"]["spec"]["restartPolicy"] = json!("Always"),
            vec![r#"spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never""#],
        ),
        (
            "negative numbers",
            |object| object["spec"]["backoffLimit"] = json!(-1),
            vec!["spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            "an indexed job without a number of completions",
            |object| {
                object["spec"]["completionMode"] = json!("Indexed");
                object["spec"]["parallelism"] = json!(2);
            },
            vec!["spec.completions: Required value: when completion mode is Indexed"],
        ),
        (
            "limits that only an indexed job has",
            |object| object["spec"]["backoffLimitPerIndex"] = json!(1),
            vec!["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"],
        ),
        (
            "a name too long for the hosts of an indexed job",
            |object| {
                object["spec"]["completionMode"] = json!("Indexed");
                object["metadata"]["name"] = json!("a.b");
            },
            vec![r#"metadata.name: Invalid value: "a.b": will not able to create pod with invalid DNS label: a.b-0"#],
        ),
        (
            "a selector of one's own that is not declared",
            |object| {
                object["spec"]["selector"] = json!({"matchLabels": {"x": "y"}});
                object["spec"]["template"]["metadata"] = json!({"labels": {"x": "y"}});
            },
            vec![
                r#"spec.selector: Invalid value: {"matchLabels":{"batch.kubernetes.io/controller-uid":"u","x":"y"}}: `selector` not auto-generated"#,
            ],
        ),
    ];
    for (name, change, expected) in rows {
        let object = job(change);
        let mut errors = Errors::default();
        Job.validate(Node::root(&object), &mut errors);
        assert_eq!(messages(errors), expected, "{name}");
    }
}

#[test]
fn little_of_a_job_may_change() {
    type Change = fn(&mut Value);
    let rows: [(&str, bool, Change, Vec<&str>); 5] = [
        ("parallelism", false, |object| object["spec"]["parallelism"] = json!(5), vec![]),
        (
            "completions",
            false,
            |object| object["spec"]["completions"] = json!(3),
            vec!["spec.completions: Invalid value: 3: field is immutable"],
        ),
        (
            "the mode",
            false,
            |object| object["spec"]["completionMode"] = json!("Indexed"),
            vec![r#"spec.completionMode: Invalid value: "Indexed": field is immutable"#],
        ),
        (
            "where a suspended job will run",
            true,
            |object| object["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"}),
            vec![],
        ),
        ("a suspended job starts", true, |object| object["spec"]["suspend"] = json!(false), vec![]),
    ];
    for (name, suspended, change, expected) in rows {
        let old = job(|object| object["spec"]["suspend"] = json!(suspended));
        let mut new = old.clone();
        change(&mut new);
        let mut errors = Errors::default();
        Job.validate_update(Node::root(&new), &old, Part::Main, &mut errors);
        assert_eq!(messages(errors), expected, "{name}");
    }
    let old = job(|_| {});
    let mut new = old.clone();
    new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("other");
    let mut errors = Errors::default();
    Job.validate_update(Node::root(&new), &old, Part::Main, &mut errors);
    let messages = messages(errors);
    assert!(messages[0].starts_with("spec.template: Invalid value: {"), "{messages:?}");
    assert!(messages[0].ends_with("field is immutable"), "{messages:?}");
}

#[test]
fn a_job_in_a_table() {
    let now: Timestamp = "2030-01-01T00:10:00Z".parse().expect("a time");
    let complete = json!([{"type": "Complete", "status": "True"}]);
    let rows = [
        ("new", json!({"completions": 3}), json!({}), ["Running", "0/3", ""]),
        ("a queue", json!({"parallelism": 4}), json!({"succeeded": 2}), ["Running", "2/1 of 4", ""]),
        ("running", json!({"completions": 1}), json!({"startTime": "2030-01-01T00:09:00Z"}), ["Running", "0/1", "60s"]),
        (
            "complete",
            json!({"completions": 1}),
            json!({
                "succeeded": 1,
                "startTime": "2030-01-01T00:00:00Z",
                "completionTime": "2030-01-01T00:00:05Z",
                "conditions": complete,
            }),
            ["Complete", "1/1", "5s"],
        ),
    ];
    for (name, spec, status, expected) in rows {
        let object = json!({"metadata": {"name": "a"}, "spec": spec, "status": status});
        assert_eq!(Job.cells(&object, now)[1..4], expected.map(Value::from), "{name}");
    }
}
