//! The roles and bindings that a server starts with: those of Kubernetes, as far as they are about what is served here, and
//! those for our own kinds.
//!
//! `admin`, `edit` and `view` have no rules of their own. They take together those of all roles with their label, so that
//! whoever adds a kind can add to them.

use serde_json::{Value, json};

use super::{Kind, MASTERS};
use crate::kinds::rbac::GROUP;

/// The annotation that says whether a server may add to a default role or binding that exists.
pub const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
const READ_WRITE: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const CREATE: &[&str] = &["create"];
const GET: &[&str] = &["get"];
const ANY: &[&str] = &["*"];

const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// The default ClusterRoles and ClusterRoleBindings, complete but for what the server adds to every object.
pub fn objects() -> impl Iterator<Item = (Kind, Value)> {
    let roles = ROLES.iter().map(|role| (Kind::ClusterRole, role.object()));
    let groups = BINDINGS.iter().map(|(name, groups)| binding(name, "Group", groups));
    let users = USER_BINDINGS.iter().map(|(name, users)| binding(name, "User", users));
    roles.chain(groups.chain(users).map(|binding| (Kind::ClusterRoleBinding, binding)))
}

struct Role {
    name: &'static str,
    /// The role that takes its rules in.
    part_of: Option<&'static str>,
    rules: Rules,
}

enum Rules {
    Own(&'static [Rule]),
    /// Those of all roles that are part of this one.
    Gathered,
}

enum Rule {
    Resources { verbs: &'static [&'static str], groups: &'static [&'static str], resources: &'static [&'static str] },
    Paths { verbs: &'static [&'static str], paths: &'static [&'static str] },
}

impl Role {
    fn object(&self) -> Value {
        let mut object = head("ClusterRole", self.name);
        if let Some(whole) = self.part_of {
            object["metadata"]["labels"][part_label(whole)] = json!("true");
        }
        match self.rules {
            Rules::Own(rules) => object["rules"] = rules.iter().map(Rule::object).collect(),
            Rules::Gathered => {
                let label = part_label(self.name);
                object["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
            }
        }
        object
    }
}

impl Rule {
    fn object(&self) -> Value {
        match self {
            Rule::Resources { verbs, groups, resources } => {
                json!({"verbs": verbs, "apiGroups": groups, "resources": resources})
            }
            Rule::Paths { verbs, paths } => json!({"verbs": verbs, "nonResourceURLs": paths}),
        }
    }
}

fn part_label(whole: &str) -> String {
    format!("{GROUP}/aggregate-to-{whole}")
}

fn binding(name: &str, kind: &str, subjects: &[&str]) -> Value {
    let mut object = head("ClusterRoleBinding", name);
    object["roleRef"] = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": name});
    object["subjects"] =
        subjects.iter().map(|subject| json!({"kind": kind, "apiGroup": GROUP, "name": subject})).collect();
    object
}

fn head(kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": kind,
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {AUTO_UPDATE: "true"},
        },
    })
}

const fn own(name: &'static str, rules: &'static [Rule]) -> Role {
    Role { name, part_of: None, rules: Rules::Own(rules) }
}

const fn part(name: &'static str, whole: &'static str, rules: &'static [Rule]) -> Role {
    Role { name, part_of: Some(whole), rules: Rules::Own(rules) }
}

const fn on(
    verbs: &'static [&'static str],
    groups: &'static [&'static str],
    resources: &'static [&'static str],
) -> Rule {
    Rule::Resources { verbs, groups, resources }
}

const fn at(verbs: &'static [&'static str], paths: &'static [&'static str]) -> Rule {
    Rule::Paths { verbs, paths }
}

/// Each gives the ClusterRole of its own name to groups.
const BINDINGS: &[(&str, &[&str])] = &[
    ("cluster-admin", &[MASTERS]),
    ("system:basic-user", &[AUTHENTICATED]),
    ("system:discovery", &[AUTHENTICATED]),
    ("system:monitoring", &["system:monitoring"]),
    ("system:node", &["system:nodes"]),
    ("system:public-info-viewer", &[AUTHENTICATED, UNAUTHENTICATED]),
    ("system:service-account-issuer-discovery", &[SERVICE_ACCOUNTS]),
];

