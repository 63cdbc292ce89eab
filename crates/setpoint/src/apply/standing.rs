//! How far one Machine is, from what is known of it.

use serde_json::Value;
use setpoint_api::condition::{Condition, ConditionStatus};
use setpoint_api::machine::Machine;

/// What is said of a Machine whose status is of what it was before.
pub(crate) const NOT_LOOKED_AT: &str = "not looked at since it was changed";

/// What a Machine is followed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Aim {
    /// This generation of it, or a later one, is carried out.
    Synced { generation: i64 },
    /// What was written is carried out: just this generation of this object, and nothing that others wrote since.
    Written { uid: String, generation: i64 },
    /// It is gone.
    Gone,
}

impl Aim {
    /// That just this is carried out, by the metadata that the server answered a write with.
    pub(super) fn of(metadata: &Value) -> Aim {
        Aim::Written {
            uid: metadata["uid"].as_str().unwrap_or_default().to_owned(),
            generation: metadata["generation"].as_i64().unwrap_or_default(),
        }
    }
}

/// How far a Machine is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// As desired.
    Done(String),
    /// Something is under way.
    Moving(String),
    /// It waits for people, a budget, or another.
    Waiting(String),
    /// It cannot be as it is written, or somebody rejected it.
    Refused(String),
    /// It is to be something else by now: somebody changed or deleted it.
    Overtaken(String),
}

impl Standing {
    pub(crate) fn message(&self) -> &str {
        match self {
            Standing::Done(text)
            | Standing::Moving(text)
            | Standing::Waiting(text)
            | Standing::Refused(text)
            | Standing::Overtaken(text) => text,
        }
    }

    /// How far it is, in words for people.
    pub(super) fn told(&self) -> String {
        match self {
            Standing::Done(text) | Standing::Moving(text) | Standing::Overtaken(text) => text.clone(),
            Standing::Waiting(text) => format!("waits: {text}"),
            Standing::Refused(text) => format!("refused: {text}"),
        }
    }

    /// The state in one word, for programs.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Standing::Done(_) => "done",
            Standing::Moving(_) => "moving",
            Standing::Waiting(_) => "waiting",
            Standing::Refused(_) => "refused",
            Standing::Overtaken(_) => "overtaken",
        }
    }
}

/// How far a Machine is, from what is known of it.
pub(super) fn standing(machine: Option<&Machine>, aim: &Aim) -> Standing {
    if let Some(what) = overtaken(machine, aim) {
        return Standing::Overtaken(what.to_owned());
    }
    let Some(machine) = machine else {
        return match aim {
            Aim::Gone => Standing::Done("deleted".to_owned()),
            Aim::Synced { .. } | Aim::Written { .. } => Standing::Moving("not there yet".to_owned()),
        };
    };
    let status = machine.status.as_ref();
    let leaves = machine.metadata.deletion_timestamp.is_some();
    let at = status.and_then(|status| status.observed_generation).unwrap_or_default();
    let needed = match aim {
        Aim::Synced { generation } | Aim::Written { generation, .. } => *generation,
        Aim::Gone => machine.metadata.generation.unwrap_or_default(),
    };
    let synced = status.and_then(|status| condition(&status.conditions, "Synced"));
    let told = |condition: &Condition| {
        let reason = condition.reason.clone().unwrap_or_default();
        condition.message.clone().filter(|message| !message.is_empty()).unwrap_or(reason)
    };
    let (Some(status), Some(synced)) = (status, synced) else {
        return Standing::Moving("not looked at yet".to_owned());
    };
    if at < needed {
        return Standing::Moving(NOT_LOOKED_AT.to_owned());
    }
    if let Some(intent) = status.intents.first() {
        return Standing::Moving(format!("{} under way", format!("{:?}", intent.action).to_lowercase()));
    }
    match (synced.status, synced.reason.as_deref(), aim) {
        (ConditionStatus::True, _, Aim::Synced { .. } | Aim::Written { .. }) if !leaves => {
            let guest = status.provider_id.as_deref().map(|id| format!(", guest {id}")).unwrap_or_default();
            Standing::Done(format!("{}{guest}", status.run.as_deref().unwrap_or("as desired")))
        }
        (ConditionStatus::False, Some("Refused"), _) => Standing::Refused(told(synced)),
        (_, Some("Waiting" | "OverLimit" | "EnvironmentMissing" | "EnvironmentLeaving"), _) => {
            Standing::Waiting(told(synced))
        }
        (ConditionStatus::True, _, _) => Standing::Moving("being deleted".to_owned()),
        _ => Standing::Moving(told(synced)),
    }
}

/// What became of a Machine that is no longer as it was written here. It was there when it was written, so what is not is
/// gone.
fn overtaken(machine: Option<&Machine>, aim: &Aim) -> Option<&'static str> {
    let Aim::Written { uid, generation } = aim else { return None };
    let Some(metadata) = machine.map(|machine| &machine.metadata) else {
        return Some("was deleted by somebody else since");
    };
    match () {
        () if metadata.uid.as_ref() != Some(uid) => Some("was deleted and made anew by somebody else since"),
        () if metadata.deletion_timestamp.is_some() => Some("is being deleted"),
        () if metadata.generation > Some(*generation) => Some("was changed by somebody else since"),
        () => None,
    }
}

