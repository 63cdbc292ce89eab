//! Whether a reviewer has the right to approve, by the server's own answer: `approve` on the Environment by its name, in the
//! namespace of the object.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};
use setpoint_api::review::ReviewSpec;
use setpoint_core::gate::SERVICE_ACCOUNT;

/// Whether who wrote a review may approve in an Environment now, by the groups and the uid that the server wrote into it. A
/// ServiceAccount must be the one that it was.
pub async fn may_approve(
    client: &Client,
    environment: &str,
    namespace: &str,
    review: &ReviewSpec,
) -> Result<bool, kube::Error> {
    if let Some(account) = review.reviewer.strip_prefix(SERVICE_ACCOUNT) {
        let Some((home, name)) = account.split_once(':') else { return Ok(false) };
        let account = Api::<ServiceAccount>::namespaced(client.clone(), home).get_metadata_opt(name).await?;
        let is_same = account.is_some_and(|it| it.metadata.uid.is_some() && it.metadata.uid == review.reviewer_uid);
        if !is_same {
            return Ok(false);
        }
    }
    let asked = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(review.reviewer.clone()),
            uid: review.reviewer_uid.clone(),
            groups: (!review.reviewer_groups.is_empty()).then(|| review.reviewer_groups.clone()),
            resource_attributes: Some(ResourceAttributes {
                group: Some("setpoint.dev".to_owned()),
                resource: Some("environments".to_owned()),
                verb: Some("approve".to_owned()),
                name: Some(environment.to_owned()),
                namespace: Some(namespace.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let answer = Api::<SubjectAccessReview>::all(client.clone()).create(&PostParams::default(), &asked).await?;
    Ok(answer.status.is_some_and(|status| status.allowed && status.denied != Some(true)))
}
