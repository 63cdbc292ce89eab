//! The default roles, against what is documented of them.

use super::*;

/// Kubernetes' documentation of its user-facing roles, resource by resource: what `view` may, what `edit` may besides, and
/// what `admin` may besides. `r` is to get, list and watch; `w` to create, update, patch and delete, one or many; else the
/// verbs are named.
#[rustfmt::skip]
const DOCUMENTED: &[(&str, &str, &str, &str, &str)] = &[
    ("", "bindings serviceaccounts/finalizers nodes persistentvolumes secrets/status", "", "", ""),
    ("", "configmaps persistentvolumeclaims pods serviceaccounts services", "r", "w", ""),
    ("", "endpoints namespaces namespaces/status persistentvolumeclaims/status pods/log pods/status services/status", "r", "", ""),
    ("", "secrets pods/attach pods/exec pods/portforward pods/proxy services/proxy", "", "rw", ""),
    ("", "pods/eviction serviceaccounts/token", "", "create", ""),
    ("", "events", "r", "w", ""),
    ("events.k8s.io", "events", "r", "w", ""),
    ("apps", "controllerrevisions daemonsets/status deployments/status replicasets/status statefulsets/status", "r", "", ""),
    ("apps", "daemonsets deployments deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale", "r", "w", ""),
    ("autoscaling", "horizontalpodautoscalers", "r", "w", ""),
    ("autoscaling", "horizontalpodautoscalers/status", "r", "", ""),
    ("batch", "cronjobs jobs", "r", "w", ""),
    ("batch", "cronjobs/status jobs/status", "r", "", ""),
    ("coordination.k8s.io", "leases", "", "rw", ""),
    ("discovery.k8s.io", "endpointslices", "r", "", ""),
    ("networking.k8s.io", "ingresses networkpolicies", "r", "w", ""),
    ("networking.k8s.io", "ingresses/status", "r", "", ""),
    ("networking.k8s.io", "ingressclasses", "", "", ""),
    ("policy", "poddisruptionbudgets", "r", "w", ""),
    ("policy", "poddisruptionbudgets/status", "r", "", ""),
    ("rbac.authorization.k8s.io", "roles rolebindings", "", "", "rw"),
    ("rbac.authorization.k8s.io", "clusterroles clusterrolebindings", "", "", ""),
    ("authorization.k8s.io", "localsubjectaccessreviews", "", "", "create"),
    ("authorization.k8s.io", "subjectaccessreviews", "", "", ""),
    ("apiextensions.k8s.io", "customresourcedefinitions", "", "", ""),
    ("storage.k8s.io", "storageclasses", "", "", ""),
];

/// The same for our own kinds.
#[rustfmt::skip]
const OWN: &[(&str, &str, &str, &str, &str)] = &[
    ("setpoint.dev", "apps apps/scale machines trafficsplits", "r", "w", ""),
    ("setpoint.dev", "apps/status changesets/status machines/status reviews/status trafficsplits/status", "r", "", ""),
    ("setpoint.dev", "revisions revisions/status", "r", "", ""),
    ("setpoint.dev", "changesets", "r", "create delete", "w"),
    ("setpoint.dev", "reviews", "r", "", "create"),
    ("setpoint.dev", "environments environments/status", "", "", ""),
    ("planspec.io", "goals plans", "r", "w", ""),
    ("planspec.io", "gates", "r", "", "w"),
    ("planspec.io", "gates/status goals/status plans/status", "r", "", ""),
];

const VERBS: [(&str, &str); 10] = [
    ("get", "r"),
    ("list", "r"),
    ("watch", "r"),
    ("create", "w"),
    ("update", "w"),
    ("patch", "w"),
    ("delete", "w"),
    ("deletecollection", "w"),
    ("escalate", "never"),
    ("bind", "never"),
];

#[test]
fn default_roles_are_those_kubernetes_documents() {
    let policy = company();
    let users = ["vic", "ed", "ada"].map(|name| who(name, &[]));
    for (group, resources, view, edit, admin) in DOCUMENTED.iter().chain(OWN) {
        for what in resources.split(' ') {
            for (verb, class) in VERBS {
                let mut granted = false;
                for (user, more) in users.iter().zip([view, edit, admin]) {
                    let by_class = ["r", "w", "rw"].contains(more) && more.contains(class);
                    granted |= by_class || more.split(' ').any(|named| named == verb);
                    let found = allowed(&policy, user, verb, resource(group, what, "a", "shop"));
                    assert_eq!(found, granted, "{} to {verb} {group}/{what}", user.user);
                }
            }
        }
    }
    // Nothing stands in the roles that is not in the table, but to act as a service account.
    for rule in policy.aggregated_rules("admin").expect("it gathers") {
        for (group, what) in rule.groups.iter().flat_map(|group| rule.resources.iter().map(move |what| (group, what))) {
            let known = DOCUMENTED
                .iter()
                .chain(OWN)
                .any(|row| *row.0 == **group && row.1.split(' ').any(|known| *known == **what));
            assert!(known, "{group}/{what}");
        }
        assert!(rule.verbs.iter().all(|verb| &**verb == "impersonate" || VERBS.iter().any(|known| *known.0 == **verb)));
    }
}

#[test]
fn default_objects_are_such_as_the_server_takes() {
    let registry = crate::built_in::registry(&crate::schema::Schemas::built_in());
    for (kind, object) in default_roles::objects() {
        let resource = registry.resources().find(|resource| resource.plural == kind.plural()).expect("it is served");
        let mut errors = setpoint_api::field::Errors::default();
        resource.behaviour.validate(setpoint_api::field::Node::root(&object), &mut errors);
        assert!(errors.is_empty(), "{object}: {errors:?}");
        let mut completed = object.clone();
        resource.behaviour.default(&mut completed);
        assert_eq!(completed, object, "nothing is left to fill in");
    }
}
