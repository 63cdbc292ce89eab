//! What a policy says of its decisions, and how it follows what changes.

use super::*;

#[test]
fn reasons_are_told_as_kubernetes_tells_them() {
    let policy = company();
    let pods = resource("", "pods", "", "shop");
    let scale = resource("apps", "deployments/scale", "a", "shop");
    let rows = [
        (
            who("jane", &[]),
            "get",
            pods,
            r#"RBAC: allowed by RoleBinding "jane-reads/shop" of Role "reader" to User "jane""#,
        ),
        (
            who("system:serviceaccount:shop:robot", &[]),
            "update",
            scale,
            r#"RBAC: allowed by RoleBinding "robots/shop" of Role "scaler" to ServiceAccount "robot/shop""#,
        ),
        (
            who("x", &["ops"]),
            "get",
            pods,
            r#"RBAC: allowed by ClusterRoleBinding "nodes" of ClusterRole "node-reader" to Group "ops""#,
        ),
        (
            who("ed", &["editors"]),
            "create",
            pods,
            r#"RBAC: allowed by RoleBinding "editors/shop" of ClusterRole "edit" to Group "editors""#,
        ),
        (who("x", &["system:masters"]), "get", pods, ""),
        (who("joe", &[]), "get", pods, ""),
        (
            who("lou", &[]),
            "get",
            pods,
            r#"RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, role.rbac.authorization.k8s.io "gone" not found]"#,
        ),
        (
            who("lou", &[]),
            "get",
            resource("", "nodes", "", ""),
            r#"RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found"#,
        ),
    ];
    for (user, verb, target, expected) in rows {
        assert_eq!(reason(&policy, &user, verb, target), expected, "{user:?}");
    }
}

#[test]
fn changes_take_effect_at_once() {
    let mut policy = Policy::default();
    let jane = who("jane", &["team"]);
    let pods = resource("", "pods", "", "shop");
    let reader =
        |verb: &str| role("Role", "shop", "r", json!([{"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}]));
    let to = |subject: Value| binding("shop", "b", ("Role", "r"), json!([subject]));
    let gone = |kind| Change::Removed { kind, namespace: "shop", name: if kind == Kind::Role { "r" } else { "b" } };
    let (get, list, by_name, by_group, to_other) =
        (reader("get"), reader("list"), to(user("jane")), to(group("team")), to(user("joe")));
    let steps: [(&str, Change<'_>, bool); 10] = [
        ("a binding of a role to come", Change::Set(Kind::RoleBinding, &by_name), false),
        ("the role", Change::Set(Kind::Role, &get), true),
        ("other rules", Change::Set(Kind::Role, &list), false),
        ("the first rules again", Change::Set(Kind::Role, &get), true),
        ("another subject", Change::Set(Kind::RoleBinding, &to_other), false),
        ("a group", Change::Set(Kind::RoleBinding, &by_group), true),
        ("the role goes", gone(Kind::Role), false),
        ("and comes back", Change::Set(Kind::Role, &get), true),
        ("the binding goes", gone(Kind::RoleBinding), false),
        ("what is gone goes again", gone(Kind::RoleBinding), false),
    ];
    for (name, change, expected) in steps {
        policy.apply(&change);
        assert_eq!(allowed(&policy, &jane, "get", pods), expected, "{name}");
    }
}

#[test]
fn roles_gather_the_rules_of_others() {
    let part = |name: &str, whole: &str, resource: &str| {
        json!({"metadata": {"name": name, "labels": {"to": whole}},
            "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": [resource]}]})
    };
    let whole = |name: &str, labels: Value| {
        json!({"metadata": {"name": name, "labels": labels}, "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": name}}]}})
    };
    let mut policy = Policy::default();
    let set = |policy: &mut Policy, object: &Value| policy.apply(&Change::Set(Kind::ClusterRole, object));
    let names = |policy: &Policy, name: &str| -> Option<Vec<String>> {
        let rules = policy.aggregated_rules(name)?;
        Some(rules.iter().map(|rule| rule.resources[0].to_string()).collect())
    };
    let some = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect::<Vec<_>>());

    set(&mut policy, &part("b", "inner", "pods"));
    set(&mut policy, &whole("outer", json!({})));
    assert_eq!(names(&policy, "outer"), some(&[]), "its own rules do not count");
    set(&mut policy, &whole("inner", json!({"to": "outer"})));
    assert_eq!(names(&policy, "outer"), some(&["pods"]), "a role within a role");
    set(&mut policy, &part("a", "inner", "nodes"));
    set(&mut policy, &part("z", "outer", "jobs"));
    assert_eq!(names(&policy, "outer"), some(&["nodes", "pods", "jobs"]), "in the order of their names");
    set(&mut policy, &part("c", "inner", "pods"));
    assert_eq!(names(&policy, "inner"), some(&["nodes", "pods"]), "a rule that two have stands once");
    set(&mut policy, &part("a", "nowhere", "nodes"));
    assert_eq!(names(&policy, "outer"), some(&["pods", "jobs"]), "a label that is gone");
    assert_eq!(names(&policy, "a"), None, "a role with rules of its own");
    set(&mut policy, &whole("outer", json!({"to": "inner"})));
    assert_eq!(names(&policy, "inner"), some(&["pods", "jobs"]), "roles that take in each other");
    for name in ["b", "c"] {
        policy.apply(&Change::Removed { kind: Kind::ClusterRole, namespace: "", name });
    }
    assert_eq!(names(&policy, "outer"), some(&["jobs"]), "lose what is gone all the same");
    assert_eq!(policy.aggregating_roles().collect::<Vec<_>>(), ["inner", "outer"]);
}

