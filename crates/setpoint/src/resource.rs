//! What a server serves, and which of it a word means.

use std::collections::BTreeSet;

use kube::core::discovery::v2::{APIGroupDiscovery, APIResourceDiscovery};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What may stand in a segment of a path as it is.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b':');

/// How many names a message suggests.
const SUGGESTIONS: usize = 5;

/// A resource in the version that its server prefers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resource {
    /// "" for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) namespaced: bool,
}

/// Why a word means no resource.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unresolved {
    Unknown { word: String, near: Vec<String> },
    Ambiguous { word: String, meanings: Vec<String> },
}

impl std::error::Error for Unresolved {}

impl std::fmt::Display for Unresolved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unresolved::Unknown { word, near } if near.is_empty() => {
                write!(f, "the server has no kind {word:?}; `kubectl api-resources` lists those it has")
            }
            Unresolved::Unknown { word, near } => {
                write!(f, "the server has no kind {word:?}; did you mean {}?", near.join(" or "))
            }
            Unresolved::Ambiguous { word, meanings } => {
                write!(f, "{word:?} may be {}; say which", meanings.join(" or "))
            }
        }
    }
}

impl Resource {
    /// The resources of some groups that can be read, each in the first version that has it.
    pub(crate) fn all(groups: impl IntoIterator<Item = APIGroupDiscovery>) -> Vec<Resource> {
        let mut all: Vec<Resource> = Vec::new();
        for group in groups {
            let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
            for version in group.versions {
                let number = version.version.unwrap_or_default();
                let found = version.resources.into_iter().filter(|found| found.verbs.iter().any(|verb| verb == "get"));
                for found in found.map(|found| Resource::of(&name, &number, found)) {
                    if !all.iter().any(|known| known.group == found.group && known.plural == found.plural) {
                        all.push(found);
                    }
                }
            }
        }
        all
    }

    fn of(group: &str, version: &str, found: APIResourceDiscovery) -> Resource {
        Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: found.response_kind.and_then(|kind| kind.kind).unwrap_or_default(),
            plural: found.resource.unwrap_or_default(),
            singular: found.singular_resource.unwrap_or_default(),
            short_names: found.short_names,
            namespaced: found.scope.as_deref() == Some("Namespaced"),
        }
    }

    /// The resource of a kind, in the version that an object says.
    pub(crate) fn of_kind(served: &[Resource], group: &str, version: &str, kind: &str) -> Option<Resource> {
        let found = served.iter().find(|resource| resource.group == group && resource.kind == kind)?;
        Some(Resource { version: version.to_owned(), ..found.clone() })
    }

    /// The kind with its group: `pod` or `deployment.apps`.
    pub(crate) fn word(&self) -> String {
        with_group(&self.kind.to_lowercase(), &self.group)
    }

    /// `pods` or `deployments.apps`.
    pub(crate) fn qualified(&self) -> String {
        with_group(&self.plural, &self.group)
    }

    /// `pod/web` or `deployment.apps/web`.
    pub(crate) fn object(&self, name: &str) -> String {
        format!("{}/{name}", with_group(&self.kind.to_lowercase(), &self.group))
    }

    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The path of one object, or of all in a namespace or everywhere.
    pub(crate) fn path(&self, namespace: Option<&str>, name: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let mut path = format!("{root}/{}", self.api_version());
        if let Some(namespace) = namespace.filter(|_| self.namespaced) {
            path += &format!("/namespaces/{}", utf8_percent_encode(namespace, SEGMENT));
        }
        path += &format!("/{}", self.plural);
        if let Some(name) = name {
            path += &format!("/{}", utf8_percent_encode(name, SEGMENT));
        }
        path
    }

    fn has_name(&self, word: &str) -> bool {
        self.plural == word || self.singular == word || self.kind.eq_ignore_ascii_case(word)
    }

    fn has_short_name(&self, word: &str) -> bool {
        self.short_names.iter().any(|name| name == word)
    }

    /// Whether what follows a word's first dot names this group, or this group after its version.
    fn is_in(&self, suffix: &str) -> bool {
        suffix == self.group
            || suffix.strip_prefix(&self.version).is_some_and(|rest| rest == format!(".{}", self.group))
    }
}

