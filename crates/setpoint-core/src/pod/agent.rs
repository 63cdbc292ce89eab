//! What to do next with a Pod and with what runs of it.
//!
//! One decision is taken from everything that is known, and the next one anew: nothing is remembered in between that would
//! be missed. Whoever takes a step and dies before they can say so decides the same again, and every step twice is as once.
//! The order in which a Pod ends follows from that: it is stopped, its status tells how it ended, what is left of it is
//! removed, and the Pod itself goes last, since it is what says that the rest is still to be done.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodStatus};

use super::fields::NodeFacts;
use super::ports;
use super::state::PodState;
use super::status::{self, Hold, PodPhase, Sight, Verdict};

/// How long something may take to end that nobody asks for any more.
const ABANDONED_SECONDS: i64 = 1;
/// How long whoever looks after a Pod may be late to end it before that is done over their head.
const LATE_SECONDS: i64 = 10;
/// How long a Pod may take to end that does not say.
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// Everything that is known of a Pod.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The Pod; `None` if it is known that there is none of this uid on this node.
    pub pod: Option<&'a Pod>,
    /// What runs of it; `None` if it is known that there is nothing.
    pub instance: Option<&'a InstanceFacts>,
    /// What kept it from being started when that was last tried. The status says so until it can be.
    pub hold: Option<&'a Hold>,
    /// The grace of the last order to stop it, as far as that is remembered. To order it again does no harm.
    pub ordered_grace: Option<Duration>,
    pub node: &'a NodeFacts,
    pub now: Timestamp,
}

/// What is there of a Pod where it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceFacts {
    pub id: Box<str>,
    pub run: RunState,
    /// How its containers are, if that could be read.
    pub state: Option<PodState>,
}

/// Whether an instance is at work: whether somebody looks after its containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    Running,
    Stopped,
    /// On its way from one to the other, or not to be told.
    Unsettled,
}

/// What to do: first to write the status, if there is one, then to act.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The status that the Pod should have, where it has another.
    pub status: Option<Box<PodStatus>>,
    /// What the Pod should say of its ports, where it says something else. It goes with the status.
    pub ports: Option<String>,
    pub act: Act,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Nothing until something changes, or until this time.
    Wait { until: Option<Timestamp> },
    /// Have it made and started.
    Create,
    /// Have someone look after its containers again: nobody does.
    Start { id: Box<str> },
    /// Ask it to end within this time. A later order can only shorten it.
    Stop { id: Box<str>, grace: Duration },
    /// Remove all that is left where it ran.
    DeleteInstance { id: Box<str> },
    /// Remove the Pod itself, if it is still the one of this uid.
    RemovePod,
    /// There is neither a Pod nor anything of it.
    Forget,
}

/// Decides what to do next.
pub fn decide(facts: Facts<'_>) -> Decision {
    let Some(pod) = facts.pod else {
        return Decision { status: None, ports: None, act: without_pod(facts) };
    };
    let rejection = rejection(pod, facts);
    let status = status::status(
        pod,
        Sight {
            state: facts.instance.and_then(|instance| instance.state.as_ref()),
            hold: facts.hold,
            rejection: rejection.as_ref(),
            is_over: rejection.is_some() || is_over(pod, facts),
            node: facts.node,
            now: facts.now,
        },
    );
    let phase = PodPhase::read(status.phase.as_deref());
    let act = if pod.metadata.deletion_timestamp.is_some() {
        of_deleted(pod, facts)
    } else if phase.is_final() {
        of_finished(pod, facts)
    } else {
        of_living(pod, facts)
    };
    let state = facts.instance.and_then(|instance| instance.state.as_ref());
    let ports = state.and_then(|state| ports::told(&state.ports)).filter(|told| ports::annotation(pod) != Some(told));
    let is_news = ports.is_some() || pod.status.as_ref() != Some(&status);
    Decision { status: is_news.then(|| Box::new(status)), ports, act }
}

/// What is left of a Pod that is gone. It is stopped before it is removed, so that it can finish what it is doing.
fn without_pod(facts: Facts<'_>) -> Act {
    match facts.instance {
        None => Act::Forget,
        Some(instance) if instance.has_ended() => Act::DeleteInstance { id: instance.id.clone() },
        Some(instance) => stop(instance, ABANDONED_SECONDS, facts),
    }
}

