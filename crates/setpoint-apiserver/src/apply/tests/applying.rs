//! What an apply makes of an object and of its record.

use super::*;

#[test]
fn what_is_left_out_goes_unless_somebody_else_has_it() {
    let mut world = World::new("core.v1.ConfigMap");
    world.apply("one", data(json!({"a": "1", "b": "2"}))).apply("one", data(json!({"b": "2"})));
    assert_eq!(world.object["data"], json!({"b": "2"}));
    world.apply("two", data(json!({"b": "2", "c": "3"}))).apply("one", json!({}));
    assert_eq!(world.object["data"], json!({"b": "2", "c": "3"}), "the other still wants b");
    assert_eq!(world.owned(), json!({"two": {"f:data": {"f:b": {}, "f:c": {}}}}));
    world.apply("two", json!({}));
    assert_eq!(world.object.get("data"), None);
    assert_eq!(world.owned(), json!({}));
}

#[test]
fn an_object_keeps_its_name_when_its_labels_go() {
    for after in [json!({"metadata": {"name": "a"}}), json!({})] {
        let mut world = World::new("core.v1.ConfigMap");
        world.apply("one", json!({"metadata": {"name": "a", "labels": {"x": "1"}}})).apply("one", after);
        assert_eq!(world.object["metadata"], json!({"name": "a"}));
    }
}

#[test]
fn an_updated_field_stays_when_its_applier_gives_it_up() {
    let mut world = World::new("core.v1.ConfigMap");
    world.apply("one", data(json!({"a": "1"}))).update("put", data(json!({"a": "2", "b": "1"})));
    assert_eq!(world.owned(), json!({"put": {"f:data": {"f:a": {}, "f:b": {}}}}));
    world.force("one", data(json!({"a": "3"}))).apply("one", json!({}));
    assert_eq!(world.object["data"], json!({"b": "1"}), "what was taken by force goes with who took it");
}

