//! A Pod with everything that it refers to, ready to be made.

use std::collections::BTreeMap;

use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use kube::api::PostParams;
use kube::{Api, Client};
use setpoint_core::observation::Mark;
use setpoint_core::pod::environment::Environment;
use setpoint_core::pod::limits::shortened;
use setpoint_core::pod::status::Hold;
use setpoint_core::pod::{Found, Needs, NodeFacts, TokenNeed, environment, volumes};
use setpoint_deployer::provider::{Body, Order, PodOrder};

/// How much of a message is kept: it may quote a name of any length, and every container's status repeats it.
const MESSAGE_BYTES: usize = 1024;

/// Why there is no order.
#[derive(Debug)]
pub(super) enum Obstacle {
    /// The Pod refers to what is not there, or not to be had here. The second is the reason of the Event that says so.
    Missing(Hold, &'static str),
    Api(kube::Error),
}

impl From<kube::Error> for Obstacle {
    fn from(error: kube::Error) -> Obstacle {
        Obstacle::Api(error)
    }
}

/// An order, and how it came about.
pub(super) struct Prepared {
    pub(super) order: Order,
    /// The variables that had to be left out.
    pub(super) skipped: Vec<String>,
    pub(super) tokens: BTreeMap<TokenNeed, String>,
}

/// The order for a Pod. Tokens that are at hand are used again.
///
/// The intent is the Pod's uid: a Pod is made once in its life, so the same intent is found again without having been
/// written down anywhere, and a provider under whose hands we died gives back what it made.
pub(super) async fn order(
    client: &Client,
    pod: &Pod,
    node: &NodeFacts,
    cluster: &str,
    tokens: BTreeMap<TokenNeed, String>,
) -> Result<Prepared, Obstacle> {
    let found = find(client, pod, tokens).await?;
    let spec = pod.spec.clone().unwrap_or_default();
    let volumes = volumes::resolve(pod, &found, node).map_err(|error| {
        let message = format!("MountVolume.SetUp failed for volume {:?} : {}", error.volume, error.error);
        Obstacle::Missing(hold(None, "ContainerCreating", &message), "FailedMount")
    })?;
    let Environment { variables, skipped } = environment::resolve(pod, &found, node).map_err(|error| {
        let message = error.error.to_string();
        Obstacle::Missing(hold(Some(&error.container), "CreateContainerConfigError", &message), "Failed")
    })?;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (namespace, name, uid) = (text(&pod.metadata.namespace), text(&pod.metadata.name), text(&pod.metadata.uid));
    let mark = Mark {
        cluster: cluster.into(),
        owner_uid: uid.as_str().into(),
        intent: Some(uid.as_str().into()),
        spec_digest: None,
    };
    let order = Order {
        mark,
        name: format!("{namespace}/{name}"),
        provider_id: None,
        body: Body::Pod(Box::new(PodOrder { namespace, name, uid, spec, variables, volumes })),
    };
    Ok(Prepared { order, skipped, tokens: found.tokens })
}

/// Why a Pod is not made, in so many words.
pub(super) fn hold(container: Option<&str>, reason: &str, message: &str) -> Hold {
    let (container, reason) = (container.map(str::to_owned), reason.to_owned());
    Hold { container, reason, message: shortened(message, MESSAGE_BYTES) }
}

/// Looks up what a Pod refers to.
async fn find(client: &Client, pod: &Pod, tokens: BTreeMap<TokenNeed, String>) -> Result<Found, kube::Error> {
    let needs = Needs::of(pod);
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let mut found = Found { tokens, ..Found::default() };
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    for name in needs.config_maps {
        if let Some(map) = maps.get_opt(&name).await? {
            found.config_maps.insert(name, map);
        }
    }
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    for name in needs.secrets {
        if let Some(secret) = secrets.get_opt(&name).await? {
            found.secrets.insert(name, secret);
        }
    }
    for need in needs.tokens {
        if found.tokens.contains_key(&need) {
            continue;
        }
        if let Some(token) = token(client, pod, &need).await? {
            found.tokens.insert(need, token);
        }
    }
    Ok(found)
}

/// A token of the Pod's service account that ends with the Pod.
async fn token(client: &Client, pod: &Pod, need: &TokenNeed) -> Result<Option<String>, kube::Error> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref()).unwrap_or("default");
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: (!need.audience.is_empty()).then(|| vec![need.audience.clone()]),
            expiration_seconds: Some(need.expiration_seconds),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: pod.metadata.name.clone(),
                uid: pod.metadata.uid.clone(),
            }),
        }),
        ..TokenRequest::default()
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    match accounts.create_token_request(account, &PostParams::default(), &request).await {
        Ok(answer) => Ok(answer.status.and_then(|status| status.token)),
        Err(error) if crate::events::is_code(&error, 404) => Ok(None),
        Err(error) => Err(error),
    }
}
