//! What a request asks leave for, in the words that roles use, and the refusal of one that is not allowed.

use http::Method;

use super::{Attributes, Decision, Policy, Target};
use crate::authentication::Identity;
use crate::failure::{Failure, Result};
use crate::query::Query;
use crate::request::{self, ResourcePath};
use crate::selector::field::FieldSelector;
use setpoint_api::names;

/// What somebody wants to do. It is made from the very target that is answered afterwards, so that no way of writing a
/// path can make the two differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    pub verb: String,
    pub to: To,
}

/// Empty texts stand for what a request does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum To {
    Resource { group: String, resource: String, subresource: String, name: String, namespace: String },
    Path(String),
}

impl Access {
    /// Of a request whose path was read as this; `path` is what was read, and counts where it leads nowhere.
    pub fn of(target: &Result<request::Target>, path: &str, method: &Method, query: &Query) -> Access {
        let to_path = |path: String| Access { verb: method.as_str().to_lowercase(), to: To::Path(path) };
        match target {
            Ok(request::Target::Resource(path)) => Access::to_resource(path, method, query),
            Ok(target) => to_path(target.path()),
            Err(_) => to_path(path.to_owned()),
        }
    }

    fn to_resource(path: &ResourcePath, method: &Method, query: &Query) -> Access {
        let verb = match (path.verb(method, query.is_watch()), method.as_str()) {
            (Ok(verb), _) => verb.name(),
            // Nothing of these is answered, but who may not even ask is told so.
            (Err(_), "POST") => "create",
            (Err(_), "PUT") => "update",
            (Err(_), "PATCH") => "patch",
            (Err(_), _) => "",
        };
        let name = match (&path.name, verb) {
            (Some(name), _) => name.clone(),
            // A list of one object by its name is about that object.
            (None, "list" | "watch") => selected_name(query).unwrap_or_default(),
            (None, _) => String::new(),
        };
        // A namespace is in itself: who is given a namespace may be given the object, too.
        let namespace = match path.resource.as_str() {
            "namespaces" => path.namespace.as_ref().or(path.name.as_ref()),
            _ => path.namespace.as_ref(),
        };
        Access {
            verb: verb.to_owned(),
            to: To::Resource {
                group: path.group.clone(),
                resource: path.resource.clone(),
                subresource: path.subresource.clone().unwrap_or_default(),
                namespace: namespace.cloned().unwrap_or_default(),
                name,
            },
        }
    }

    /// The namespace whose roles and bindings count, besides those of the cluster; "" if none does.
    pub fn namespace(&self) -> &str {
        match &self.to {
            To::Resource { namespace, .. } => namespace,
            To::Path(_) => "",
        }
    }

    pub fn is_allowed(&self, policy: &Policy, user: &Identity) -> bool {
        policy.decide(&self.attributes(user)).is_allowed()
    }

    /// Refuses what a policy does not allow.
    pub fn check<'a>(&'a self, policy: &'a Policy, user: &'a Identity) -> Result<Decision<'a>> {
        let decision = policy.decide(&self.attributes(user));
        if decision.is_allowed() {
            return Ok(decision);
        }
        let reason = decision.reason();
        let colon = if reason.is_empty() { "" } else { ": " };
        let why = format!("{}{colon}{reason}", self.refusal(&user.user));
        Err(match &self.to {
            To::Resource { group, resource, name, .. } => Failure::forbidden_of(group, resource, name, &why),
            To::Path(_) => Failure::not_allowed(&why),
        })
    }

    fn attributes<'a>(&'a self, user: &'a Identity) -> Attributes<'a> {
        let target = match &self.to {
            To::Resource { group, resource, subresource, name, namespace } => {
                Target::Resource { group, resource, subresource, name, namespace }
            }
            To::Path(path) => Target::Path(path),
        };
        Attributes { user, verb: &self.verb, target }
    }

    /// In Kubernetes' words. A browser must not take any of it for markup.
    fn refusal(&self, user: &str) -> String {
        let verb = &self.verb;
        let text = match &self.to {
            To::Path(path) => format!("User {user:?} cannot {verb} path {path:?}"),
            To::Resource { group, resource, subresource, namespace, .. } => {
                let slash = if subresource.is_empty() { "" } else { "/" };
                let place = match namespace.as_str() {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {namespace:?}"),
                };
                let resource = format!("{resource}{slash}{subresource}");
                format!("User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {place}")
            }
        };
        text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
    }
}