#[test]
fn conflicts_name_the_owner_and_the_field() {
    let containers = |container: Value| json!({"spec": {"containers": [container]}});
    let mut world = World::new("core.v1.Pod");
    let first = json!({"name": "c", "image": "x:1", "env": [{"name": "A", "value": "1"}]});
    world.apply("one", containers(first)).update(
        "put",
        json!({"spec": {"nodeName": "n", "containers": [
            {"name": "c", "image": "x:1", "env": [{"name": "A", "value": "1"}]},
        ]}}),
    );
    let mut config = containers(json!({"name": "c", "image": "x:2", "env": [{"name": "A", "value": "5"}]}));
    config["spec"]["nodeName"] = "m".into();
    let before = (world.object.clone(), world.managers.clone());
    assert_eq!(
        refusal(world.try_apply("two", &config, false)),
        [
            r#"conflict with "one": .spec.containers[name="c"].image"#,
            r#"conflict with "one": .spec.containers[name="c"].env[name="A"].value"#,
            r#"conflict with "put" using v1: .spec.nodeName"#,
        ]
    );
    assert_eq!((world.object.clone(), world.managers.clone()), before, "a refusal changes nothing");
    world.force("two", config);
    let kept = &world.owned()["one"]["f:spec"]["f:containers"][r#"k:{"name":"c"}"#];
    assert_eq!(kept, &json!({".": {}, "f:env": {r#"k:{"name":"A"}"#: {".": {}, "f:name": {}}}, "f:name": {}}));
}

#[test]
fn the_same_value_is_shared() {
    let mut world = World::new("core.v1.ConfigMap");
    world.apply("one", data(json!({"a": "1"}))).apply("two", data(json!({"a": "1"})));
    assert_eq!(refusal(world.try_apply("one", &data(json!({"a": "2"})), false)), [r#"conflict with "two": .data.a"#]);
    let last = world.managers.0.iter().find(|entry| entry.manager == "two").expect("an owner");
    assert_eq!(last.time, None, "who changed nothing has no time, as in Kubernetes");
}

#[test]
fn elements_of_lists_belong_to_their_appliers() {
    let ports = |ports: Value| json!({"spec": {"ports": ports}});
    let mut world = World::new("core.v1.Service");
    world
        .apply("one", ports(json!([{"name": "a", "port": 80}])))
        .apply("two", ports(json!([{"name": "b", "port": 81}, {"name": "u", "port": 80, "protocol": "UDP"}])));
    let names = |world: &World| -> Vec<Value> {
        let ports = world.object["spec"]["ports"].as_array().into_iter().flatten();
        ports.map(|port| port["name"].clone()).collect()
    };
    assert_eq!(names(&world), ["a", "b", "u"]);
    let own = json!({r#"k:{"port":80,"protocol":"TCP"}"#: {".": {}, "f:name": {}, "f:port": {}}});
    assert_eq!(world.owned()["one"]["f:spec"]["f:ports"], own, "a key left out has its default");
    world.apply("one", ports(json!([])));
    assert_eq!(names(&world), ["b", "u"]);
}

#[test]
fn lists_keep_the_order_of_the_configuration_and_their_own_places() {
    let rows = [
        ("new elements come after", json!(["a", "b"]), json!(["c"]), json!(["a", "b", "c"])),
        ("the configuration's order wins", json!(["a", "b", "c"]), json!(["c", "a"]), json!(["b", "c", "a"])),
        ("what is between stays between", json!(["a", "x", "b"]), json!(["a", "b"]), json!(["a", "x", "b"])),
        ("a new one in the middle", json!(["a", "b"]), json!(["a", "n", "b"]), json!(["a", "n", "b"])),
        ("nothing applied", json!(["a"]), json!([]), json!(["a"])),
    ];
    for (row, before, applied, after) in rows {
        let finalizers = |names: &Value| json!({"metadata": {"finalizers": names}});
        let mut world = World::new("core.v1.ConfigMap");
        world.update("put", finalizers(&before)).apply("one", finalizers(&applied));
        assert_eq!(world.object["metadata"]["finalizers"], after, "{row}");
    }
}

#[test]
fn what_counts_as_one_value_is_replaced_as_one() {
    let mut world = World::new("core.v1.Service");
    world.apply("one", json!({"spec": {"selector": {"app": "a"}}}));
    assert_eq!(world.owned()["one"], json!({"f:spec": {"f:selector": {}}}));
    assert_eq!(
        refusal(world.try_apply("two", &json!({"spec": {"selector": {"tier": "b"}}}), false)),
        [r#"conflict with "one": .spec.selector"#]
    );
    world.force("two", json!({"spec": {"selector": {"tier": "b"}}}));
    assert_eq!(world.object["spec"]["selector"], json!({"tier": "b"}));
}

#[test]
fn configurations_that_are_none() {
    let rows = [
        ("a field that is none", json!({"nope": 1}), ".nope: field not declared in schema"),
        ("below", json!({"spec": {"nope": 1}}), ".spec.nope: field not declared in schema"),
        ("a number", json!({"spec": {"hostname": 5}}), ".spec.hostname: expected a string, found a number"),
        ("an object", json!({"spec": {"containers": {}}}), ".spec.containers: expected a list, found an object"),
        (
            "the same key twice",
            json!({"spec": {"containers": [{"name": "d"}, {"name": "d"}]}}),
            r#".spec.containers: duplicate entries for key [name="d"]"#,
        ),
        (
            "the same value twice",
            json!({"metadata": {"finalizers": ["a/b", "a/b"]}}),
            r#".metadata.finalizers: duplicate entries for key [="a/b"]"#,
        ),
        (
            "no element",
            json!({"spec": {"containers": [null]}}),
            ".spec.containers: element 0: associative list with keys may not have a null element",
        ),
        (
            "a list in a set",
            json!({"metadata": {"finalizers": [[]]}}),
            ".metadata.finalizers: element 0: not supported: associative list with lists as elements",
        ),
    ];
    for (row, config, message) in rows {
        let mut world = World::new("core.v1.Pod");
        assert_eq!(refusal(world.try_apply("one", &config, true)), [message], "{row}");
    }
}

#[test]
fn null_and_nothing_are_owned_but_take_nothing_away() {
    let mut world = World::new("core.v1.ConfigMap");
    world.update("put", data(json!({"a": "1"}))).apply("one", json!({"data": null, "immutable": null}));
    assert_eq!(world.object["data"], json!({"a": "1"}));
    assert_eq!(world.owned()["one"], json!({"f:data": {}, "f:immutable": {}}));
}

#[test]
fn what_nobody_owned_before_the_first_apply_is_told_apart() {
    let mut world = World::new("core.v1.ConfigMap");
    world.object = world.schema.decode(&data(json!({"a": "1"}))).expect("an object").object;
    assert_eq!(
        refusal(world.try_apply("one", &data(json!({"a": "2"})), false)),
        [r#"conflict with "before-first-apply" using v1: .data.a"#]
    );
}

#[test]
fn a_type_that_has_become_one_value_is_owned_as_one() {
    let selector = set(json!({"f:spec": {"f:selector": {".": {}, "f:app": {}}, "f:type": {}}}));
    let fitted = selector.fitted(schema("core.v1.Service").root());
    assert_eq!(fitted, set(json!({"f:spec": {"f:selector": {}, "f:type": {}}})));
}