fn of_deleted(pod: &Pod, facts: Facts<'_>) -> Act {
    match facts.instance {
        None if is_let_go(pod) => Act::Wait { until: None },
        None => Act::RemovePod,
        Some(instance) if instance.has_ended() => Act::DeleteInstance { id: instance.id.clone() },
        Some(instance) => {
            let asked = pod.metadata.deletion_grace_period_seconds;
            stop(instance, asked.unwrap_or_else(|| own_grace(pod)), facts)
        }
    }
}

/// A Pod that has ended keeps what is left of it until it is deleted: people read its logs.
fn of_finished(pod: &Pod, facts: Facts<'_>) -> Act {
    match facts.instance {
        Some(instance) if !instance.has_ended() => stop(instance, own_grace(pod), facts),
        _ => Act::Wait { until: None },
    }
}

fn of_living(pod: &Pod, facts: Facts<'_>) -> Act {
    match facts.instance {
        None => Act::Create,
        Some(instance) if instance.run == RunState::Stopped && !instance.has_finished() => {
            Act::Start { id: instance.id.clone() }
        }
        Some(_) => Act::Wait { until: status::deadline(pod) },
    }
}

fn stop(instance: &InstanceFacts, grace_seconds: i64, facts: Facts<'_>) -> Act {
    let grace = Duration::from_secs(u64::try_from(grace_seconds).unwrap_or_default().max(1));
    let stopping_since = instance.state.as_ref().and_then(|state| state.stopping_since);
    let deleted_at = facts.pod.and_then(|pod| pod.metadata.deletion_timestamp.as_ref()).map(|time| time.0);
    let end = |since: Timestamp| since.checked_add(grace).ok();
    // The time of a deletion is the time by which it should be done, whether or not anybody has begun.
    let due = stopping_since.and_then(end).into_iter().chain(deleted_at).min();
    let overdue = due.and_then(|due| due.checked_add(SignedDuration::from_secs(LATE_SECONDS)).ok());
    if overdue.is_some_and(|overdue| facts.now >= overdue) {
        return Act::DeleteInstance { id: instance.id.clone() };
    }
    if stopping_since.is_some() && facts.ordered_grace.is_some_and(|ordered| ordered <= grace) {
        return Act::Wait { until: overdue };
    }
    // Nobody is left to ask for more time, and an order that was not heeded will not be.
    if facts.pod.is_none() && facts.ordered_grace.is_some() && stopping_since.is_none() {
        return Act::DeleteInstance { id: instance.id.clone() };
    }
    Act::Stop { id: instance.id.clone(), grace }
}

/// Whether nothing of a Pod will run again, whatever its restart policy.
fn is_over(pod: &Pod, facts: Facts<'_>) -> bool {
    match facts.instance {
        Some(instance) => pod.metadata.deletion_timestamp.is_some() && instance.has_ended(),
        None => pod.metadata.deletion_timestamp.is_some() || was_lost(pod),
    }
}

/// Whether all that ran of a Pod has disappeared and may not be started a second time.
fn was_lost(pod: &Pod) -> bool {
    let never = pod.spec.as_ref().is_some_and(|spec| spec.restart_policy.as_deref() == Some("Never"));
    let status = pod.status.as_ref();
    let init = status.and_then(|status| status.init_container_statuses.as_ref());
    let main = status.and_then(|status| status.container_statuses.as_ref());
    let mut states = init.into_iter().chain(main).flatten().filter_map(|status| status.state.as_ref());
    never && states.any(|state| state.running.is_some() || state.terminated.is_some())
}

/// Whether a deleted Pod is kept by others alone, after we have said that it may go.
fn is_let_go(pod: &Pod) -> bool {
    let is_kept = pod.metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
    is_kept && pod.metadata.deletion_grace_period_seconds == Some(0)
}

