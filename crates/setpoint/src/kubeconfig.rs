//! The file that tells Kubernetes clients where the server is and who they are.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

/// One user's way to the server; shown as a kubeconfig, which is a secret.
pub(crate) struct Access<'a> {
    pub(crate) server: &'a str,
    /// The name in the server's certificate, where it is not that in the address.
    pub(crate) tls_server_name: Option<&'a str>,
    pub(crate) ca_pem: &'a str,
    pub(crate) context: &'a str,
    pub(crate) user: &'a str,
    pub(crate) proof: Proof<'a>,
}

/// What the user shows to the server.
pub(crate) enum Proof<'a> {
    Token(&'a str),
    Certificate { certificate_pem: &'a str, key_pem: &'a str },
}

impl fmt::Display for Access<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cluster = json!({"server": self.server, "certificate-authority-data": STANDARD.encode(self.ca_pem)});
        if let Some(name) = self.tls_server_name {
            cluster["tls-server-name"] = json!(name);
        }
        let user = match self.proof {
            Proof::Token(token) => json!({"token": token}),
            Proof::Certificate { certificate_pem, key_pem } => json!({
                "client-certificate-data": STANDARD.encode(certificate_pem),
                "client-key-data": STANDARD.encode(key_pem),
            }),
        };
        // JSON is YAML, and needs no care about quoting.
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "setpoint", "cluster": cluster}],
            "users": [{"name": self.user, "user": user}],
            "contexts": [{"name": self.context, "context": {"cluster": "setpoint", "user": self.user}}],
            "current-context": self.context,
        });
        writeln!(f, "{config:#}")
    }
}
