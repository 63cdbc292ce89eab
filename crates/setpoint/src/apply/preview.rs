//! What the objects of a draft do to guests, planned by the control plane against a fresh look.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::Value;
use setpoint_api::change_set::{ChangeSet, ChangeSetSpec, ChangeSetStatus, MAX_OBJECTS, Mode, Phase};
use setpoint_api::step::Target;

use super::draft::Draft;
use super::standing::condition;
use crate::approve::Policy;
use crate::client::must_fit;
use crate::proposal::{Limited, Proposal, ProposedSet, holds};
use crate::session::Session;
use crate::terminal::{inert, remark};

/// How long planning may take: a provider has to be asked.
const PLANNING: Duration = Duration::from_secs(120);

/// The Machines of one namespace in one environment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) environment: String,
}

impl Key {
    /// Where an object belongs.
    pub(crate) fn of(namespace: Option<&String>, object: &Value) -> Key {
        Key {
            namespace: namespace.cloned().unwrap_or_default(),
            environment: object["spec"]["environment"].as_str().unwrap_or_default().to_owned(),
        }
    }
}

/// What is asked about the guests of one environment.
#[derive(Debug, Default)]
pub(crate) struct Question {
    pub(crate) objects: Vec<serde_json::Map<String, Value>>,
    pub(crate) deletes: Vec<Target>,
}

impl Question {
    /// Whether a change set asks for the same: of the same Machines the same, as far as that is theirs to say.
    pub(crate) fn is_asked_by(&self, spec: &ChangeSetSpec) -> bool {
        let said = |object: &serde_json::Map<String, Value>| {
            let part = |name: &str| object.get(name).cloned().unwrap_or_default();
            (part("metadata")["name"].clone(), part("spec"))
        };
        let all = |objects: &[serde_json::Map<String, Value>]| objects.iter().map(said).collect::<Vec<_>>();
        all(&self.objects) == all(&spec.objects) && self.deletes == spec.deletes
    }
}

/// What a draft would change. Machines whose place is not there yet say that they are planned later.
pub(crate) async fn propose(session: &Session, draft: &mut Draft, user: &str) -> Result<Proposal> {
    let mut proposal = Proposal::default();
    let questions = questions(draft);
    let mut absent = BTreeSet::new();
    for (key, question) in &questions {
        let policy = Policy::of(session, &key.environment).await?;
        if matches!(policy, Policy::Absent) {
            absent.insert(key.environment.clone());
            continue;
        }
        if matches!(policy, Policy::Hidden) {
            let environment = inert(&key.environment);
            remark(&format!("who must approve what in environment {environment} is hidden from you, and may differ"));
        }
        if let Policy::Known { broken: Some(why), .. } = &policy
            && !draft.may_mend(&key.environment)
        {
            bail!("environment {} cannot be planned for: {}", inert(&key.environment), inert(why));
        }
        let status = preview(session, key, question, user).await?;
        let holds = holds(&status.steps, policy.approval(), user);
        proposal.change_sets.push(ProposedSet {
            namespace: key.namespace.clone(),
            environment: key.environment.clone(),
            steps: status.steps,
            waiting: status.waiting,
            refused: status.refused,
            counts: status.counts.unwrap_or_default(),
            hourly_cost_delta: status.hourly_cost_delta,
            holds,
            limited: status.step_states.iter().map(Limited::of).collect(),
        });
    }
    let brought: BTreeSet<String> = draft.environments().map(str::to_owned).collect();
    for write in draft.writes.iter_mut().filter(|write| write.is_machine() && write.change.note.is_none()) {
        let environment = write.object["spec"]["environment"].as_str().unwrap_or_default();
        write.change.note = match absent.contains(environment) {
            true if brought.contains(environment) => Some(format!("planned once environment {environment} is there")),
            true => Some(format!("there is no environment {environment}, nor is it among the files")),
            false => None,
        };
    }
    proposal.objects.extend(draft.writes.iter().map(|write| write.change.clone()));
    proposal.objects.extend(draft.removals.iter().map(|removal| removal.change.clone()));
    Ok(proposal)
}

/// The Machines of a draft by where they are. One that was not tried cannot be planned yet.
pub(crate) fn questions(draft: &Draft) -> BTreeMap<Key, Question> {
    let mut questions: BTreeMap<Key, Question> = BTreeMap::new();
    for write in draft.writes.iter().filter(|write| write.is_machine()) {
        if let Some(Value::Object(result)) = &write.result {
            let question = questions.entry(Key::of(write.namespace.as_ref(), &write.object)).or_default();
            question.objects.push(result.clone());
        }
    }
    for removal in draft.removals.iter().filter(|removal| removal.is_machine()) {
        let question = questions.entry(Key::of(removal.namespace.as_ref(), &removal.live)).or_default();
        question.deletes.push(Target {
            namespace: removal.namespace.clone().unwrap_or_default(),
            name: removal.name.clone(),
            kind: removal.resource.kind.clone(),
        });
    }
    questions
}

/// Has a question planned, and leaves nothing behind.
async fn preview(session: &Session, key: &Key, question: &Question, user: &str) -> Result<ChangeSetStatus> {
    let made = post(session, key, question, user, Mode::Preview).await?;
    let planned = planned(session, &made).await;
    let sets: Api<ChangeSet> = Api::namespaced(session.server.client.clone(), &key.namespace);
    let name = made.metadata.name.as_deref().unwrap_or_default();
    // One that cannot be deleted goes by itself after an hour.
    let _ = sets.delete(name, &DeleteParams::default()).await;
    planned?.status.context("a change set that is planned has a status")
}