/// Why a Pod that was put on this node, past any scheduler, must not run here.
fn rejection(pod: &Pod, facts: Facts<'_>) -> Option<Verdict> {
    if facts.instance.is_some() || pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let spec = pod.spec.as_ref()?;
    let node = facts.node;
    let os = spec.os.as_ref().map(|os| os.name.as_str()).filter(|os| !os.is_empty());
    if os.is_some_and(|os| node.labels.get("kubernetes.io/os").map(String::as_str) != Some(os)) {
        return Some(Verdict {
            reason: "PodOSNotSupported".to_owned(),
            message: "Pod was rejected: Failed to admit pod as the OS field doesn't match node OS".to_owned(),
        });
    }
    let mut wanted = spec.node_selector.iter().flatten();
    wanted.any(|(label, value)| node.labels.get(label) != Some(value)).then(|| Verdict {
        reason: "NodeAffinity".to_owned(),
        message: "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
            .to_owned(),
    })
}

fn own_grace(pod: &Pod) -> i64 {
    let own = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    own.unwrap_or(DEFAULT_GRACE_SECONDS)
}

impl InstanceFacts {
    /// Whether all its containers have ended for good.
    fn has_finished(&self) -> bool {
        self.state.as_ref().is_some_and(PodState::has_ended)
    }