/// Whether a Machine was changed since it was looked at. Of one that was never, its conditions say so.
pub(crate) fn is_behind(machine: &Machine) -> bool {
    let observed = machine.status.as_ref().and_then(|status| status.observed_generation);
    observed.is_some_and(|observed| machine.metadata.generation > Some(observed))
}

pub(crate) fn condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine(generation: i64, status: Value) -> Machine {
        let object = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "generation": generation},
            "spec": {"environment": "lab"}, "status": status,
        });
        serde_json::from_value(object).expect("a Machine")
    }

    #[test]
    fn a_machine_is_followed_until_it_can_go_no_further() {
        let synced = |status: &str, reason: &str, message: &str| {
            json!({
                "observedGeneration": 2, "run": "running", "providerId": "sim-1",
                "conditions": [{"type": "Synced", "status": status, "reason": reason, "message": message}],
            })
        };
        let mut acting = synced("False", "Waiting", "for the guest");
        acting["intents"] = json!([{
            "id": "i", "action": "Create", "digest": "d", "startedAt": "2026-01-01T00:00:00Z", "epoch": 1,
        }]);
        let (now, gone) = (&Aim::Synced { generation: 2 }, &Aim::Gone);
        let rows = [
            ("not there", None, now, Standing::Moving("not there yet".into())),
            ("gone as it should be", None, gone, Standing::Done("deleted".into())),
            ("new", Some(machine(1, json!({}))), now, Standing::Moving("not looked at yet".into())),
            (
                "an older generation was carried out",
                Some(machine(3, synced("True", "", ""))),
                &Aim::Synced { generation: 3 },
                Standing::Moving("not looked at since it was changed".into()),
            ),
            (
                "as desired",
                Some(machine(2, synced("True", "", ""))),
                now,
                Standing::Done("running, guest sim-1".into()),
            ),
            ("acting", Some(machine(2, acting)), now, Standing::Moving("create under way".into())),
            (
                "waits",
                Some(machine(2, synced("False", "Waiting", "for 1 person"))),
                now,
                Standing::Waiting("for 1 person".into()),
            ),
            (
                "its environment is not there, which waiting here does not change",
                Some(machine(2, synced("Unknown", "EnvironmentMissing", "there is no environment lab"))),
                now,
                Standing::Waiting("there is no environment lab".into()),
            ),
            (
                "refused",
                Some(machine(2, synced("False", "Refused", "spec.disk: it can only grow"))),
                now,
                Standing::Refused("spec.disk: it can only grow".into()),
            ),
            (
                "the provider is down",
                Some(machine(2, synced("False", "ProviderError", "no answer"))),
                now,
                Standing::Moving("no answer".into()),
            ),
            (
                "a deletion that waits",
                Some(machine(2, synced("False", "Waiting", "for 1 person"))),
                gone,
                Standing::Waiting("for 1 person".into()),
            ),
            ("yet to go", Some(machine(2, synced("True", "", ""))), gone, Standing::Moving("being deleted".into())),
        ];
        for (row, machine, aim, expected) in rows {
            assert_eq!(standing(machine.as_ref(), aim), expected, "{row}");
        }
    }

    #[test]
    fn only_what_was_written_is_told_as_applied() {
        let written = Aim::Written { uid: "u".to_owned(), generation: 2 };
        let as_desired = |generation: i64, observed: i64| {
            let synced = json!({"type": "Synced", "status": "True"});
            machine(generation, json!({"observedGeneration": observed, "run": "running", "conditions": [synced]}))
        };
        let another = |mut machine: Machine| {
            machine.metadata.uid = Some("another".to_owned());
            machine
        };
        let leaving = |mut machine: Machine| {
            machine.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).ok();
            machine
        };
        let overtaken = |text: &str| Standing::Overtaken(text.to_owned());
        let rows = [
            ("it is carried out", Some(as_desired(2, 2)), Standing::Done("running".to_owned())),
            (
                "it is yet to be looked at",
                Some(as_desired(2, 1)),
                Standing::Moving("not looked at since it was changed".to_owned()),
            ),
            (
                "somebody else changed it, and that is carried out",
                Some(as_desired(3, 3)),
                overtaken("was changed by somebody else since"),
            ),
            (
                "somebody else changed it just now",
                Some(as_desired(3, 2)),
                overtaken("was changed by somebody else since"),
            ),
            ("somebody else deletes it", Some(leaving(as_desired(3, 2))), overtaken("is being deleted")),
            ("somebody else deleted it", None, overtaken("was deleted by somebody else since")),
            (
                "another has its name",
                Some(another(as_desired(2, 2))),
                overtaken("was deleted and made anew by somebody else since"),
            ),
        ];
        for (row, machine, expected) in rows {
            assert_eq!(standing(machine.as_ref(), &written), expected, "{row}");
        }
    }
}
