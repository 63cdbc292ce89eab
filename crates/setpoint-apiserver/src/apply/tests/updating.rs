//! What an update leaves of who owns what.

use super::*;
use crate::apply::{
    Entry, Operation, from_scale, is_reset, keep_last_applied, to_scale, without_conflicts_of_last_applied,
};

#[test]
fn who_changes_a_field_owns_it() {
    let mut world = World::new("core.v1.ConfigMap");
    world.update("maker", json!({"metadata": {"name": "a", "labels": {"l": "1"}}, "data": {"a": "1"}}));
    let labels = json!({"f:labels": {".": {}, "f:l": {}}});
    assert_eq!(world.owned(), json!({"maker": {"f:data": {".": {}, "f:a": {}}, "f:metadata": labels}}));
    world.update("putter", json!({"metadata": {"name": "a", "labels": {"l": "1"}}, "data": {"a": "2", "b": "1"}}));
    assert_eq!(
        world.owned(),
        json!({"maker": {"f:data": {}, "f:metadata": labels}, "putter": {"f:data": {"f:a": {}, "f:b": {}}}})
    );
    let before = world.managers.clone();
    world.update("third", world.object.clone());
    assert_eq!(world.managers, before, "who changes nothing owns nothing");
    world.update("third", json!({"metadata": {"name": "a"}, "data": {"a": "2"}}));
    assert_eq!(world.owned(), json!({"maker": {"f:data": {}}, "putter": {"f:data": {"f:a": {}}}}));
}

#[test]
fn what_a_part_does_not_set_is_not_owned() {
    let rows = [
        (
            "status is none of the object's",
            Ignored::Fields(FieldSet::of(&["status"])),
            json!({"f:spec": {"f:nodeName": {}}}),
        ),
        ("one field alone", Ignored::AllBut(&["status", "phase"]), json!({"f:status": {"f:phase": {}}})),
        (
            "everything counts",
            Ignored::NOTHING,
            json!({"f:spec": {"f:nodeName": {}}, "f:status": {"f:phase": {}, "f:reason": {}}}),
        ),
    ];
    let schema = schema("core.v1.Pod");
    let empty = schema.empty_object();
    let pod = json!({"spec": {"nodeName": "n"}, "status": {"phase": "Running", "reason": "x"}});
    let new = schema.decode(&pod).expect("a Pod").object;
    for (row, ignored, owned) in rows {
        let subject = Subject { object_type: schema.root(), empty: &empty, ignored, version_bound: false };
        let writer = Writer { manager: "", api_version: "v1", subresource: "", now: "t" };
        let mut managers = Managers::default();
        update(&mut managers, subject.compare(&empty, &new), &subject, &writer);
        let [entry] = managers.0.as_slice() else { panic!("{row}: {managers:?}") };
        assert_eq!((entry.manager.as_str(), &entry.fields), ("unknown", &set(owned)), "{row}");
    }
}

