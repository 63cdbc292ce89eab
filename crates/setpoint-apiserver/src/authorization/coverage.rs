//! Nobody gives away a right they do not have.
//!
//! A rule is broken into its smallest parts, one verb on one resource (or path) each, and every part must be within one
//! rule of the giver. Few words can make a great many parts, and each is compared with all that the giver has, so the
//! comparisons are bounded: a rule beyond that is taken as one that is not held.

use std::collections::{BTreeMap, BTreeSet};

use super::rule::{includes, path_matches, quoted};
use super::{MASTERS, Rule};
use crate::authentication::Identity;

/// How many words of rules are compared with each other, at most. The largest roles in use have some thousand parts, and
/// who administrates a namespace holds some hundred words.
const MAX_COMPARISONS: usize = 5_000_000;
/// How many missing rights a refusal names.
const MAX_TOLD: usize = 1_000;

/// The parts of the rules wanted that no owned rule has; none if all are held.
pub fn missing(owned: &[&Rule], wanted: &[&Rule]) -> Vec<Rule> {
    let is_held = |wanted: &Rule| owned.iter().any(|owned| covers(owned, wanted));
    let owned_words: usize = owned.iter().map(|rule| words(rule)).sum();
    let mut left = MAX_COMPARISONS;
    // A word is compared with no more than all that is owned, and so is a part: each of its words with words of its sort.
    let mut affordable = |wanted: usize| {
        let rest = left.checked_sub(wanted.saturating_mul(owned_words));
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    let mut missing = Vec::new();
    for rule in wanted.iter().map(|rule| distinct(rule)) {
        if affordable(words(&rule)) && is_held(&rule) {
            continue;
        }
        let untold = MAX_TOLD - missing.len();
        if affordable(parts(&rule)) {
            missing.extend(broken_down(&rule).filter(|part| !is_held(part)).take(untold));
        } else {
            missing.push(rule);
        }
        if missing.len() == MAX_TOLD {
            break;
        }
    }
    missing
}

/// Checks that somebody has all the rights they are about to give. The refusal is in Kubernetes' words.
pub fn check(user: &Identity, owned: &[&Rule], wanted: &[&Rule]) -> Result<(), String> {
    if user.groups.iter().any(|group| group == MASTERS) {
        return Ok(());
    }
    let missing = missing(owned, wanted);
    if missing.is_empty() {
        return Ok(());
    }
    let shown: BTreeSet<String> = compact(missing).iter().map(Rule::to_string).collect();
    Err(format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        user.user,
        quoted(&user.groups),
        shown.into_iter().collect::<Vec<_>>().join("\n")
    ))
}

/// All rights there are: who takes the rules of other roles together must hold them, for such a role can gather any.
pub fn full_authority() -> [Rule; 2] {
    let any = || Box::from([Box::from("*")]);
    [
        Rule { verbs: any(), groups: any(), resources: any(), ..Rule::default() },
        Rule { verbs: any(), paths: any(), ..Rule::default() },
    ]
}

/// Whether one rule includes all of another.
fn covers(owned: &Rule, wanted: &Rule) -> bool {
    wanted.verbs.iter().all(|verb| includes(&owned.verbs, verb))
        && wanted.groups.iter().all(|group| includes(&owned.groups, group))
        && wanted.resources.iter().all(|resource| covers_resource(&owned.resources, resource))
        && covers_names(&owned.names, &wanted.names)
        && wanted.paths.iter().all(|path| owned.paths.iter().any(|known| path_matches(known, path)))
}

fn covers_resource(owned: &[Box<str>], resource: &str) -> bool {
    let same_part = |known: &str| match (known.strip_prefix("*/"), resource.split_once('/')) {
        (Some(part), Some((_, wanted))) => part == wanted,
        _ => false,
    };
    includes(owned, resource) || owned.iter().any(|known| same_part(known))
}

fn covers_names(owned: &[Box<str>], wanted: &[Box<str>]) -> bool {
    owned.is_empty() || !wanted.is_empty() && wanted.iter().all(|name| owned.contains(name))
}

/// The same rule with nothing said twice.
fn distinct(rule: &Rule) -> Rule {
    let once = |texts: &[Box<str>]| {
        let mut seen = BTreeSet::new();
        texts.iter().filter(|text| seen.insert(&***text)).cloned().collect()
    };
    Rule {
        verbs: once(&rule.verbs),
        groups: once(&rule.groups),
        resources: once(&rule.resources),
        names: once(&rule.names),
        paths: once(&rule.paths),
    }
}

