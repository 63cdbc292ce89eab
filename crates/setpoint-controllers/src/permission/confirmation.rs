//! What people and policy say of steps at the moment they are taken, by the server itself.
//!
//! A watch may stand still while the server takes a rejection or a stricter policy, and whoever gave it was told that it
//! holds. So what could cost something is asked for once more, of what the server has now. A change set may have a thousand
//! steps, and each of them is confirmed: what is as it was heard of, by its version, is not read again.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Client};
use setpoint_api::change_set::ChangeSet;
use setpoint_api::environment::Environment;
use setpoint_api::review::Review;
use setpoint_api::step::{Class, Step};
use setpoint_core::authority::Authorized;

use super::leave::{Asked, judge};
use crate::change_set::Case;
use crate::runtime::Error;
use crate::signature::Signatures;

/// Whether something could be lost by a step, or people were asked about it.
pub fn is_at_stake(step: &Step, cases: &[Case]) -> bool {
    step.classes().into_iter().any(|class| class != Class::Benign) || cases.iter().any(|case| lists(case, step))
}

/// What becomes of each step, by the Environment, the change sets and the reviews as the server has them now. Nothing where
/// the Environment is not there any more.
pub async fn confirm(client: &Client, signatures: &Signatures, asked: &Asked<'_>) -> Result<Vec<Authorized>, Error> {
    let meta = &asked.environment.metadata;
    let environments: Api<Environment> = Api::all(client.clone());
    let environment = environments.get_opt(meta.name.as_deref().unwrap_or_default()).await?;
    let Some(environment) = environment.filter(|environment| environment.metadata.uid == meta.uid) else {
        return Ok(Vec::new());
    };
    let mut cases = Vec::new();
    for case in asked.cases.iter().filter(|case| asked.steps.iter().any(|step| lists(case, step))) {
        cases.extend(read(client, signatures, case).await?);
    }
    Ok(judge(&Asked { environment: &environment, cases: &cases, ..asked.clone() }))
}

