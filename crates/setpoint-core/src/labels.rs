//! Whether labels are what a selector asks for, and if not, what they lack.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// What labels lack, of what a selector asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unmet<'s> {
    Label { key: &'s str, value: &'s str },
    Requirement(&'s LabelSelectorRequirement),
}

/// The first of a selector's requirements that labels do not meet. An empty selector asks for nothing; an operator that
/// nobody knows is never met.
pub(crate) fn unmet<'s>(selector: &'s LabelSelector, labels: Option<&BTreeMap<String, String>>) -> Option<Unmet<'s>> {
    let value_of = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
    let mut equal = selector.match_labels.iter().flatten();
    let mut expressions = selector.match_expressions.iter().flatten();
    equal
        .find(|(key, value)| value_of(key) != Some(value))
        .map(|(key, value)| Unmet::Label { key, value })
        .or_else(|| expressions.find(|wanted| !is_met(wanted, value_of(&wanted.key))).map(Unmet::Requirement))
}

fn is_met(requirement: &LabelSelectorRequirement, value: Option<&str>) -> bool {
    let mut values = requirement.values.iter().flatten();
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|value| values.any(|wanted| wanted == value)),
        "NotIn" => value.is_none_or(|value| values.all(|unwanted| unwanted != value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

impl fmt::Display for Unmet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wanted = match self {
            Unmet::Label { key, value } => return write!(f, "the label {key} must be {value:?}"),
            Unmet::Requirement(wanted) => wanted,
        };
        let values = wanted.values.as_deref().unwrap_or_default();
        write!(f, "the label {} ", wanted.key)?;
        match wanted.operator.as_str() {
            "In" => write!(f, "must be one of {values:?}"),
            "NotIn" => write!(f, "must be none of {values:?}"),
            "Exists" => f.write_str("must exist"),
            "DoesNotExist" => f.write_str("must not exist"),
            operator => write!(f, "is asked for with the unknown operator {operator:?}"),
        }
    }
}