/// How many words a rule has.
fn words(rule: &Rule) -> usize {
    [&rule.verbs, &rule.groups, &rule.resources, &rule.names, &rule.paths].into_iter().map(|texts| texts.len()).sum()
}

/// How many parts a rule has.
fn parts(rule: &Rule) -> usize {
    let resources = rule.groups.len().saturating_mul(rule.resources.len()).saturating_mul(rule.names.len().max(1));
    resources.saturating_add(rule.paths.len()).saturating_mul(rule.verbs.len())
}

fn broken_down(rule: &Rule) -> impl Iterator<Item = Rule> {
    let one = |text: &str| -> Box<[Box<str>]> { Box::from([Box::from(text)]) };
    let names: Vec<Box<[Box<str>]>> = match rule.names.is_empty() {
        true => vec![Box::default()],
        false => rule.names.iter().map(|name| one(name)).collect(),
    };
    let resources = rule.groups.iter().flat_map(move |group| {
        let names = names.clone();
        rule.resources.iter().flat_map(move |resource| {
            let names = names.clone();
            rule.verbs.iter().flat_map(move |verb| {
                let part = Rule { verbs: one(verb), groups: one(group), resources: one(resource), ..Rule::default() };
                names.clone().into_iter().map(move |names| Rule { names, ..part.clone() })
            })
        })
    });
    let paths = rule.paths.iter().flat_map(move |path| {
        rule.verbs.iter().map(move |verb| Rule { verbs: one(verb), paths: one(path), ..Rule::default() })
    });
    resources.chain(paths)
}

