//! One rule of a role: which verbs on which resources, or on which paths.

use std::fmt;

use serde_json::{Value, json};

use super::Target;

/// Stands for every verb, group or resource, and at the end of a path for all that may follow.
const ANY: &str = "*";

type Texts = Box<[Box<str>]>;

/// A rule as it is evaluated. It says nothing of paths if it has groups, and nothing of resources if it has paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rule {
    pub verbs: Texts,
    pub groups: Texts,
    /// `pods`, `pods/log`, `*/scale` or `*`.
    pub resources: Texts,
    /// The objects it is about; all if empty.
    pub names: Texts,
    pub paths: Texts,
}

impl Rule {
    /// Reads an element of a role's `rules`. What is not text is left out: a rule then allows less, never more.
    pub fn read(rule: &Value) -> Rule {
        let texts = |field: &str| {
            let list = rule[field].as_array().into_iter().flatten();
            list.filter_map(Value::as_str).map(Box::from).collect()
        };
        let names: Texts = texts("resourceNames");
        // Names of which none can be read are not the same as no names, which would be all objects.
        let is_void = names.is_empty() && rule["resourceNames"].as_array().is_some_and(|names| !names.is_empty());
        Rule {
            verbs: if is_void { Texts::default() } else { texts("verbs") },
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names,
            paths: texts("nonResourceURLs"),
        }
    }

    /// Reads a role's `rules`.
    pub fn read_all(rules: &Value) -> Vec<Rule> {
        rules.as_array().into_iter().flatten().map(Rule::read).collect()
    }

    /// The rule as an element of a role's `rules`.
    pub fn to_json(&self) -> Value {
        let mut object = json!({"verbs": &*self.verbs});
        let fields = [
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.paths),
        ];
        for (field, texts) in fields.into_iter().filter(|(_, texts)| !texts.is_empty()) {
            object[field] = json!(&**texts);
        }
        object
    }

    pub fn allows(&self, verb: &str, target: &Target<'_>) -> bool {
        match *target {
            Target::Resource { group, resource, subresource, name, .. } => {
                includes(&self.verbs, verb)
                    && includes(&self.groups, group)
                    && self.resources.iter().any(|known| resource_matches(known, resource, subresource))
                    && (self.names.is_empty() || self.names.iter().any(|known| **known == *name))
            }
            Target::Path(path) => {
                includes(&self.verbs, verb) && self.paths.iter().any(|known| path_matches(known, path))
            }
        }
    }
}

/// As Kubernetes shows a rule in a refusal.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.paths),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ];
        let shown: Vec<String> = fields
            .into_iter()
            .filter(|(_, texts)| !texts.is_empty())
            .map(|(name, texts)| format!("{name}:{}", quoted(texts)))
            .collect();
        write!(f, "{{{}}}", shown.join(", "))
    }
}

/// A list of texts as Go shows it: `["a" "b"]`.
pub(super) fn quoted(texts: &[impl AsRef<str>]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| format!("{:?}", text.as_ref())).collect();
    format!("[{}]", texts.join(" "))
}

pub(super) fn includes(known: &[Box<str>], wanted: &str) -> bool {
    known.iter().any(|known| **known == *ANY || **known == *wanted)
}

fn resource_matches(known: &str, resource: &str, subresource: &str) -> bool {
    if subresource.is_empty() {
        return known == ANY || known == resource;
    }
    known == ANY || known.split_once('/').is_some_and(|(of, part)| part == subresource && (of == ANY || of == resource))
}

/// Whether a path of a rule is the path wanted, or its beginning with a `*` behind it.
pub(super) fn path_matches(known: &str, wanted: &str) -> bool {
    known == wanted || known.ends_with(ANY) && wanted.starts_with(known.trim_end_matches(ANY))
}
