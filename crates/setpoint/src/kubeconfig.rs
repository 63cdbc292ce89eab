//! The file that tells Kubernetes clients where the server is and who they are.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

/// A kubeconfig with one cluster, one user and one context, all named `setpoint`.
pub(crate) fn kubeconfig(server: &str, ca_pem: &str, token: &str) -> String {
    // JSON is YAML, and needs no care about quoting.
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "setpoint",
            "cluster": {"server": server, "certificate-authority-data": STANDARD.encode(ca_pem)},
        }],
        "users": [{"name": "setpoint-admin", "user": {"token": token}}],
        "contexts": [{"name": "setpoint", "context": {"cluster": "setpoint", "user": "setpoint-admin"}}],
        "current-context": "setpoint",
    });
    format!("{config:#}\n")
}
