//! Who is let in, as whom, and what they are told of themselves.

mod credentials;
mod impersonation;
mod reviews;
mod tokens;

use serde_json::{Value, json};

use crate::fixture::Api;

pub(crate) const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
pub(crate) const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
pub(crate) const SELF_REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
pub(crate) const SELF_ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

impl Api {
    async fn make_account(&self, name: &str) {
        self.post(ACCOUNTS, json!({"metadata": {"name": name}})).await.expect(201);
    }

    /// A token of a service account, as this spec asks for it.
    async fn token_of(&self, account: &str, spec: Value) -> String {
        let answer = self.post(format!("{ACCOUNTS}/{account}/token"), json!({"spec": spec})).await.expect(201);
        answer["status"]["token"].as_str().expect("a token").to_owned()
    }

    /// Gives a user rights everywhere.
    async fn allow(&self, user: &str, rules: Value) {
        self.post(format!("{RBAC}/clusterroles"), json!({"metadata": {"name": user}, "rules": rules}))
            .await
            .expect(201);
        let binding = json!({
            "metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
        });
        self.post(format!("{RBAC}/clusterrolebindings"), binding).await.expect(201);
    }

    /// What a bearer of this token is told of themselves.
    async fn bearer(&self, token: &str) -> Option<Value> {
        let answer = self.post(SELF_REVIEWS, json!({})).token(token).await;
        match answer.status {
            401 => {
                answer.refused(401, "Unauthorized", &["Unauthorized"]);
                None
            }
            _ => Some(answer.expect(201)["status"]["userInfo"].clone()),
        }
    }
}