#[test]
fn the_eleventh_updater_makes_the_oldest_ancient() {
    let mut world = World::new("core.v1.ConfigMap");
    for index in 0..12 {
        let mut object = world.object.clone();
        object["data"][format!("k{index:02}")] = "v".into();
        world.update(&format!("m{index:02}"), object);
    }
    let owned = world.owned();
    assert_eq!(world.managers.0.len(), 10);
    assert_eq!(
        owned["ancient-changes"],
        json!({"f:data": {".": {}, "f:k00": {}, "f:k01": {}, "f:k02": {}}}),
        "the two that were too many, and the one they were merged with"
    );
    let times: Vec<_> = world.managers.0.iter().map(|entry| entry.time.clone()).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn the_ancient_are_kept_by_version() {
    let entry = |manager: &str, version: &str, time: u32| Entry {
        time: Some(format!("2030-01-01T00:00:{time:02}Z")),
        ..Entry::new(
            manager,
            Operation::Update,
            version,
            "",
            set(json!({"f:data": {format!("f:{manager}{version}"): {}}})),
        )
    };
    let in_turns = |index: u32| entry(&format!("m{index:02}"), ["v1", "v2"][index as usize % 2], index);
    let shown = |entries: Vec<Entry>| {
        let mut managers = Managers(entries);
        managers.merge_ancient();
        assert_eq!(managers.0.len(), 10);
        let ancient = managers.0.iter().filter(|entry| entry.manager == "ancient-changes");
        ancient
            .map(|entry| (entry.api_version.clone(), entry.fields.paths().len(), entry.time.clone()))
            .collect::<Vec<_>>()
    };
    let at = |seconds: u32| Some(format!("2030-01-01T00:00:{seconds:02}Z"));
    let rows = [
        (
            "versions in turns, the oldest of each first",
            (0..13).map(in_turns).collect(),
            vec![("v2".to_owned(), 2, at(3)), ("v1".to_owned(), 3, at(4))],
        ),
        (
            "one that is young holds them already",
            (0..11).map(in_turns).chain([entry("ancient-changes", "v1", 50)]).collect(),
            vec![("v1".to_owned(), 3, at(2))],
        ),
    ];
    for (row, entries, expected) in rows {
        let mut found = shown(entries);
        found.sort_by(|a, b| b.cmp(a));
        assert_eq!(found, expected, "{row}");
    }
}

#[test]
fn records_differ_in_more_than_time() {
    let entry = |manager: &str, field: &str, time: &str| Entry {
        time: Some(time.to_owned()),
        ..Entry::new(manager, Operation::Apply, "v1", "", set(json!({"f:data": {field: {}}})))
    };
    let (a, b) = (entry("a", "f:a", "1"), entry("b", "f:b", "1"));
    let rows = [
        (
            "other times, another order",
            vec![a.clone(), b.clone()],
            vec![entry("b", "f:b", "2"), entry("a", "f:a", "3")],
            true,
        ),
        ("other fields", vec![a.clone()], vec![entry("a", "f:b", "1")], false),
        ("one more", vec![a.clone()], vec![a.clone(), b.clone()], false),
        ("one twice, another once", vec![a.clone(), a.clone(), b.clone()], vec![a.clone(), b.clone(), b], false),
    ];
    for (row, one, other, same) in rows {
        assert_eq!(Managers(one.clone()).equals_but_for_time(&Managers(other.clone())), same, "{row}");
        assert_eq!(Managers(other).equals_but_for_time(&Managers(one)), same, "{row}, the other way round");
    }
}

#[test]
fn the_record_is_read_as_it_was_written() {
    let mut world = World::new("core.v1.ConfigMap");
    world.update("z", data(json!({"a": "1"}))).apply("b", data(json!({"b": "1"}))).apply("a", data(json!({"c": "1"})));
    let text = world.managers.text();
    assert_eq!(Managers::parse(&text), world.managers);
    let order: Vec<&str> = world.managers.0.iter().map(|entry| entry.manager.as_str()).collect();
    assert_eq!(order, ["b", "a", "z"], "applies first, then by time");
    assert!(world.managers.equals_but_for_time(&Managers::parse(&text)));
}

#[test]
fn what_clients_may_say_of_the_record() {
    let entry =
        json!({"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}});
    let without = |field: &str| {
        let mut entry = entry.clone();
        entry.as_object_mut().expect("an object").remove(field);
        json!([entry])
    };
    let with = |field: &str, value: Value| {
        let mut entry = entry.clone();
        entry[field] = value;
        json!([entry])
    };
    let rows = [
        ("whole", json!([entry]), true),
        ("without fields", without("fieldsV1"), true),
        ("without an operation", without("operation"), false),
        ("without a version", without("apiVersion"), false),
        ("without a type", without("fieldsType"), false),
        ("another operation", with("operation", json!("Put")), false),
        ("another type", with("fieldsType", json!("FieldsV2")), false),
        ("fields that are none", with("fieldsV1", json!({"nope": {}})), false),
        ("empty", json!([]), false),
    ];
    for (row, value, sound) in rows {
        assert_eq!(Managers::from_client(&value).is_some(), sound, "{row}");
    }
    assert!(is_reset(&json!([])) && is_reset(&json!([{}])));
    assert!(!is_reset(&json!(null)) && !is_reset(&json!([{}, {}])) && !is_reset(&json!([entry])));
}

#[test]
fn replicas_change_hands_through_the_scale() {
    let owner = |manager: &str, subresource: &str, fields: Value| Entry {
        time: Some("t".to_owned()),
        ..Entry::new(manager, Operation::Update, "apps/v1", subresource, set(fields))
    };
    let path = ["spec", "replicas"];
    let managers = Managers(vec![
        owner("maker", "", json!({"f:spec": {"f:replicas": {}, "f:paused": {}}})),
        owner("other", "", json!({"f:metadata": {"f:labels": {}}})),
    ]);
    let scale = to_scale(&managers, &path, "autoscaling/v1");
    assert_eq!(scale.0.len(), 1, "who does not own the replicas has nothing to do with it");
    assert_eq!(from_scale(managers.clone(), scale, &path, "apps/v1"), managers, "nothing changed");
    let scaler = Entry::new("scaler", Operation::Update, "autoscaling/v1", "scale", FieldSet::of(&path));
    let after = from_scale(managers, Managers(vec![scaler]), &path, "apps/v1");
    let shown: Vec<_> =
        after.0.iter().map(|entry| (entry.manager.as_str(), &*entry.api_version, entry.time.is_some())).collect();
    assert_eq!(shown, [("maker", "apps/v1", true), ("other", "apps/v1", true), ("scaler", "apps/v1", false)]);
    assert_eq!(after.0[0].fields, set(json!({"f:spec": {"f:paused": {}}})));
}

#[test]
fn who_changes_over_from_client_side_apply_has_no_conflicts_with_itself() {
    const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1", "b": "1"}});
    let mut world = World::new("core.v1.ConfigMap");
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1", "b": "2"},
        "metadata": {"annotations": {ANNOTATION: applied.to_string()}},
    });
    world.update("kubectl-client-side-apply", object.clone());
    let Err(Refusal::Conflicts(conflicts)) = world.try_apply("kubectl", &data(json!({"a": "5", "b": "5"})), false)
    else {
        panic!("both fields are somebody's")
    };
    let left = |manager: &str| {
        let object_type = world.schema.root();
        without_conflicts_of_last_applied(manager, conflicts.clone(), &world.object, object_type).len()
    };
    assert_eq!(left("kubectl"), 1, "a is as it was applied, b was changed since");
    assert_eq!(left("another"), 2);
    keep_last_applied("another", &mut object, &data(json!({"x": "1"})));
    assert_eq!(object["metadata"]["annotations"][ANNOTATION], applied.to_string());
    keep_last_applied("kubectl", &mut object, &data(json!({"x": "1"})));
    assert_eq!(object["metadata"]["annotations"][ANNOTATION], "{\"data\":{\"x\":\"1\"}}\n");
}
