//! The template of a Pod, which is why definitions grow large.

use super::schema::*;

pub(super) fn selector() -> Schema {
    object([("matchExpressions", list(requirement())), ("matchLabels", map(text()))])
}

fn requirement() -> Schema {
    object([("key", text()), ("operator", text()), ("values", list(text()))]).required(&["key", "operator"])
}

fn weighted(name: &'static str, term: Schema) -> Schema {
    list(object([("weight", integer().between(1, 100)), (name, term)]).required(&["weight", name]))
}

fn affinity() -> Schema {
    let nodes = || object([("matchExpressions", list(requirement())), ("matchFields", list(requirement()))]);
    let pods = || {
        object([
            ("labelSelector", selector()),
            ("namespaceSelector", selector()),
            ("namespaces", list(text())),
            ("topologyKey", text()),
        ])
        .required(&["topologyKey"])
    };
    let of_pods = || object([("preferred", weighted("term", pods())), ("required", list(pods()))]);
    let of_nodes = object([("preferred", weighted("preference", nodes())), ("required", list(nodes()))]);
    object([("node", of_nodes), ("pod", of_pods()), ("podAnti", of_pods())])
}

fn probe() -> Schema {
    object([
        ("exec", object([("command", list(text()))])),
        ("httpGet", object([("path", text()), ("port", int_or_text()), ("host", text()), ("scheme", text())])),
        ("tcpSocket", object([("host", text()), ("port", int_or_text())])),
        ("periodSeconds", integer().default(10)),
        ("timeoutSeconds", integer()),
        ("failureThreshold", integer()),
        ("initialDelaySeconds", integer()),
    ])
}

fn security() -> Schema {
    object([
        ("runAsUser", integer()),
        ("runAsGroup", integer()),
        ("runAsNonRoot", boolean()),
        ("readOnlyRootFilesystem", boolean()),
        ("capabilities", object([("add", list(text())), ("drop", list(text()))])),
        ("seccompProfile", object(texts(&["type", "localhostProfile"]))),
        ("seLinuxOptions", object(texts(&["level", "role", "type", "user"]))),
    ])
}

fn container() -> Schema {
    let reference = || object([("name", text()), ("key", text()), ("optional", boolean())]).required(&["key"]);
    let source = object([("configMapKeyRef", reference()), ("secretKeyRef", reference())]);
    let quantity = || int_or_text().pattern(r"^[0-9]+(\.[0-9]+)?(m|Ki|Mi|Gi|k|M|G)?$");
    let port = object([
        ("containerPort", integer().between(1, 65535)),
        ("protocol", choice(&["TCP", "UDP", "SCTP"]).default("TCP")),
        ("name", text()),
    ]);
    object([
        ("name", text()),
        ("image", text()),
        ("command", list(text())),
        ("args", list(text())),
        ("env", keyed(&["name"], object([("name", text()), ("value", text()), ("valueFrom", source)]))),
        ("ports", keyed(&["containerPort", "protocol"], port)),
        ("resources", object([("limits", map(quantity())), ("requests", map(quantity()))])),
        ("livenessProbe", probe()),
        ("readinessProbe", probe()),
        ("securityContext", security()),
    ])
}

pub(super) fn pod_template() -> Schema {
    let toleration = object(texts(&["key", "operator", "value", "effect"])).and([("tolerationSeconds", integer())]);
    let spec = object([
        ("affinity", affinity()),
        ("containers", keyed(&["name"], container())),
        ("initContainers", keyed(&["name"], container())),
        ("tolerations", list(toleration)),
        ("nodeSelector", map(text())),
        ("securityContext", security()),
        ("imagePullSecrets", keyed(&["name"], object([("name", text().default(""))]))),
        ("volumes", keyed(&["name"], object([("name", text()), ("source", anything())]))),
    ]);
    let metadata = object([("labels", map(text())), ("annotations", map(text()))]);
    object([("metadata", metadata), ("spec", spec.and(texts(&["serviceAccountName", "priorityClassName"])))])
}
