//! The verbs on Environments within the rules of roles.
//!
//! To hold one of them is not to be able to give it. So the rules that somebody is about to give are taken apart: what gives
//! a verb on an Environment, which takes `update` on that Environment, and all else, which takes that they hold it.

use std::collections::BTreeSet;

use setpoint_api::tenancy::{LOCAL, USE, VERBS};

use super::Rule;
use super::rule::includes;

const RESOURCE: &str = "environments";

/// A verb on an Environment that a rule gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given<'r> {
    /// `*` for all verbs.
    pub verb: &'r str,
    /// The Environment; "" for all of them.
    pub name: &'r str,
}

/// The verbs on Environments that rules give, and the rest of these rules.
pub fn split<'r>(rules: &[&'r Rule]) -> (Vec<Given<'r>>, Vec<Rule>) {
    let (mut given, mut others) = (Vec::new(), Vec::new());
    for rule in rules {
        let verbs: BTreeSet<&str> = rule.verbs.iter().map(|verb| &**verb).filter(|verb| is_ours(verb)).collect();
        let is_about_places = includes(&rule.groups, setpoint_api::GROUP) && includes(&rule.resources, RESOURCE);
        if !is_about_places || verbs.is_empty() || is_use_of_local(rule) {
            others.push((*rule).clone());
            continue;
        }
        let names: Vec<&str> = match rule.names.is_empty() {
            true => vec![""],
            false => rule.names.iter().map(|name| &**name).collect(),
        };
        given.extend(verbs.iter().flat_map(|verb| names.iter().map(move |name| Given { verb, name })));
        others.extend(rest(rule));
    }
    (given, others)
}

/// Also where it stands for any verb.
fn is_ours(verb: &str) -> bool {
    verb == "*" || VERBS.contains(&verb)
}

/// What everybody who may edit has, they may give.
fn is_use_of_local(rule: &Rule) -> bool {
    let is_only = |texts: &[Box<str>], text: &str| !texts.is_empty() && texts.iter().all(|known| **known == *text);
    is_only(&rule.verbs, USE) && is_only(&rule.names, LOCAL)
}

/// What a rule gives besides its verbs on Environments. A rule with words that stand for any is not taken apart: who gives it
/// must hold all of it.
fn rest(rule: &Rule) -> Vec<Rule> {
    let has_any = |texts: &[Box<str>]| texts.iter().any(|text| **text == *"*");
    if has_any(&rule.verbs) || has_any(&rule.groups) || has_any(&rule.resources) {
        return vec![rule.clone()];
    }
    let without = |texts: &[Box<str>], is_out: &dyn Fn(&str) -> bool| -> Box<[Box<str>]> {
        texts.iter().filter(|text| !is_out(text)).cloned().collect()
    };
    // Other verbs on all of it, and these verbs on other resources and on those of other groups.
    let parts = [
        Rule { verbs: without(&rule.verbs, &is_ours), ..rule.clone() },
        Rule { resources: without(&rule.resources, &|resource| resource == RESOURCE), ..rule.clone() },
        Rule { groups: without(&rule.groups, &|group| group == setpoint_api::GROUP), ..rule.clone() },
    ];
    let says_nothing = |rule: &Rule| rule.verbs.is_empty() || rule.resources.is_empty() || rule.groups.is_empty();
    parts.into_iter().filter(|part| !says_nothing(part)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> Value {
        json!({"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names})
    }

    #[test]
    fn verbs_on_environments_are_told_from_other_rights() {
        let own = setpoint_api::GROUP;
        type Row<'a> = (&'a str, Value, &'a [(&'a str, &'a str)], Vec<Value>);
        let pods = rule(&["get", "use"], &[""], &["pods"], &[]);
        let local = rule(&["use"], &[own], &["environments"], &["local"]);
        let anything = rule(&["*"], &["*"], &["*"], &[]);
        let any_verb = rule(&["*"], &[own], &["environments"], &["lab"]);
        let rows: [Row<'_>; 10] = [
            ("another resource", pods.clone(), &[], vec![pods]),
            (
                "to look at them",
                rule(&["get"], &[own], &["environments"], &[]),
                &[],
                vec![rule(&["get"], &[own], &["environments"], &[])],
            ),
            ("one verb on one", rule(&["approve"], &[own], &["environments"], &["lab"]), &[("approve", "lab")], vec![]),
            ("one verb on all", rule(&["adopt"], &[own], &["environments"], &[]), &[("adopt", "")], vec![]),
            (
                "two verbs on two",
                rule(&["use", "approve"], &[own], &["environments"], &["lab", "gpu"]),
                &[("approve", "lab"), ("approve", "gpu"), ("use", "lab"), ("use", "gpu")],
                vec![],
            ),
            (
                "beside another verb and another resource",
                rule(&["get", "use"], &[own], &["environments", "machines"], &["lab"]),
                &[("use", "lab")],
                vec![
                    rule(&["get"], &[own], &["environments", "machines"], &["lab"]),
                    rule(&["get", "use"], &[own], &["machines"], &["lab"]),
                ],
            ),
            ("use of local", local.clone(), &[], vec![local]),
            (
                "more than use of local",
                rule(&["use", "adopt"], &[own], &["environments"], &["local"]),
                &[("adopt", "local"), ("use", "local")],
                vec![],
            ),
            ("everything", anything.clone(), &[("*", "")], vec![anything]),
            ("any verb on one", any_verb.clone(), &[("*", "lab")], vec![any_verb]),
        ];
        for (name, wanted, expected, others) in rows {
            let wanted = Rule::read(&wanted);
            let (given, rest) = split(&[&wanted]);
            let given: Vec<(&str, &str)> = given.iter().map(|given| (given.verb, given.name)).collect();
            assert_eq!(given, expected, "{name}");
            assert_eq!(rest, others.iter().map(Rule::read).collect::<Vec<_>>(), "{name}");
        }
    }
}