fn selected_name(query: &Query) -> Option<String> {
    let selector: FieldSelector = query.text("fieldSelector").parse().ok()?;
    let name = selector.exact("metadata.name")?;
    names::path_segment(name).is_empty().then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(method: &str, uri: &str) -> Access {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let method: Method = method.parse().expect("a method");
        Access::of(&request::target(path), path, &method, &Query::parse(Some(query)))
    }

    /// As `verb group/resource/subresource name @namespace`, or `verb path`.
    fn shown(access: &Access) -> String {
        match &access.to {
            To::Path(path) => format!("{} {path}", access.verb),
            To::Resource { group, resource, subresource, name, namespace } => {
                format!("{} {group}/{resource}/{subresource} {name} @{namespace}", access.verb)
            }
        }
    }

    #[test]
    fn a_request_asks_leave_for_what_it_does() {
        let rows = [
            ("a list", "GET", "/api/v1/namespaces/n/pods", "list /pods/  @n"),
            ("a list of everything", "GET", "/api/v1/pods", "list /pods/  @"),
            ("a list of one", "GET", "/api/v1/namespaces/n/pods?fieldSelector=metadata.name%3Da", "list /pods/ a @n"),
            ("a list of all but one", "GET", "/api/v1/pods?fieldSelector=metadata.name!%3Da", "list /pods/  @"),
            ("a list of no name", "GET", "/api/v1/pods?fieldSelector=metadata.name%3Da%252fb", "list /pods/  @"),
            ("a list by nonsense", "GET", "/api/v1/pods?fieldSelector=%3D%3D%3D,,", "list /pods/  @"),
            ("a watch", "GET", "/api/v1/namespaces/n/pods?watch=1", "watch /pods/  @n"),
            ("a watch in the old form", "GET", "/api/v1/watch/namespaces/n/pods", "watch /pods/  @n"),
            ("a watch of one", "GET", "/api/v1/namespaces/n/pods/a?watch=true", "watch /pods/ a @n"),
            ("no watch", "GET", "/api/v1/namespaces/n/pods?watch=false", "list /pods/  @n"),
            ("a get", "GET", "/apis/apps/v1/namespaces/n/deployments/d", "get apps/deployments/ d @n"),
            ("a head", "HEAD", "/api/v1/namespaces/n/pods/a", "get /pods/ a @n"),
            ("a part", "GET", "/api/v1/namespaces/n/pods/a/log", "get /pods/log a @n"),
            ("below a part", "GET", "/api/v1/namespaces/n/pods/a/proxy/x/y", "get /pods/proxy a @n"),
            ("a create", "POST", "/api/v1/namespaces/n/pods", "create /pods/  @n"),
            ("a create by a part", "POST", "/api/v1/namespaces/n/pods/a/eviction", "create /pods/eviction a @n"),
            ("a create under a name", "POST", "/api/v1/namespaces/n/pods/a", "create /pods/ a @n"),
            ("an update", "PUT", "/api/v1/namespaces/n/pods/a", "update /pods/ a @n"),
            ("an update of everything", "PUT", "/api/v1/namespaces/n/pods", "update /pods/  @n"),
            ("a patch", "PATCH", "/api/v1/namespaces/n/pods/a/status", "patch /pods/status a @n"),
            ("a delete", "DELETE", "/api/v1/namespaces/n/pods/a", "delete /pods/ a @n"),
            ("a delete of all", "DELETE", "/api/v1/namespaces/n/pods", "deletecollection /pods/  @n"),
            (
                "a delete by name",
                "DELETE",
                "/api/v1/pods?fieldSelector=metadata.name%3Da",
                "deletecollection /pods/  @",
            ),
            ("an unknown method", "OPTIONS", "/api/v1/namespaces/n/pods/a", " /pods/ a @n"),
            ("a namespace", "GET", "/api/v1/namespaces/n", "get /namespaces/ n @n"),
            ("a namespace's status", "PUT", "/api/v1/namespaces/n/status", "update /namespaces/status n @n"),
            ("all namespaces", "GET", "/api/v1/namespaces", "list /namespaces/  @"),
            ("a namespace in another", "GET", "/api/v1/namespaces/n/namespaces/m", "get /namespaces/ m @n"),
            ("an unknown resource", "GET", "/apis/nope.example.com/v1/things", "list nope.example.com/things/  @"),
            ("the root", "GET", "/", "get /"),
            ("metrics", "GET", "/metrics", "get /metrics"),
            ("a method on a path", "POST", "/version", "post /version"),
            ("groups", "GET", "/apis", "get /apis"),
            ("a version", "GET", "/apis/apps/v1", "get /apis/apps/v1"),
            ("a document", "GET", "/openapi/v3/apis/apps/v1", "get /openapi/v3/apis/apps/v1"),
            ("nothing that is served", "GET", "/nope/x", "get /nope/x"),
        ];
        for (row, method, uri, expected) in rows {
            assert_eq!(shown(&access(method, uri)), expected, "{row}");
        }
    }

    #[test]
    fn no_way_of_writing_a_path_changes_what_is_asked_for() {
        let rows = [
            ("slashes", "GET", "//api///v1//namespaces/n//pods//", "list /pods/  @n"),
            ("a letter by its number", "GET", "/api/v1/namespaces/%6e/%70ods", "list /pods/  @n"),
            ("a path by its numbers", "GET", "//%6detrics/", "get /metrics"),
            ("a slash by its number", "GET", "/api/v1/namespaces/n%2fpods", "get /api/v1/namespaces/n%2fpods"),
            ("up", "GET", "/version/../metrics", "get /version/../metrics"),
            ("up by numbers", "GET", "/version/%2e%2e/metrics", "get /version/%2e%2e/metrics"),
            ("a number of a number", "GET", "/api/v1/%2570ods", "get /api/v1/%2570ods"),
        ];
        for (row, method, uri, expected) in rows {
            let access = access(method, uri);
            assert_eq!(shown(&access), expected, "{row}");
            if access.to == To::Path(uri.to_owned()) {
                assert!(request::target(uri).is_err(), "{row} leads nowhere");
            }
        }
    }

    #[test]
    fn a_refusal_says_who_cannot_do_what_where() {
        let rows = [
            (
                "/api/v1/namespaces/n/pods",
                "pods is forbidden: User \"a&lt;b\" cannot list resource \"pods\" in API group \"\" in the namespace \"n\"",
            ),
            (
                "/apis/apps/v1/namespaces/n/deployments/d/scale",
                "deployments.apps \"d\" is forbidden: User \"a&lt;b\" cannot get resource \"deployments/scale\" in API group \"apps\" in the namespace \"n\"",
            ),
            (
                "/api/v1/nodes",
                "nodes is forbidden: User \"a&lt;b\" cannot list resource \"nodes\" in API group \"\" at the cluster scope",
            ),
            ("/metrics", "forbidden: User \"a&lt;b\" cannot get path \"/metrics\""),
        ];
        for (uri, message) in rows {
            let nobody = Identity::new("a<b", ["system:authenticated"]);
            let refused = access("GET", uri).check(&Policy::default(), &nobody).expect_err(uri);
            assert_eq!((refused.code, refused.message()), (http::StatusCode::FORBIDDEN, message));
        }
    }
}