    /// Whether nothing of it runs: its containers have ended, or nobody looks after them any more.
    fn has_ended(&self) -> bool {
        self.has_finished() || self.run == RunState::Stopped
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::fixtures::{at, container, ended, node, noon, pod, running, state, waiting};
    use crate::pod::state::{Phase, Role};

    fn instance(run: RunState, phase: Phase) -> InstanceFacts {
        let state = state(vec![container("web", Role::Main, phase)]);
        InstanceFacts { id: "i1".into(), run, state: Some(state) }
    }

    fn stopping(phase: Phase) -> InstanceFacts {
        let mut instance = instance(RunState::Running, phase);
        instance.state.as_mut().unwrap().stopping_since = Some(at(-3));
        instance
    }

    fn deleted(grace: i64) -> Value {
        json!({"metadata": {"deletionTimestamp": "2026-03-01T12:00:30Z", "deletionGracePeriodSeconds": grace}})
    }

    fn facts<'a>(pod: Option<&'a Pod>, instance: Option<&'a InstanceFacts>, node: &'a NodeFacts) -> Facts<'a> {
        Facts { pod, instance, hold: None, ordered_grace: None, node, now: noon() }
    }

    fn stop_within(seconds: u64) -> Act {
        Act::Stop { id: "i1".into(), grace: Duration::from_secs(seconds) }
    }

    fn nothing() -> Act {
        Act::Wait { until: None }
    }

    #[test]
    fn what_is_done_with_a_pod() {
        use RunState::{Running, Stopped, Unsettled};
        let alive = || Some(pod(json!({})));
        let gone = || Some(pod(deleted(5)));
        let over = |phase: &str| Some(pod(json!({"status": {"phase": phase}})));
        let never = |status: Value| {
            Some(pod(json!({"spec": {"restartPolicy": "Never"}, "status": {"containerStatuses": [
                {"name": "web", "ready": true, "image": "", "imageID": "", "restartCount": 0, "state": status},
            ]}})))
        };
        let kept = |grace: i64| {
            Some(pod(json!({"metadata": {
                "finalizers": ["example.com/x"], "deletionTimestamp": "2026-03-01T12:00:30Z", "deletionGracePeriodSeconds": grace,
            }})))
        };
        let delete = || Act::DeleteInstance { id: "i1".into() };
        let start = || Act::Start { id: "i1".into() };
        let rows: Vec<(&str, Option<Pod>, Option<InstanceFacts>, Act)> = vec![
            ("a new Pod is made", alive(), None, Act::Create),
            ("one that runs goes on", alive(), Some(instance(Running, running())), nothing()),
            ("one that is on its way too", alive(), Some(instance(Unsettled, running())), nothing()),
            ("one that nobody looks after is started", alive(), Some(instance(Stopped, running())), start()),
            (
                "one that waits to be started again, too",
                alive(),
                Some(instance(Stopped, waiting("CrashLoopBackOff"))),
                start(),
            ),
            ("one that has ended for good is not", alive(), Some(instance(Stopped, ended(0))), nothing()),
            (
                "of which nothing could be read is started",
                alive(),
                Some(InstanceFacts { id: "i1".into(), run: Stopped, state: None }),
                start(),
            ),
            (
                "a Pod that succeeded keeps what is left",
                over("Succeeded"),
                Some(instance(Stopped, ended(0))),
                nothing(),
            ),
            (
                "a Pod that failed and still runs is stopped",
                over("Failed"),
                Some(instance(Running, running())),
                stop_within(30),
            ),
            ("a Pod that failed is not made again", over("Failed"), None, nothing()),
            ("what may not run twice is not made twice", never(json!({"running": {}})), None, nothing()),
            ("nor what has ended once", never(json!({"terminated": {"exitCode": 0}})), None, nothing()),
            (
                "what has not run yet is made",
                never(json!({"waiting": {"reason": "ContainerCreating"}})),
                None,
                Act::Create,
            ),
            ("a deleted Pod is stopped", gone(), Some(instance(Running, running())), stop_within(5)),
            (
                "a deleted Pod without grace has a second",
                Some(pod(deleted(0))),
                Some(instance(Running, running())),
                stop_within(1),
            ),
            ("a deleted Pod that ended is cleared away", gone(), Some(instance(Stopped, ended(0))), delete()),
            ("also while its supervisor is still there", gone(), Some(instance(Running, ended(0))), delete()),
            (
                "a deleted Pod that nobody looks after is cleared away",
                gone(),
                Some(instance(Stopped, running())),
                delete(),
            ),
            ("a deleted Pod of which nothing is left goes", gone(), None, Act::RemovePod),
            ("a deleted Pod that others keep is let go once", kept(5), None, Act::RemovePod),
            ("and no more", kept(0), None, nothing()),
            ("what runs without a Pod is stopped", None, Some(instance(Running, running())), stop_within(1)),
            ("and cleared away", None, Some(instance(Stopped, running())), delete()),
            ("neither Pod nor instance", None, None, Act::Forget),
        ];
        for (name, pod, instance, expected) in rows {
            let node = node();
            assert_eq!(decide(facts(pod.as_ref(), instance.as_ref(), &node)).act, expected, "{name}");
        }
    }

    #[test]
    fn an_order_to_stop_is_given_once_and_can_be_shortened() {
        let seconds = Duration::from_secs;
        let rows = [
            ("not ordered as far as anybody remembers", None, stopping(running()), stop_within(5)),
            ("ordered already", Some(seconds(5)), stopping(running()), Act::Wait { until: Some(at(12)) }),
            ("ordered sooner", Some(seconds(2)), stopping(running()), Act::Wait { until: Some(at(12)) }),
            ("ordered later", Some(seconds(30)), stopping(running()), stop_within(5)),
            ("ordered and not heard", Some(seconds(5)), instance(RunState::Running, running()), stop_within(5)),
        ];
        for (name, ordered_grace, instance, expected) in rows {
            let (pod, node) = (pod(deleted(5)), node());
            let facts = Facts { ordered_grace, ..facts(Some(&pod), Some(&instance), &node) };
            assert_eq!(decide(facts).act, expected, "{name}");
        }
    }

    #[test]
    fn whoever_does_not_end_a_pod_in_time_is_not_waited_for() {
        let clear_away = Act::DeleteInstance { id: "i1".into() };
        let (pod, node) = (pod(deleted(5)), node());
        let rows = [
            ("it was begun and never ended", Some(&pod), stopping(running()), 12, clear_away.clone()),
            ("it was not even begun", Some(&pod), instance(RunState::Running, running()), 40, clear_away.clone()),
            ("there is still time", Some(&pod), instance(RunState::Running, running()), 39, stop_within(5)),
            ("nobody heeds the order and nobody wants it", None, instance(RunState::Running, running()), 0, clear_away),
        ];
        for (name, pod, instance, after, expected) in rows {
            let ordered_grace = Some(Duration::from_secs(5));
            let facts = Facts { ordered_grace, now: at(after), ..facts(pod, Some(&instance), &node) };
            assert_eq!(decide(facts).act, expected, "{name}");
        }
    }

    #[test]
    fn a_pod_that_may_not_run_for_ever_is_waited_for_and_stopped() {
        let limited = |started: &str| {
            pod(json!({"spec": {"activeDeadlineSeconds": 60}, "status": {"phase": "Running", "startTime": started}}))
        };
        let (node, instance) = (node(), instance(RunState::Running, running()));
        let early = limited("2026-03-01T11:59:30Z");
        let act = decide(facts(Some(&early), Some(&instance), &node)).act;
        assert_eq!(act, Act::Wait { until: Some(at(30)) });
        let late = limited("2026-03-01T11:59:00Z");
        let decision = decide(facts(Some(&late), Some(&instance), &node));
        assert_eq!(decision.act, stop_within(30));
        let status = decision.status.unwrap();
        assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some("DeadlineExceeded")));
    }

    #[test]
    fn a_pod_that_does_not_belong_here_fails() {
        let rows = [
            ("another label", json!({"spec": {"nodeSelector": {"disk": "ssd"}}}), Some("NodeAffinity")),
            ("a label of ours", json!({"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}}}), None),
            ("another system", json!({"spec": {"os": {"name": "windows"}}}), Some("PodOSNotSupported")),
            ("our system", json!({"spec": {"os": {"name": "linux"}}}), None),
        ];
        for (name, over, reason) in rows {
            let (pod, node) = (pod(over), node());
            let decision = decide(facts(Some(&pod), None, &node));
            let expected = if reason.is_some() { nothing() } else { Act::Create };
            assert_eq!(decision.act, expected, "{name}");
            assert_eq!(decision.status.unwrap().reason.as_deref(), reason, "{name}");
        }
    }

    #[test]
    fn what_holds_a_pod_up_is_told_and_it_is_tried_again() {
        let hold = Hold {
            container: Some("web".to_owned()),
            reason: "CreateContainerConfigError".to_owned(),
            message: "secret \"login\" not found".to_owned(),
        };
        let (pod, node) = (pod(json!({})), node());
        let decision = decide(Facts { hold: Some(&hold), ..facts(Some(&pod), None, &node) });
        assert_eq!(decision.act, Act::Create);
        let waiting = decision.status.unwrap().container_statuses.unwrap()[0].state.clone().unwrap().waiting.unwrap();
        assert_eq!(waiting.reason.as_deref(), Some("CreateContainerConfigError"));
        assert_eq!(waiting.message.as_deref(), Some("secret \"login\" not found"));
    }

    /// Walks from any beginning as one who dies after every step and knows nothing afterwards: it always comes to rest, and
    /// a Pod that is to go is gone in the end.
    #[test]
    fn whoever_dies_after_each_step_still_comes_to_an_end() {
        for (is_deleted, runs) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut a_pod = Some(pod(if is_deleted { deleted(5) } else { json!({}) }));
            let mut an_instance = runs.then(|| instance(RunState::Running, running()));
            let mut steps = 0;
            let end = loop {
                let node = node();
                let decision = decide(facts(a_pod.as_ref(), an_instance.as_ref(), &node));
                if let (Some(pod), Some(status)) = (&mut a_pod, decision.status) {
                    pod.status = Some(*status);
                }
                match decision.act {
                    Act::Create => an_instance = Some(instance(RunState::Running, running())),
                    Act::Start { .. } => an_instance.as_mut().unwrap().run = RunState::Running,
                    Act::Stop { .. } => an_instance = Some(instance(RunState::Stopped, ended(143))),
                    Act::DeleteInstance { .. } => an_instance = None,
                    Act::RemovePod => a_pod = None,
                    rest @ (Act::Wait { .. } | Act::Forget) => break rest,
                }
                steps += 1;
                assert!(steps < 10, "it goes round in circles");
            };
            assert_eq!(end, if is_deleted { Act::Forget } else { nothing() });
            assert_eq!(an_instance.is_some(), !is_deleted);
            let again = decide(facts(a_pod.as_ref(), an_instance.as_ref(), &node()));
            assert_eq!(again.status, None, "what was written is not written again");
        }
    }
}
