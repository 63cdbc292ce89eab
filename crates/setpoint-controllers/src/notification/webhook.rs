//! Tells by HTTP, with the client that the server is reached with.

use std::time::Duration;

use http::Uri;
use k8s_openapi::api::core::v1::Secret;
use kube::config::AuthInfo;
use kube::{Api, Client, Config};
use setpoint_api::environment::Webhook;

use super::Message;

const DEADLINE: Duration = Duration::from_secs(10);
/// The key of the Secret under which the token stands.
const TOKEN: &str = "token";

/// Posts the message. Any answer but a success is a failure; what it says is not read.
pub(super) async fn send(client: &Client, webhook: &Webhook, message: &Message) -> Result<(), String> {
    let sending = post(client, webhook, message);
    tokio::time::timeout(DEADLINE, sending).await.map_err(|_| format!("no answer within {} s", DEADLINE.as_secs()))?
}

async fn post(client: &Client, webhook: &Webhook, message: &Message) -> Result<(), String> {
    let url: Uri = webhook.url.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
    let path = url.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let mut base = url.into_parts();
    base.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
    let mut config = Config::new(Uri::from_parts(base).map_err(|error| error.to_string())?);
    config.auth_info = AuthInfo { token: token(client, webhook).await?.map(Into::into), ..AuthInfo::default() };
    // What proxies the server is reached through is no matter of what is told elsewhere.
    config.proxy_url = None;
    let told = Client::try_from(config).map_err(|error| error.to_string())?;
    let body = serde_json::to_vec(message).map_err(|error| error.to_string())?;
    let request = http::Request::post(path).header(http::header::CONTENT_TYPE, "application/json");
    let request = request.body(kube::client::Body::from(body)).map_err(|error| error.to_string())?;
    let response = told.send(request).await.map_err(|error| error.to_string())?;
    match response.status() {
        status if status.is_success() => Ok(()),
        status => Err(format!("it answered {status}")),
    }
}

async fn token(client: &Client, webhook: &Webhook) -> Result<Option<String>, String> {
    let Some(reference) = &webhook.secret_ref else { return Ok(None) };
    let (namespace, name) = (&reference.namespace, &reference.name);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = secrets.get_opt(name).await.map_err(|error| error.to_string())?;
    let bytes = secret.and_then(|secret| secret.data?.remove(TOKEN));
    let bytes = bytes.ok_or_else(|| format!("there is no Secret {namespace}/{name} with the key {TOKEN:?}"))?;
    let token = String::from_utf8(bytes.0).map_err(|_| format!("the token of {namespace}/{name} is no text"))?;
    Ok(Some(token.trim().to_owned()))
}
