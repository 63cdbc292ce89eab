//! What holds of rights whatever the roles and bindings are.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::tests::{binding, group, resource, user, who};
use super::{Attributes, Binding, Change, Kind, Policy, RoleRef, Rule, Target, coverage};
use crate::authentication::Identity;

const VERBS: &[&str] = &["get", "list", "*"];
const GROUPS: &[&str] = &["", "apps", "*"];
const RESOURCES: &[&str] = &["pods", "pods/log", "*/log", "*/scale", "*", "jobs"];
const PATHS: &[&str] = &["/a", "/a/b", "/a/*", "/a*", "*", "/"];
const NAMES: &[&str] = &["x", "y"];
const NAMESPACES: &[&str] = &["", "m", "n"];
const LABELS: &[&str] = &["p", "q", "r"];

fn some_of(choices: &'static [&'static str], most: usize) -> impl Strategy<Value = Vec<&'static str>> {
    vec(select(choices), 0..=most)
}

fn rule() -> impl Strategy<Value = Value> {
    let resources = (some_of(VERBS, 2), some_of(GROUPS, 2), some_of(RESOURCES, 2), some_of(NAMES, 1)).prop_map(
        |(verbs, groups, resources, names)| {
            json!({"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names})
        },
    );
    let paths = (some_of(VERBS, 2), some_of(PATHS, 2))
        .prop_map(|(verbs, paths)| json!({"verbs": verbs, "nonResourceURLs": paths}));
    prop_oneof![3 => resources, 1 => paths]
}

fn rules() -> impl Strategy<Value = Vec<Value>> {
    vec(rule(), 0..4)
}

fn subject() -> impl Strategy<Value = Value> {
    let account = (select(&["", "m", "n"][..]), select(&["x", "y"][..]))
        .prop_map(|(namespace, name)| json!({"kind": "ServiceAccount", "namespace": namespace, "name": name}));
    prop_oneof![select(&["u", "v"][..]).prop_map(user), select(&["g", "h"][..]).prop_map(group), account]
}

fn identity() -> impl Strategy<Value = Identity> {
    let users = &["u", "v", "g", "system:serviceaccount:m:x", "system:serviceaccount:n:y"][..];
    (select(users), vec(select(&["g", "h", "u"][..]), 0..3)).prop_map(|(user, groups)| who(user, &groups))
}

fn target() -> impl Strategy<Value = Target<'static>> {
    let resources = (
        select(&["", "apps"][..]),
        select(&["pods", "pods/log", "jobs/scale", "jobs"][..]),
        select(&["", "x", "z"][..]),
        select(NAMESPACES),
    )
        .prop_map(|(group, what, name, namespace)| resource(group, what, name, namespace));
    prop_oneof![3 => resources, 1 => select(&["/", "/a", "/a/b", "/ab"][..]).prop_map(Target::Path)]
}

/// A change of one of a few objects, so that they are met again.
#[derive(Debug, Clone)]
struct Step {
    kind: Kind,
    object: Value,
    removed: bool,
}

impl Step {
    fn metadata(&self, field: &str) -> &str {
        self.object["metadata"][field].as_str().unwrap_or_default()
    }

    fn change(&self) -> Change<'_> {
        match self.removed {
            false => Change::Set(self.kind, &self.object),
            true => {
                Change::Removed { kind: self.kind, namespace: self.metadata("namespace"), name: self.metadata("name") }
            }
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let name = || select(&["a", "b", "c"][..]);
    let namespace = || select(&["m", "n"][..]);
    let roles = (namespace(), name(), rules()).prop_map(|(namespace, name, rules)| {
        (Kind::Role, json!({"metadata": {"name": name, "namespace": namespace}, "rules": rules}))
    });
    let cluster_roles = (name(), rules(), select(LABELS), proptest::option::of(select(LABELS))).prop_map(
        |(name, rules, label, gathers)| {
            let mut object = json!({"metadata": {"name": name, "labels": {"l": label}}, "rules": rules});
            if let Some(label) = gathers {
                object["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"l": label}}]});
            }
            (Kind::ClusterRole, object)
        },
    );
    let bindings = (select(NAMESPACES), name(), select(&["Role", "ClusterRole"][..]), name(), vec(subject(), 0..3))
        .prop_map(|(namespace, bound, kind, role, subjects)| {
            let of = if namespace.is_empty() { Kind::ClusterRoleBinding } else { Kind::RoleBinding };
            (of, binding(namespace, bound, (kind, role), subjects.into()))
        });
    let object = prop_oneof![1 => roles, 2 => cluster_roles, 3 => bindings];
    (object, proptest::bool::weighted(0.2)).prop_map(|((kind, object), removed)| Step { kind, object, removed })
}

/// What is left after all steps.
fn remaining(steps: &[Step]) -> Vec<&Step> {
    let same = |a: &Step, b: &Step| {
        a.kind == b.kind
            && a.metadata("namespace") == b.metadata("namespace")
            && a.metadata("name") == b.metadata("name")
    };
    let is_last = |(at, step): &(usize, &Step)| !steps[at + 1..].iter().any(|later| same(step, later));
    steps.iter().enumerate().filter(is_last).map(|(_, step)| step).filter(|step| !step.removed).collect()
}

/// The rules of a role, found by looking at all objects.
fn scanned_rules(objects: &[&Step], kind: Kind, namespace: &str, name: &str, passed: &mut Vec<String>) -> Vec<Rule> {
    let found = objects
        .iter()
        .find(|step| step.kind == kind && step.metadata("name") == name && step.metadata("namespace") == namespace);
    let Some(role) = found else { return Vec::new() };
    let Some(selector) = role.object["aggregationRule"]["clusterRoleSelectors"].get(0) else {
        return Rule::read_all(&role.object["rules"]);
    };
    if passed.iter().any(|passed| passed == name) {
        return Vec::new();
    }
    passed.push(name.to_owned());
    let mut rules = Vec::new();
    for member in objects.iter().filter(|step| step.kind == Kind::ClusterRole) {
        if member.object["metadata"]["labels"]["l"] == selector["matchLabels"]["l"] {
            rules.extend(scanned_rules(objects, Kind::ClusterRole, "", member.metadata("name"), passed));
        }
    }
    rules
}

/// The same decision, found by looking at all objects.
fn scanned(objects: &[&Step], attributes: &Attributes<'_>) -> bool {
    objects.iter().any(|step| {
        let namespace = step.metadata("namespace");
        let counts = match step.kind {
            Kind::ClusterRoleBinding => true,
            Kind::RoleBinding => namespace == attributes.target.namespace(),
            Kind::Role | Kind::ClusterRole => false,
        };
        let binding = Binding::read(&step.object, namespace).filter(|_| counts);
        binding.filter(|binding| binding.subject(attributes.user).is_some()).is_some_and(|binding| {
            let rules = match &binding.role {
                RoleRef::Role(name) => scanned_rules(objects, Kind::Role, namespace, name, &mut Vec::new()),
                RoleRef::ClusterRole(name) => scanned_rules(objects, Kind::ClusterRole, "", name, &mut Vec::new()),
            };
            rules.iter().any(|rule| rule.allows(attributes.verb, &attributes.target))
        })
    })
}

fn policy(steps: &[Step]) -> Policy {
    let mut policy = Policy::default();
    for step in steps {
        policy.apply(&step.change());
    }
    policy
}

fn read(rules: &[Value]) -> Vec<Rule> {
    rules.iter().map(Rule::read).collect()
}

fn missing(owned: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    coverage::missing(&owned.iter().collect::<Vec<_>>(), &wanted.iter().collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn the_index_decides_as_a_look_at_everything_does(
        steps in vec(step(), 0..20), user in identity(), verb in select(&["get", "list"][..]), target in target()
    ) {
        let attributes = Attributes { user: &user, verb, target };
        let (policy, objects) = (policy(&steps), remaining(&steps));
        let decision = policy.decide(&attributes);
        prop_assert_eq!(decision.is_allowed(), scanned(&objects, &attributes));
        prop_assert_eq!(decision.reason().starts_with("RBAC: allowed by"), decision.is_allowed());
        let listed = policy.rules_for(&user, target.namespace());
        prop_assert_eq!(decision.is_allowed(), listed.rules().iter().any(|rule| rule.allows(verb, &target)));
    }

    #[test]
    fn another_binding_never_takes_a_right_away(
        steps in vec(step(), 0..12), subjects in vec(subject(), 0..3), namespace in select(NAMESPACES),
        role in select(&["a", "b"][..]), user in identity(), target in target()
    ) {
        let attributes = Attributes { user: &user, verb: "get", target };
        let mut policy = policy(&steps);
        let before = policy.decide(&attributes).is_allowed();
        let kind = if namespace.is_empty() { Kind::ClusterRoleBinding } else { Kind::RoleBinding };
        let object = binding(namespace, "new", ("ClusterRole", role), subjects.into());
        policy.apply(&Change::Set(kind, &object));
        prop_assert!(policy.decide(&attributes).is_allowed() >= before);
        policy.apply(&Change::Removed { kind, namespace, name: "new" });
        prop_assert_eq!(policy.decide(&attributes).is_allowed(), before);
    }

    #[test]
    fn what_somebody_holds_they_can_give(rules in rules(), more in rules()) {
        let rules = read(&rules);
        prop_assert_eq!(missing(&rules, &rules), []);
        let mut richer = rules.clone();
        richer.extend(read(&more));
        prop_assert_eq!(missing(&richer, &rules), []);
    }

    #[test]
    fn what_is_given_on_was_held_by_the_first(first in rules(), second in rules(), third in rules()) {
        let (first, second, third) = (read(&first), read(&second), read(&third));
        if missing(&first, &second).is_empty() && missing(&second, &third).is_empty() {
            prop_assert_eq!(missing(&first, &third), []);
        }
        // What is missing is all that is missing: with it, everything can be given.
        let mut whole = first.clone();
        whole.extend(missing(&first, &second));
        prop_assert_eq!(missing(&whole, &second), []);
    }

    #[test]
    fn who_holds_all_of_a_role_can_do_all_it_allows(
        owned in rules(), wanted in rules(), verb in select(&["get", "list"][..]), target in target()
    ) {
        let (owned, wanted) = (read(&owned), read(&wanted));
        if missing(&owned, &wanted).is_empty() && wanted.iter().any(|rule| rule.allows(verb, &target)) {
            prop_assert!(owned.iter().any(|rule| rule.allows(verb, &target)));
        }
    }

    #[test]
    fn a_rule_reads_back_from_its_object(rule in rule()) {
        let read = Rule::read(&rule);
        prop_assert_eq!(Rule::read(&read.to_json()), read);
    }
}
