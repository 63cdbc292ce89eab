//! Which Environments ServiceAccounts may use, as the server last said.
//!
//! The server asks the same where a Pod is bound. So an answer that is a little old does no harm: what it lets through is
//! refused there, and what it holds back is asked about again.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, Client};
use setpoint_api::tenancy::USE;
use setpoint_core::scheduling::{Barred, Board};

/// How long an answer holds: one that lets Pods through, and one that holds them back.
const ALLOWED_FOR: SignedDuration = SignedDuration::from_secs(30);
const REFUSED_FOR: SignedDuration = SignedDuration::from_secs(1);
const DEFAULT_ACCOUNT: &str = "default";

/// A ServiceAccount, and an Environment that it may or may not use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Question {
    namespace: Arc<str>,
    account: Arc<str>,
    environment: Arc<str>,
}

/// The answers that hold.
#[derive(Debug, Default)]
pub(super) struct Answers {
    known: BTreeMap<Question, (bool, Timestamp)>,
}

impl Answers {
    /// The Environments of the board that a Pod is barred from, or what has to be asked first.
    pub(super) fn barred(&self, pod: &Pod, board: &Board, now: Timestamp) -> Result<Barred, Vec<Question>> {
        let (mut barred, mut unknown) = (Barred::new(), Vec::new());
        for environment in board.environments() {
            let question = Question::of(pod, environment);
            match self.known.get(&question).filter(|answer| holds(**answer, now)) {
                Some((true, _)) => {}
                Some((false, _)) => drop(barred.insert(environment.clone())),
                None => unknown.push(question),
            }
        }
        if unknown.is_empty() { Ok(barred) } else { Err(unknown) }
    }

    /// Takes in answers; those that do not hold any more go.
    pub(super) fn learn(&mut self, answers: impl IntoIterator<Item = (Question, bool)>, now: Timestamp) {
        self.known.retain(|_, answer| holds(*answer, now));
        self.known.extend(answers.into_iter().map(|(question, is_allowed)| (question, (is_allowed, now))));
    }

    /// The server says otherwise of a Pod: what was known of its account is asked again.
    pub(super) fn forget(&mut self, pod: &Pod) {
        let (namespace, account) = account_of(pod);
        self.known.retain(|question, _| *question.namespace != *namespace || *question.account != *account);
    }
}

fn holds((is_allowed, since): (bool, Timestamp), now: Timestamp) -> bool {
    now.duration_since(since) < if is_allowed { ALLOWED_FOR } else { REFUSED_FOR }
}

fn account_of(pod: &Pod) -> (&str, &str) {
    let named = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
    let account = named.filter(|name| !name.is_empty()).unwrap_or(DEFAULT_ACCOUNT);
    (pod.metadata.namespace.as_deref().unwrap_or_default(), account)
}

impl Question {
    fn of(pod: &Pod, environment: &Arc<str>) -> Question {
        let (namespace, account) = account_of(pod);
        Question { namespace: namespace.into(), account: account.into(), environment: environment.clone() }
    }

    pub(super) async fn ask(self, client: &Client) -> kube::Result<(Question, bool)> {
        let Question { namespace, account, environment } = &self;
        let attributes = ResourceAttributes {
            group: Some(setpoint_api::GROUP.to_owned()),
            resource: Some("environments".to_owned()),
            name: Some(environment.to_string()),
            namespace: Some(namespace.to_string()),
            verb: Some(USE.to_owned()),
            ..ResourceAttributes::default()
        };
        let groups = ["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}"), "system:authenticated"];
        let spec = SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:{namespace}:{account}")),
            groups: Some(groups.map(str::to_owned).into()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let answered = Api::<SubjectAccessReview>::all(client.clone()).create(&PostParams::default(), &review).await?;
        let is_allowed = answered.status.is_some_and(|status| status.allowed);
        Ok((self, is_allowed))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;
    use setpoint_core::scheduling::NodeState;

    use super::*;

    fn pod(namespace: &str, account: Option<&str>) -> Pod {
        let spec = json!({"containers": [], "serviceAccountName": account});
        serde_json::from_value(json!({"metadata": {"namespace": namespace}, "spec": spec})).expect("a Pod")
    }

    #[test]
    fn what_is_known_is_not_asked_until_it_is_old() {
        let mut board = Board::default();
        for environment in ["gpu", "local"] {
            let labels = json!({"setpoint.dev/environment": environment});
            let node: Node =
                serde_json::from_value(json!({"metadata": {"name": environment, "labels": labels}})).expect("a Node");
            board.set_node(NodeState::of(&node));
        }
        let at = |seconds: i64| Timestamp::constant(1_900_000_000 + seconds, 0);
        let mut answers = Answers::default();
        let web = pod("shop", None);
        let asked = answers.barred(&web, &board, at(0)).expect_err("nothing is known");
        assert_eq!(asked.len(), 2);
        let told = asked.into_iter().map(|question| {
            let is_allowed = &*question.environment == "local";
            (question, is_allowed)
        });
        answers.learn(told, at(0));
        assert_eq!(answers.barred(&web, &board, at(0)), Ok(Barred::from(["gpu".into()])));
        assert_eq!(answers.barred(&pod("shop", Some("default")), &board, at(0)).map(|it| it.len()), Ok(1));
        let unknown = |pod: &Pod, seconds| answers.barred(pod, &board, at(seconds)).map_or_else(|it| it.len(), |_| 0);
        let rows = [
            ("another account", pod("shop", Some("bot")), 0, 2),
            ("another namespace", pod("lab", None), 0, 2),
            ("a refusal is a second old", web.clone(), 1, 1),
            ("all of it is old", web.clone(), 30, 2),
        ];
        for (name, pod, seconds, expected) in rows {
            assert_eq!(unknown(&pod, seconds), expected, "{name}");
        }
        answers.forget(&web);
        assert!(answers.barred(&web, &board, at(0)).is_err(), "the server said otherwise");
    }
}