/// Each gives the ClusterRole of its own name to users.
const USER_BINDINGS: &[(&str, &[&str])] = &[
    ("system:kube-controller-manager", &["system:kube-controller-manager"]),
    ("system:kube-scheduler", &["system:kube-scheduler"]),
];

const ROLES: &[Role] = &[
    Role { name: "admin", part_of: None, rules: Rules::Gathered },
    own("cluster-admin", &[on(ANY, ANY, ANY), at(ANY, ANY)]),
    Role { name: "edit", part_of: Some("admin"), rules: Rules::Gathered },
    part("setpoint:aggregate-to-admin", "admin", OWN_ADMIN),
    part("setpoint:aggregate-to-edit", "edit", OWN_EDIT),
    part("setpoint:aggregate-to-view", "view", OWN_VIEW),
    own("setpoint:reviewer", REVIEWER),
    part("system:aggregate-to-admin", "admin", ADMIN),
    part("system:aggregate-to-edit", "edit", EDIT),
    part("system:aggregate-to-view", "view", VIEW),
    own(
        "system:basic-user",
        &[
            on(CREATE, &["authorization.k8s.io"], &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
            on(CREATE, &["authentication.k8s.io"], &["selfsubjectreviews"]),
        ],
    ),
    own(
        "system:discovery",
        &[at(
            GET,
            &[
                "/api",
                "/api/*",
                "/apis",
                "/apis/*",
                "/healthz",
                "/livez",
                "/openapi",
                "/openapi/*",
                "/readyz",
                "/version",
                "/version/",
            ],
        )],
    ),
    own("system:kube-controller-manager", CONTROLLERS),
    own("system:kube-scheduler", SCHEDULER),
    own(
        "system:monitoring",
        &[at(
            GET,
            &["/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics", "/metrics/slis", "/readyz", "/readyz/*"],
        )],
    ),
    own("system:node", NODE),
    own("system:public-info-viewer", &[at(GET, &["/healthz", "/livez", "/readyz", "/version", "/version/"])]),
    own(
        "system:service-account-issuer-discovery",
        &[at(
            GET,
            &[
                "/.well-known/openid-configuration",
                "/.well-known/openid-configuration/",
                "/openid/v1/jwks",
                "/openid/v1/jwks/",
            ],
        )],
    ),
    Role { name: "view", part_of: Some("edit"), rules: Rules::Gathered },
];

/// What runs Pods: it says how they and their node are, and reads what they refer to. Beyond Kubernetes' it reads Events, to
/// count on one that it wrote before a restart.
const NODE: &[Rule] = &[
    on(CREATE, &["authentication.k8s.io"], &["tokenreviews"]),
    on(CREATE, &["authorization.k8s.io"], &["localsubjectaccessreviews", "subjectaccessreviews"]),
    on(READ, &[""], &["services"]),
    on(&["create", "get", "list", "patch", "update", "watch"], &[""], &["nodes"]),
    on(&["patch", "update"], &[""], &["nodes/status"]),
    on(&["create", "get", "patch", "update"], &["", "events.k8s.io"], &["events"]),
    on(&["create", "delete", "get", "list", "watch"], &[""], &["pods"]),
    on(&["patch", "update"], &[""], &["pods/status"]),
    on(CREATE, &[""], &["pods/eviction"]),
    on(READ, &[""], &["configmaps", "secrets"]),
    on(GET, &[""], &["persistentvolumeclaims"]),
    on(&["create", "delete", "get", "patch", "update"], &["coordination.k8s.io"], &["leases"]),
    on(CREATE, &[""], &["serviceaccounts/token"]),
];

/// What makes Pods of workloads, addresses of Pods, and Nodes of Environments. Kubernetes gives each controller an account
/// of its own; here they are one program, with the rights of all.
const CONTROLLERS: &[Rule] = &[
    on(&["create", "get", "patch", "update"], &["", "events.k8s.io"], &["events"]),
    on(&["create", "delete", "get", "list", "patch", "update", "watch"], &[""], &["endpoints", "pods"]),
    on(&["patch", "update"], &[""], &["nodes/status", "pods/status"]),
    on(CREATE, &[""], &["pods/eviction"]),
    on(READ, &[""], &["namespaces", "services"]),
    on(&["delete", "get", "list", "patch", "update", "watch"], &[""], &["nodes"]),
    on(
        &["create", "delete", "get", "list", "patch", "update", "watch"],
        &["apps"],
        &["controllerrevisions", "replicasets"],
    ),
    on(&["get", "list", "patch", "update", "watch"], &["apps"], &["deployments"]),
    on(&["patch", "update"], &["apps"], &["deployments/finalizers", "replicasets/finalizers"]),
    on(&["get", "patch", "update"], &["apps"], &["deployments/status", "replicasets/status"]),
    on(&["delete", "get", "list", "patch", "update", "watch"], &["batch"], &["jobs"]),
    on(&["get", "patch", "update"], &["batch"], &["jobs/finalizers", "jobs/status"]),
    on(&["create", "delete", "get", "list", "patch", "update", "watch"], &["discovery.k8s.io"], &["endpointslices"]),
    on(&["create", "delete", "get", "list", "patch", "update", "watch"], &["coordination.k8s.io"], &["leases"]),
    on(&["get", "list", "patch", "update", "watch"], &[OWN], &["environments", "machines"]),
    on(
        &["get", "patch", "update"],
        &[OWN],
        &[
            "changesets/status",
            "environments/finalizers",
            "environments/status",
            "machines/finalizers",
            "machines/status",
        ],
    ),
    on(&["create", "delete", "get", "list", "patch", "update", "watch"], &[OWN], &["changesets"]),
    on(&["get", "list", "patch", "watch"], &[OWN], &["reviews"]),
    on(&["get", "patch", "update"], &[OWN], &["changesets/finalizers", "reviews/status"]),
    on(&["create", "get", "list", "patch", "watch"], &[PLANS], &["gates"]),
    on(&["get", "patch", "update"], &[PLANS], &["gates/finalizers", "gates/status"]),
    // What Machines name is read to plan for them; the key of digests is made once.
    on(READ, &[""], &["configmaps"]),
    on(&["create", "get", "list", "watch"], &[""], &["secrets"]),
    on(READ, &[PLANS], &["goals", "plans"]),
    on(&["get", "patch", "update"], &[PLANS], &["goals/status", "plans/status"]),
];

/// What puts Pods on nodes.
const SCHEDULER: &[Rule] = &[
    on(&["create", "get", "patch", "update"], &["", "events.k8s.io"], &["events"]),
    on(READ, &[""], &["namespaces", "nodes", "persistentvolumeclaims", "services"]),
    on(&["delete", "get", "list", "watch"], &[""], &["pods"]),
    on(CREATE, &[""], &["pods/binding"]),
    on(&["patch", "update"], &[""], &["pods/status"]),
    on(READ, &["apps"], &["replicasets", "statefulsets"]),
    on(READ, &["policy"], &["poddisruptionbudgets"]),
    on(&["create", "get", "list", "patch", "update", "watch"], &["coordination.k8s.io"], &["leases"]),
];

const ADMIN: &[Rule] = &[
    on(CREATE, &["authorization.k8s.io"], &["localsubjectaccessreviews"]),
    on(READ_WRITE, &[GROUP], &["rolebindings", "roles"]),
];

/// To read a Secret, to run something in a Pod or to act as a service account is to have all rights of a namespace's
/// workloads, and so stands here and not in [`VIEW`].
const EDIT: &[Rule] = &[
    on(READ, &[""], &["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"]),
    on(&["impersonate"], &[""], &["serviceaccounts"]),
    on(WRITE, &[""], &["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"]),
    on(CREATE, &[""], &["pods/eviction"]),
    on(
        WRITE,
        &[""],
        &["configmaps", "persistentvolumeclaims", "secrets", "serviceaccounts", "services", "services/proxy"],
    ),
    on(CREATE, &[""], &["serviceaccounts/token"]),
    on(WRITE, &["", "events.k8s.io"], &["events"]),
    on(
        WRITE,
        &["apps"],
        &[
            "daemonsets",
            "deployments",
            "deployments/scale",
            "replicasets",
            "replicasets/scale",
            "statefulsets",
            "statefulsets/scale",
        ],
    ),
    on(WRITE, &["autoscaling"], &["horizontalpodautoscalers"]),
    on(WRITE, &["batch"], &["cronjobs", "jobs"]),
    on(WRITE, &["policy"], &["poddisruptionbudgets"]),
    on(WRITE, &["networking.k8s.io"], &["ingresses", "networkpolicies"]),
    on(READ_WRITE, &["coordination.k8s.io"], &["leases"]),
];

const VIEW: &[Rule] = &[
    on(
        READ,
        &[""],
        &[
            "configmaps",
            "endpoints",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "pods",
            "serviceaccounts",
            "services",
            "services/status",
        ],
    ),
    on(READ, &[""], &["namespaces/status", "pods/log", "pods/status"]),
    // In a namespace, this is to read that one namespace.
    on(READ, &[""], &["namespaces"]),
    on(READ, &["", "events.k8s.io"], &["events"]),
    on(READ, &["discovery.k8s.io"], &["endpointslices"]),
    on(
        READ,
        &["apps"],
        &[
            "controllerrevisions",
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "statefulsets",
            "statefulsets/scale",
            "statefulsets/status",
        ],
    ),
    on(READ, &["autoscaling"], &["horizontalpodautoscalers", "horizontalpodautoscalers/status"]),
    on(READ, &["batch"], &["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
    on(READ, &["policy"], &["poddisruptionbudgets", "poddisruptionbudgets/status"]),
    on(READ, &["networking.k8s.io"], &["ingresses", "ingresses/status", "networkpolicies"]),
];

const OWN: &str = setpoint_api::GROUP;
const PLANS: &str = "planspec.io";

/// To say what may be done, and that it may: not for those who say what they want.
const OWN_ADMIN: &[Rule] =
    &[on(WRITE, &[OWN], &["changesets"]), on(CREATE, &[OWN], &["reviews"]), on(WRITE, &[PLANS], &["gates"])];

const OWN_EDIT: &[Rule] = &[
    on(WRITE, &[OWN], &["apps", "apps/scale", "machines", "trafficsplits"]),
    // To ask what would be done is for everybody who may do it; a change set gives no leave by itself. Admission lets
    // them delete their own previews, and nothing in which people decide.
    on(&["create", "delete"], &[OWN], &["changesets"]),
    on(WRITE, &[PLANS], &["goals", "plans"]),
];

/// Environments are the cluster's, and so are nobody's who is given a namespace.
const OWN_VIEW: &[Rule] = &[
    on(
        READ,
        &[OWN],
        &[
            "apps",
            "apps/scale",
            "apps/status",
            "changesets",
            "changesets/status",
            "machines",
            "machines/status",
            "reviews",
            "reviews/status",
            "revisions",
            "revisions/status",
            "trafficsplits",
            "trafficsplits/status",
        ],
    ),
    on(READ, &[PLANS], &["gates", "gates/status", "goals", "goals/status", "plans", "plans/status"]),
];

/// For those who approve and otherwise look.
const REVIEWER: &[Rule] = &[
    on(CREATE, &[OWN], &["reviews"]),
    on(READ, &[OWN], &["changesets", "changesets/status", "reviews", "reviews/status"]),
    on(READ, &[PLANS], &["gates", "gates/status"]),
];