/// Puts parts that differ only in their verb together again, for people to read.
fn compact(parts: Vec<Rule>) -> Vec<Rule> {
    let mut verbs: BTreeMap<Rule, Vec<Box<str>>> = BTreeMap::new();
    let mut others = Vec::new();
    for mut part in parts {
        if part.paths.is_empty() {
            let verb = std::mem::take(&mut part.verbs);
            verbs.entry(part).or_default().extend(verb);
        } else {
            others.push(part);
        }
    }
    others.extend(verbs.into_iter().map(|(part, verbs)| Rule { verbs: verbs.into(), ..part }));
    others
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rules(text: &Value) -> Vec<Rule> {
        Rule::read_all(text)
    }

    fn told(owned: &Value, wanted: &Value) -> Vec<String> {
        let (owned, wanted) = (rules(owned), rules(wanted));
        let (owned, wanted): (Vec<&Rule>, Vec<&Rule>) = (owned.iter().collect(), wanted.iter().collect());
        missing(&owned, &wanted).iter().map(Rule::to_string).collect()
    }

    fn resource(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> Value {
        json!({"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names})
    }

    #[test]
    fn only_what_is_held_can_be_given() {
        let pods = |verbs: &[&str]| resource(verbs, &[""], &["pods"], &[]);
        let path = |path: &str| json!({"verbs": ["get"], "nonResourceURLs": [path]});
        let delete = r#"{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}"#;
        let get = r#"{APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#;
        let rows: Vec<(&str, Value, Value, Vec<&str>)> = vec![
            ("nothing", json!([]), json!([]), vec![]),
            ("a rule that says nothing", json!([]), json!([{"verbs": ["get"]}]), vec![]),
            ("the same", json!([pods(&["get"])]), json!([pods(&["get"])]), vec![]),
            ("one verb more", json!([pods(&["get"])]), json!([pods(&["get", "delete"])]), vec![delete]),
            ("all verbs", json!([pods(&["*"])]), json!([pods(&["get", "delete"])]), vec![]),
            (
                "every verb there is, of those listed",
                json!([pods(&["get", "list"])]),
                json!([pods(&["*"])]),
                vec![r#"{APIGroups:[""], Resources:["pods"], Verbs:["*"]}"#],
            ),
            ("by several rules", json!([pods(&["get"]), pods(&["delete"])]), json!([pods(&["get", "delete"])]), vec![]),
            (
                "for a named object what is held for all",
                json!([pods(&["get"])]),
                json!([resource(&["get"], &[""], &["pods"], &["a"])]),
                vec![],
            ),
            (
                "for all objects what is held for one",
                json!([resource(&["get"], &[""], &["pods"], &["a"])]),
                json!([pods(&["get"])]),
                vec![get],
            ),
            (
                "for another object",
                json!([resource(&["get"], &[""], &["pods"], &["a"])]),
                json!([resource(&["get"], &[""], &["pods"], &["a", "b"])]),
                vec![r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}"#],
            ),
            (
                "a part of a resource",
                json!([pods(&["get"])]),
                json!([resource(&["get"], &[""], &["pods/log"], &[])]),
                vec![r#"{APIGroups:[""], Resources:["pods/log"], Verbs:["get"]}"#],
            ),
            (
                "a part of one resource, held for all",
                json!([resource(&["get"], &["apps"], &["*/scale"], &[])]),
                json!([resource(&["get"], &["apps"], &["deployments/scale"], &[])]),
                vec![],
            ),
            (
                "another group",
                json!([pods(&["get"])]),
                json!([resource(&["get"], &["apps"], &["pods"], &[])]),
                vec![r#"{APIGroups:["apps"], Resources:["pods"], Verbs:["get"]}"#],
            ),
            ("a path below", json!([path("/a/*")]), json!([path("/a/b"), path("/a/b/*")]), vec![]),
            (
                "a path beside",
                json!([path("/a/*")]),
                json!([path("/b")]),
                vec![r#"{NonResourceURLs:["/b"], Verbs:["get"]}"#],
            ),
            (
                "a path by one who holds all resources",
                json!([resource(&["*"], &["*"], &["*"], &[])]),
                json!([path("/b")]),
                vec![r#"{NonResourceURLs:["/b"], Verbs:["get"]}"#],
            ),
        ];
        for (name, owned, wanted, expected) in rows {
            assert_eq!(told(&owned, &wanted), expected, "{name}");
        }
    }

    #[test]
    fn a_refusal_names_what_is_missing() {
        let jane = Identity::new("jane", ["team", "system:authenticated"]);
        let owned = rules(&json!([resource(&["get"], &[""], &["pods"], &[])]));
        let wanted = rules(&json!([
            resource(&["get", "list", "watch"], &[""], &["secrets", "pods"], &[]),
            {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
        ]));
        let refused = check(&jane, &owned.iter().collect::<Vec<_>>(), &wanted.iter().collect::<Vec<_>>());
        let message = "user \"jane\" (groups=[\"team\" \"system:authenticated\"]) is attempting to grant RBAC permissions \
                       not currently held:\n\
                       {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\" \"watch\"]}\n\
                       {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"list\" \"watch\"]}\n\
                       {NonResourceURLs:[\"/metrics\"], Verbs:[\"get\"]}";
        assert_eq!(refused, Err(message.to_owned()));
        let master = Identity::new("root", [MASTERS]);
        assert_eq!(check(&master, &[], &wanted.iter().collect::<Vec<_>>()), Ok(()));
    }

    #[test]
    fn a_rule_of_countless_parts_is_not_held_unless_as_a_whole() {
        let many: Vec<String> = (0..2_000).map(|number| format!("x{number}")).collect();
        let wanted = rules(&json!([{"verbs": many, "apiGroups": many, "resources": many, "resourceNames": many}]));
        let wanted: Vec<&Rule> = wanted.iter().collect();
        let [all, paths] = full_authority();
        assert_eq!(missing(&[&all, &paths], &wanted), []);
        let some = Rule { names: Box::from([Box::from("x0")]), ..all };
        assert_eq!(missing(&[&some], &wanted).len(), 1);
    }

    #[test]
    fn no_more_is_compared_than_is_bounded() {
        let words = |count: usize| (0..count).map(|number| format!("x{number}")).collect::<Vec<_>>();
        let square = |side: usize| rules(&json!([{"verbs": words(side), "apiGroups": [""], "resources": words(side)}]));
        // Every part is held, each resource by a rule of its own.
        let owned = |side: usize| {
            let rule = |resource| json!({"verbs": words(side), "apiGroups": [""], "resources": [resource]});
            rules(&words(side).into_iter().map(rule).collect())
        };
        let count = |owned: &[Rule], wanted: &[Rule]| {
            missing(&owned.iter().collect::<Vec<_>>(), &wanted.iter().collect::<Vec<_>>()).len()
        };
        assert_eq!(count(&owned(30), &square(30)), 0, "what a role may well say");
        assert_eq!(count(&owned(200), &square(200)), 1, "too much to compare is missing as a whole");
        assert_eq!(count(&[], &square(200)), MAX_TOLD, "no more is told than is bounded");
        let names =
            rules(&json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["a"], "resourceNames": words(50_000)}]));
        assert_eq!(count(&names, &names), 1, "too much to compare even as a whole");
    }
}