/// A change set and the reviews of its gate, unless it is gone.
async fn read(client: &Client, signatures: &Signatures, known: &Case) -> Result<Option<Case>, Error> {
    let meta = &known.change_set.metadata;
    let (namespace, name) = (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
    let sets: Api<ChangeSet> = Api::namespaced(client.clone(), namespace);
    let change_set = match sets.get_metadata_opt(name).await? {
        Some(now) if version(&now.metadata) == version(meta) => Some(known.change_set.clone()),
        Some(_) => sets.get_opt(name).await?.map(Arc::new),
        None => None,
    };
    let Some(change_set) = change_set else { return Ok(None) };
    let reviews: Api<Review> = Api::namespaced(client.clone(), namespace);
    let of_gate = ListParams::default().fields(&format!("spec.gate={name}"));
    let now = reviews.list_metadata(&of_gate).await?;
    let heard = known.reviews.iter().map(|known| &known.review).chain(&known.surplus);
    let versions: BTreeSet<_> = heard.clone().map(|review| version(&review.metadata)).collect();
    let versions_now: BTreeSet<_> = now.iter().map(|review| version(&review.metadata)).collect();
    let reviews = match versions_now == versions {
        true => heard.cloned().collect(),
        false => reviews.list(&of_gate).await?.items.into_iter().map(Arc::new).collect(),
    };
    Ok(Some(Case::reviewed(change_set, reviews, signatures)))
}

/// What an object is, exactly.
fn version(meta: &ObjectMeta) -> (Option<&str>, Option<&str>) {
    (meta.uid.as_deref(), meta.resource_version.as_deref())
}

fn lists(case: &Case, step: &Step) -> bool {
    let mut listed = case.change_set.status.iter().flat_map(|status| &status.steps);
    listed.any(|listed| listed.digest == step.digest)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    use http::{Request, Response};
    use jiff::Timestamp;
    use kube::client::Body;
    use serde_json::{Value, json};
    use setpoint_core::gate::Verdict;

    use super::*;
    use crate::permission::Spending;

    const NOW: Timestamp = Timestamp::constant(1_794_744_600, 0);

    fn environment(approval: Value) -> Value {
        json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment", "metadata": {"name": "lab", "uid": "e"},
            "spec": {"deployer": {"name": "simulated"}, "approval": approval},
        })
    }

    fn step(class: &str) -> Value {
        json!({
            "id": "shop/web/delete", "target": {"namespace": "shop", "name": "web", "kind": "Machine"},
            "action": "Delete", "providerId": "1", "reason": "the object is being deleted", "origin": "Desired",
            "class": class, "classReason": "it holds data", "digest": "sha256:a",
        })
    }

    fn change_set() -> Value {
        json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet",
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "s", "resourceVersion": "7",
                "creationTimestamp": "2026-11-15T12:00:00Z",
            },
            "spec": {"environment": "lab", "mode": "Execute", "requestedBy": "carol"},
            "status": {"steps": [step("Destructive")], "digest": "sha256:all"},
        })
    }

    /// The same after the step was done by its leave.
    fn used() -> Value {
        let mut set = change_set();
        set["metadata"]["resourceVersion"] = json!("8");
        let done = json!({
            "id": "shop/web/delete", "digest": "sha256:a", "state": "Done", "since": "2026-11-15T12:06:00Z",
        });
        set["status"]["stepStates"] = json!([done]);
        set
    }

    fn review(reviewer: &str, decision: &str) -> Value {
        json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Review",
            "metadata": {
                "name": reviewer, "namespace": "shop", "uid": reviewer, "resourceVersion": "1",
                "creationTimestamp": "2026-11-15T12:05:00Z",
            },
            "spec": {"gate": "web", "decision": decision, "reviewer": reviewer, "digests": ["sha256:a"]},
        })
    }

    /// A server that has these.
    fn server(environment: Option<Value>, change_set: Option<Value>, reviews: Vec<Value>) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| {
            let missing =
                json!({"kind": "Status", "status": "Failure", "code": 404, "message": "", "reason": "NotFound"});
            let found = match request.uri().path().rsplit('/').next().unwrap_or_default() {
                "lab" => environment.clone(),
                "web" => change_set.clone(),
                "reviews" if request.uri().query().is_some_and(|query| query.contains("spec.gate%3Dweb")) => {
                    let (version, kind) = ("setpoint.dev/v1alpha1", "ReviewList");
                    Some(json!({"apiVersion": version, "kind": kind, "metadata": {}, "items": reviews}))
                }
                _ => None,
            };
            let code = if found.is_some() { 200 } else { 404 };
            let answer = found.unwrap_or(missing).to_string().into_bytes();
            let answer = Response::builder().status(code).body(Body::from(answer));
            async move { Ok::<_, Infallible>(answer.unwrap()) }
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn what_the_server_has_counts_and_not_what_was_heard_of() {
        let (lax, strict) = (json!(null), json!({"rules": [{"class": "Destructive", "approvals": 2}]}));
        let approved = || vec![review("bob", "Approve")];
        let rejected = || vec![review("bob", "Approve"), review("dave", "Reject")];
        let rows = [
            ("as it was heard", Some(environment(lax.clone())), Some(change_set()), approved(), true),
            ("somebody said no", Some(environment(lax.clone())), Some(change_set()), rejected(), false),
            ("the approval is gone", Some(environment(lax.clone())), Some(change_set()), vec![], false),
            ("the policy asks for more", Some(environment(strict)), Some(change_set()), approved(), false),
            ("it was used by now", Some(environment(lax.clone())), Some(used()), approved(), false),
            ("the change set is gone", Some(environment(lax.clone())), None, approved(), false),
            ("the Environment is gone", None, Some(change_set()), approved(), false),
        ];
        let known: Environment = serde_json::from_value(environment(lax)).expect("an Environment");
        let step: Step = serde_json::from_value(step("Destructive")).expect("a step");
        let signatures = Signatures::default();
        let heard = approved().into_iter().map(|review| Arc::new(serde_json::from_value(review).expect("a review")));
        let set = Arc::new(serde_json::from_value(change_set()).expect("a change set"));
        let cases = [Case::reviewed(set, heard.collect(), &signatures)];
        let asked = Asked {
            environment: &known,
            steps: std::slice::from_ref(&step),
            expires_at: None,
            intents: &[],
            gpus: BTreeMap::new(),
            spending: &Spending::default(),
            cases: &cases,
            done: &[],
            owner: "m",
            machine: None,
            requested_by: "carol",
            cluster: "c",
            now: NOW,
        };
        assert_eq!(judge(&asked)[0].verdict, Verdict::Run, "by what was heard of");
        for (name, environment, change_set, reviews, runs) in rows {
            let client = server(environment, change_set, reviews);
            let confirmed = confirm(&client, &signatures, &asked).await.expect(name);
            assert_eq!(confirmed.iter().any(|answer| answer.verdict == Verdict::Run), runs, "{name}");
        }
    }

    #[test]
    fn what_costs_nothing_is_not_asked_for_again() {
        let of = |class: &str| -> Step { serde_json::from_value(step(class)).expect("a step") };
        let set = Arc::new(serde_json::from_value(change_set()).expect("a change set"));
        let asked = [Case::reviewed(set, Vec::new(), &Signatures::default())];
        let rows = [
            ("nothing can be lost", of("Benign"), &[][..], false),
            ("something can be", of("Disruptive"), &[], true),
            ("people were asked", of("Benign"), &asked[..], true),
        ];
        for (name, step, cases, expected) in rows {
            assert_eq!(is_at_stake(&step, cases), expected, "{name}");
        }
    }
}