#[test]
fn rules_are_listed_binding_by_binding() {
    let policy = company();
    let listed = |user: &Identity, namespace: &str| -> Vec<String> {
        policy.rules_for(user, namespace).rules().into_iter().map(Rule::to_string).collect()
    };
    let jane = who("jane", &[]);
    assert_eq!(
        listed(&jane, "shop"),
        [
            r#"{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}"#,
            r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["tls" "key"], Verbs:["get" "update"]}"#,
        ]
    );
    assert_eq!(listed(&jane, "bank"), [r#"{APIGroups:["batch"], Resources:["jobs"], Verbs:["get"]}"#]);
    assert_eq!(listed(&jane, ""), [""; 0]);
    let both = who("ed", &["editors"]);
    assert_eq!(
        listed(&both, "shop"),
        listed(&who("ed", &[]), "shop"),
        "a binding that names somebody twice counts once"
    );
    let everybody = who("joe", &["system:authenticated"]);
    assert_eq!(
        listed(&everybody, "shop").len(),
        4,
        "two of the basic user, one of discovery, one of public information"
    );
}

#[test]
fn a_thousand_bindings_of_others_cost_nothing() {
    let mut policy = company();
    for number in 0..1_000 {
        let (namespace, subject) =
            (format!("n{}", number % 10), json!([user(&format!("u{number}")), group("everybody")]));
        let object = binding(&namespace, &format!("b{number}"), ("ClusterRole", "edit"), subject);
        policy.apply(&Change::Set(Kind::RoleBinding, &object));
    }
    let member = who("u7", &["system:authenticated", "everybody"]);
    let attributes = Attributes { user: &member, verb: "escalate", target: resource("", "pods", "a", "n7") };
    let started = std::time::Instant::now();
    const ROUNDS: u32 = 10_000;
    for _ in 0..ROUNDS {
        assert!(matches!(std::hint::black_box(policy.decide(&attributes)), Decision::Refused { .. }));
    }
    let each = started.elapsed() / ROUNDS;
    // Some 2 µs on a quiet machine; a test runs beside others.
    assert!(each < std::time::Duration::from_micros(100), "{each:?}");
    println!("a refusal takes {each:?}");
}