/// Posts a change set.
pub(crate) async fn post(
    session: &Session,
    key: &Key,
    question: &Question,
    user: &str,
    mode: Mode,
) -> Result<ChangeSet> {
    let count = question.objects.len().max(question.deletes.len());
    ensure!(
        count <= MAX_OBJECTS,
        "{count} Machines in one environment are more than a change set holds ({MAX_OBJECTS}); take fewer with --target \
         or --exclude"
    );
    let prefix = if mode == Mode::Preview { "preview-" } else { "apply-" };
    let set = ChangeSet {
        metadata: ObjectMeta { generate_name: Some(prefix.to_owned()), ..ObjectMeta::default() },
        spec: ChangeSetSpec {
            environment: key.environment.clone(),
            mode,
            objects: question.objects.clone(),
            deletes: question.deletes.clone(),
            requested_by: user.to_owned(),
        },
        status: None,
    };
    let all = || format!("what the Machines in environment {} ask for", inert(&key.environment));
    must_fit(all, &set, "take fewer with --target or --exclude")?;
    let sets: Api<ChangeSet> = Api::namespaced(session.server.client.clone(), &key.namespace);
    let made = sets.create(&PostParams::default(), &set).await.map_err(|error| session.server.unreachable(error));
    made.with_context(|| format!("cannot ask for a plan in environment {}", inert(&key.environment)))
}

/// Waits until a change set is planned, and until people are asked where they must be.
pub(crate) async fn planned(session: &Session, set: &ChangeSet) -> Result<ChangeSet> {
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    let name = set.metadata.name.as_deref().unwrap_or_default();
    let sets: Api<ChangeSet> = Api::namespaced(session.server.client.clone(), namespace);
    let is_planned = |set: Option<&ChangeSet>| {
        let status = set.and_then(|set| set.status.as_ref());
        let phase = status.and_then(|status| status.phase);
        let asks = status.is_some_and(|status| status.gate_ref.is_some());
        set.is_none()
            || hopeless(status).is_some()
            || phase.is_some_and(|phase| phase != Phase::Pending && (phase != Phase::Waiting || asks))
    };
    let waited = tokio::time::timeout(PLANNING, await_condition(sets.clone(), name, is_planned)).await;
    let found = match waited {
        Ok(found) => found.map_err(|error| {
            let why = inert(&anyhow!(error).root_cause().to_string());
            anyhow!("the plan for environment {} cannot be followed: {why}", inert(&set.spec.environment))
        })?,
        Err(_) => {
            let last = sets.get_opt(name).await.ok().flatten();
            let conditions = last.and_then(|set| set.status).map(|status| status.conditions).unwrap_or_default();
            let why = conditions.iter().find_map(|condition| condition.message.clone());
            let why = why.map(|why| format!(" ({})", inert(&why))).unwrap_or_default();
            let environment = inert(&set.spec.environment);
            bail!(
                "environment {environment} was not planned for within {} s{why}; see `setpoint status`, and that the \
                 controllers run",
                PLANNING.as_secs()
            );
        }
    };
    let found = found.with_context(|| format!("the change set {name} was deleted while it was planned"))?;
    match hopeless(found.status.as_ref()) {
        Some(why) => bail!("environment {} cannot be planned for: {}", inert(&set.spec.environment), inert(why)),
        None => Ok(found),
    }
}

/// Why there will be no plan, however long one waits.
fn hopeless(status: Option<&ChangeSetStatus>) -> Option<&str> {
    let planned = condition(&status?.conditions, "Planned")?;
    let is_final = matches!(planned.reason.as_deref(), Some("TooManySteps" | "UnsoundPlan"));
    planned.message.as_deref().filter(|_| is_final)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_asks_again_asks_for_the_same() {
        let object = |name: &str, version: &str, cores: u32| {
            let metadata = json!({"name": name, "resourceVersion": version});
            json!({"metadata": metadata, "spec": {"cores": cores}}).as_object().cloned().unwrap_or_default()
        };
        let target = |name: &str| Target { namespace: "shop".into(), name: name.into(), kind: "Machine".into() };
        let question = Question { objects: vec![object("web", "2", 2)], deletes: vec![target("db")] };
        let rows = [
            ("the same, of another version", vec![object("web", "1", 2)], vec![target("db")], true),
            ("another spec", vec![object("web", "2", 3)], vec![target("db")], false),
            ("another Machine", vec![object("mail", "2", 2)], vec![target("db")], false),
            ("more Machines", vec![object("web", "2", 2), object("mail", "2", 2)], vec![target("db")], false),
            ("another deletion", vec![object("web", "2", 2)], vec![target("mail")], false),
            ("no deletion", vec![object("web", "2", 2)], vec![], false),
        ];
        for (row, objects, deletes, expected) in rows {
            let spec = ChangeSetSpec {
                environment: "lab".to_owned(),
                mode: Mode::Execute,
                objects,
                deletes,
                requested_by: "carol".to_owned(),
            };
            assert_eq!(question.is_asked_by(&spec), expected, "{row}");
        }
    }
}
