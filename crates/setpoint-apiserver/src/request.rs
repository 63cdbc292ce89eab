//! What a request asks for: its path, read as Kubernetes' API lays paths out.

use http::Method;

use crate::failure::{Failure, Result};

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// `/`
    Index,
    /// `/version`
    Version,
    /// `/healthz`, `/livez` or `/readyz`, or one check of theirs.
    Health {
        endpoint: &'static str,
        check: Option<String>,
    },
    /// `/metrics`
    Metrics,
    /// `/openapi/v2`
    OldOpenApi,
    /// `/openapi/v3` or a group-version's document below it.
    OpenApi {
        document: Option<String>,
    },
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/<group>`
    Group {
        group: String,
    },
    /// `/api/v1` or `/apis/<group>/<version>`
    GroupVersion {
        group: String,
        version: String,
    },
    Resource(ResourcePath),
}

/// `/apis/<group>/<version>/namespaces/<namespace>/<resource>/<name>/<subresource>`, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourcePath {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub subresource: Option<String>,
    /// The old form of a watch: `/api/v1/watch/…`.
    pub watch: bool,
    /// More follows behind the subresource, where nothing is served.
    pub beyond: bool,
}

impl Target {
    /// The path that leads here, written in the one way that roles write it. A resource is not named by its path.
    pub fn path(&self) -> String {
        match self {
            Target::Index => "/".to_owned(),
            Target::Version => "/version".to_owned(),
            Target::Health { endpoint, check: None } => format!("/{endpoint}"),
            Target::Health { endpoint, check: Some(check) } => format!("/{endpoint}/{check}"),
            Target::Metrics => "/metrics".to_owned(),
            Target::OldOpenApi => "/openapi/v2".to_owned(),
            Target::OpenApi { document: None } => "/openapi/v3".to_owned(),
            Target::OpenApi { document: Some(document) } => format!("/openapi/v3/{document}"),
            Target::CoreVersions => "/api".to_owned(),
            Target::Groups => "/apis".to_owned(),
            Target::Group { group } => format!("/apis/{group}"),
            Target::GroupVersion { group, version } if group.is_empty() => format!("/api/{version}"),
            Target::GroupVersion { group, version } => format!("/apis/{group}/{version}"),
            Target::Resource(path) => format!("/apis/{}/{}/{}", path.group, path.version, path.resource),
        }
    }
}

/// What is done to a resource, as Kubernetes names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    pub fn name(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
        }
    }
}

impl ResourcePath {
    /// Whether this is a session in a Pod, which acts although a WebSocket is asked for with a GET.
    pub fn is_session(&self) -> bool {
        let subresource = self.subresource.as_deref();
        self.group.is_empty() && self.resource == "pods" && matches!(subresource, Some("exec" | "attach"))
    }

    /// The verb of a method on this path; `watch` is the query's.
    pub fn verb(&self, method: &Method, watch: bool) -> Result<Verb> {
        let watch = watch || self.watch;
        match (method.as_str(), &self.name) {
            ("GET" | "HEAD", None) if watch => Ok(Verb::Watch),
            ("GET" | "HEAD", Some(_)) if watch && self.subresource.is_none() => Ok(Verb::Watch),
            ("GET" | "HEAD", None) => Ok(Verb::List),
            ("GET" | "HEAD", Some(_)) => Ok(Verb::Get),
            ("POST", None) => Ok(Verb::Create),
            ("POST", Some(_)) if self.subresource.is_some() => Ok(Verb::Create),
            ("PUT", Some(_)) => Ok(Verb::Update),
            ("PATCH", Some(_)) => Ok(Verb::Patch),
            ("DELETE", Some(_)) => Ok(Verb::Delete),
            ("DELETE", None) => Ok(Verb::DeleteCollection),
            _ => Err(Failure::method_not_allowed()),
        }
    }
}

/// Reads a path. Anything that Kubernetes would not route is a plain "page not found".
pub fn target(path: &str) -> Result<Target> {
    let segments = segments(path)?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    Ok(match segments.as_slice() {
        [] => Target::Index,
        ["version"] => Target::Version,
        ["metrics"] => Target::Metrics,
        ["healthz", check @ ..] => health("healthz", check)?,
        ["livez", check @ ..] => health("livez", check)?,
        ["readyz", check @ ..] => health("readyz", check)?,
        ["openapi", "v2"] => Target::OldOpenApi,
        ["openapi", "v3"] => Target::OpenApi { document: None },
        ["openapi", "v3", document @ ..] => Target::OpenApi { document: Some(document.join("/")) },
        ["api"] => Target::CoreVersions,
        ["apis"] => Target::Groups,
        ["apis", group] => Target::Group { group: (*group).to_owned() },
        ["api", version] => Target::GroupVersion { group: String::new(), version: (*version).to_owned() },
        ["apis", group, version] => Target::GroupVersion { group: (*group).to_owned(), version: (*version).to_owned() },
        ["api", version, rest @ ..] => resource("", version, rest)?,
        ["apis", group, version, rest @ ..] => resource(group, version, rest)?,
        _ => return Err(Failure::page_not_found()),
    })
}

fn health(endpoint: &'static str, check: &[&str]) -> Result<Target> {
    match check {
        [] => Ok(Target::Health { endpoint, check: None }),
        [check] => Ok(Target::Health { endpoint, check: Some((*check).to_owned()) }),
        _ => Err(Failure::page_not_found()),
    }
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Result<Target> {
    let (watch, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        rest => (false, rest),
    };
    // `namespaces/<name>/<resource>` lies in that namespace; `namespaces/<name>/status` is the namespace's own.
    let (namespace, rest) = match rest {
        ["namespaces", _, "status" | "finalize"] => (None, rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
        rest => (None, rest),
    };
    let (resource, name, subresource) = match *rest {
        [resource] => (resource, None, None),
        [resource, name] => (resource, Some(name), None),
        [resource, name, subresource, ..] => (resource, Some(name), Some(subresource)),
        [] => return Err(Failure::no_such_resource()),
    };
    Ok(Target::Resource(ResourcePath {
        group: group.to_owned(),
        version: version.to_owned(),
        resource: resource.to_owned(),
        namespace,
        name: name.map(str::to_owned),
        subresource: subresource.map(str::to_owned),
        watch,
        beyond: rest.len() > 3,
    }))
}

fn segments(path: &str) -> Result<Vec<String>> {
    path.split('/').filter(|segment| !segment.is_empty()).map(decode_segment).collect()
}

/// Undoes percent-encoding. A name that would not be one segment of a key is nobody's.
fn decode_segment(segment: &str) -> Result<String> {
    let decoded = percent_encoding::percent_decode_str(segment)
        .decode_utf8()
        .map_err(|_| Failure::bad_request(format!("the path segment {segment:?} is not UTF-8")))?;
    if matches!(decoded.as_ref(), "." | "..") || decoded.chars().any(|c| c == '/' || c == '%' || c.is_control()) {
        return Err(Failure::bad_request(format!(
            "the path segment {segment:?} is not a name: it may not be '.' or '..' or contain '/', '%' or control characters"
        )));
    }
    Ok(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &str) -> ResourcePath {
        match target(path) {
            Ok(Target::Resource(path)) => path,
            other => panic!("{path} is a resource's, got {other:?}"),
        }
    }

    #[test]
    fn paths_lead_where_kubernetes_has_them() {
        let rows = [
            ("a core collection", "/api/v1/pods", ("", "pods", None, None, None)),
            ("in a namespace", "/api/v1/namespaces/n/pods", ("", "pods", Some("n"), None, None)),
            (
                "one object",
                "/apis/apps/v1/namespaces/n/deployments/d",
                ("apps", "deployments", Some("n"), Some("d"), None),
            ),
            ("a subresource", "/api/v1/namespaces/n/pods/p/status", ("", "pods", Some("n"), Some("p"), Some("status"))),
            ("a namespace", "/api/v1/namespaces/n", ("", "namespaces", None, Some("n"), None)),
            (
                "a namespace's own status",
                "/api/v1/namespaces/n/status",
                ("", "namespaces", None, Some("n"), Some("status")),
            ),
            ("an encoded name", "/api/v1/nodes/a%3Ab", ("", "nodes", None, Some("a:b"), None)),
        ];
        for (row, text, (group, resource, namespace, name, subresource)) in rows {
            let got = path(text);
            let got = (
                got.group.as_str(),
                got.resource.as_str(),
                got.namespace.as_deref(),
                got.name.as_deref(),
                got.subresource.as_deref(),
            );
            assert_eq!(got, (group, resource, namespace, name, subresource), "{row}");
        }
    }

    #[test]
    fn a_watch_has_an_old_form() {
        assert!(path("/api/v1/watch/namespaces/n/pods").watch);
        assert!(!path("/api/v1/namespaces/watch/pods").watch);
    }

    #[test]
    fn a_segment_cannot_leave_its_directory() {
        for bad in [
            "/api/v1/namespaces/n/pods/a%2Fb",
            "/api/v1/namespaces/%2e%2e/pods",
            "/api/v1/nodes/a%00",
            "/api/v1/nodes/%ff",
        ] {
            assert!(target(bad).is_err(), "{bad}");
        }
    }
}