fn with_group(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

/// The resource that a word means. Names go before short names, and the core group before all others.
pub(crate) fn resolve(word: &str, served: &[Resource]) -> Result<Resource, Unresolved> {
    let lower = word.to_lowercase();
    let (name, group) = match lower.split_once('.') {
        Some((name, group)) => (name, Some(group)),
        None => (lower.as_str(), None),
    };
    let in_group = |resource: &&Resource| group.is_none_or(|group| resource.is_in(group));
    let mut found: Vec<&Resource> = served.iter().filter(in_group).filter(|found| found.has_name(name)).collect();
    if found.is_empty() {
        found = served.iter().filter(in_group).filter(|found| found.has_short_name(name)).collect();
    }
    match found.as_slice() {
        [] => Err(Unresolved::Unknown { word: word.to_owned(), near: near(&lower, served) }),
        [one] => Ok((*one).clone()),
        several => match several.iter().find(|found| found.group.is_empty()) {
            Some(core) => Ok((*core).clone()),
            None => {
                let meanings = several.iter().map(|found| found.qualified()).collect();
                Err(Unresolved::Ambiguous { word: word.to_owned(), meanings })
            }
        },
    }
}

/// What somebody who mistyped a name may have meant, likeliest first.
fn near(word: &str, served: &[Resource]) -> Vec<String> {
    let name = word.split_once('.').map_or(word, |(name, _)| name);
    let most = name.chars().count() / 3;
    let mut near = BTreeSet::new();
    for resource in served {
        let kind = resource.kind.to_lowercase();
        let names = [&resource.plural, &resource.singular, &kind];
        let distance = names.iter().map(|known| strsim::levenshtein(name, known)).min().unwrap_or(usize::MAX);
        if distance <= most {
            near.insert((distance, resource.qualified()));
        }
    }
    near.into_iter().take(SUGGESTIONS).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(group: &str, kind: &str, plural: &str, short: &[&str]) -> Resource {
        Resource {
            group: group.into(),
            version: "v1".into(),
            kind: kind.into(),
            plural: plural.into(),
            singular: kind.to_lowercase(),
            short_names: short.iter().map(|&name| name.to_owned()).collect(),
            namespaced: kind != "Node",
        }
    }

    fn served() -> Vec<Resource> {
        vec![
            resource("", "Node", "nodes", &["no"]),
            resource("", "Event", "events", &["ev"]),
            resource("events.k8s.io", "Event", "events", &["ev"]),
            resource("apps", "Deployment", "deployments", &["deploy"]),
            resource("a.example", "Backup", "backups", &["bk"]),
            resource("b.example", "Backup", "backups", &["no"]),
        ]
    }

    #[test]
    fn words_mean_resources() {
        let rows = [
            ("a plural", "deployments", Ok("deployments.apps")),
            ("a singular", "deployment", Ok("deployments.apps")),
            ("a short name", "deploy", Ok("deployments.apps")),
            ("a kind", "Deployment", Ok("deployments.apps")),
            ("in its group", "deployments.apps", Ok("deployments.apps")),
            ("a short name in its group", "deploy.apps", Ok("deployments.apps")),
            ("in its version and group", "deployments.v1.apps", Ok("deployments.apps")),
            (
                "in another version",
                "deployments.v2.apps",
                Err("no kind \"deployments.v2.apps\"; did you mean deployments.apps?"),
            ),
            ("in two groups, one of them the core", "events", Ok("events")),
            ("in the other", "events.events.k8s.io", Ok("events.events.k8s.io")),
            ("a short name of two, one of them in the core", "no", Ok("nodes")),
            ("in two groups", "backup", Err("\"backup\" may be backups.a.example or backups.b.example; say which")),
            ("in two groups, of which one is said", "backup.b.example", Ok("backups.b.example")),
            ("mistyped", "deploymnets", Err("did you mean deployments.apps?")),
            ("unlike anything", "zebras", Err("no kind \"zebras\"; `kubectl api-resources` lists")),
            ("nothing", "", Err("no kind \"\"")),
        ];
        for (row, word, expected) in rows {
            let found = resolve(word, &served());
            match expected {
                Ok(name) => assert_eq!(found.map(|found| found.qualified()), Ok(name.to_owned()), "{row}"),
                Err(words) => {
                    let error = found.expect_err(row).to_string();
                    assert!(error.contains(words), "{row}: {error}");
                }
            }
        }
    }

    #[test]
    fn paths_hold_nothing_but_names() {
        let (node, deployment) = (&served()[0], &served()[3]);
        let rows = [
            (node.path(None, Some("a")), "/api/v1/nodes/a"),
            (node.path(Some("ignored"), None), "/api/v1/nodes"),
            (deployment.path(Some("shop"), Some("web")), "/apis/apps/v1/namespaces/shop/deployments/web"),
            (deployment.path(None, None), "/apis/apps/v1/deployments"),
            (
                deployment.path(Some("../x"), Some("a?b#c/d")),
                "/apis/apps/v1/namespaces/..%2Fx/deployments/a%3Fb%23c%2Fd",
            ),
        ];
        for (path, expected) in rows {
            assert_eq!(path, expected);
        }
    }
}
