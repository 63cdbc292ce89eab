//! Follows Machines until each is as desired, gone, or can go no further by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use anyhow::{Result, bail};
use futures::StreamExt as _;
use futures::stream::select_all;
use kube::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::{Value, json};
use setpoint_api::condition::{Condition, ConditionStatus};
use setpoint_api::machine::Machine;
use tokio::time::Instant;

use super::progress::Progress;
use crate::client::words;
use crate::session::Session;
use crate::terminal::inert;

/// For how long something must have waited before it is said to: what was just approved goes on in a moment.
const PATIENCE: Duration = Duration::from_secs(3);
/// For how long anything is followed at most: a clock cannot tell every time that a number can.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// A Machine that is followed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Followed {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl fmt::Display for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What a Machine is followed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aim {
    /// This generation of it, or a later one, is carried out.
    Synced { generation: i64 },
    /// It is gone.
    Gone,
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
}

impl Standing {
    pub(crate) fn message(&self) -> &str {
        let (Standing::Done(text) | Standing::Moving(text) | Standing::Waiting(text) | Standing::Refused(text)) = self;
        text
    }

    /// How far it is, in words for people.
    fn told(&self) -> String {
        match self {
            Standing::Done(text) | Standing::Moving(text) => text.clone(),
            Standing::Waiting(text) => format!("waits: {text}"),
            Standing::Refused(text) => format!("refused: {text}"),
        }
    }

    /// The state in one word, for programs.
    fn word(&self) -> &'static str {
        match self {
            Standing::Done(_) => "done",
            Standing::Moving(_) => "moving",
            Standing::Waiting(_) => "waiting",
            Standing::Refused(_) => "refused",
        }
    }
}

/// What became of everything that was followed.
#[derive(Debug, Default)]
pub(crate) struct Followup {
    pub(crate) standings: BTreeMap<Followed, (Aim, Standing)>,
    /// What Machines stood on and was deleted after them, and is still there.
    pub(crate) leaving: Vec<String>,
}

impl Followup {
    /// Whether every Machine is as desired, or gone, and with the last what they stood on.
    pub(crate) fn is_done(&self) -> bool {
        let is_done = |(_, standing): &(Aim, Standing)| matches!(standing, Standing::Done(_));
        self.standings.values().all(is_done) && self.leaving.is_empty()
    }

    /// Whether a Machine is as desired, or gone.
    pub(crate) fn has_done(&self, namespace: &str, name: &str) -> bool {
        let followed = Followed { namespace: namespace.to_owned(), name: name.to_owned() };
        matches!(self.standings.get(&followed), Some((_, Standing::Done(_))))
    }

    /// For programs: each Machine, and how far it is.
    pub(crate) fn data(&self) -> Value {
        let machines = self.standings.iter().map(|(followed, (_, standing))| {
            let Followed { namespace, name } = followed;
            json!({"namespace": namespace, "name": name, "state": standing.word(), "message": standing.message()})
        });
        machines.collect()
    }

    /// For people: each Machine, and how far it is.
    pub(crate) fn lines(&self) -> String {
        let line = |(followed, (_, standing)): (&Followed, &(Aim, Standing))| {
            inert(&format!("{followed}: {}", standing.told())) + "\n"
        };
        self.standings.iter().map(line).collect()
    }

    /// How many are not where they should be, with the first of each kind: `; 1 Machine is still there: shop/db waits: …`.
    pub(crate) fn rest(&self) -> String {
        let left = |gone: bool| {
            let left = self.standings.iter().filter(move |(_, (aim, standing))| {
                (*aim == Aim::Gone) == gone && !matches!(standing, Standing::Done(_))
            });
            left.map(|(followed, (_, standing))| format!("{followed} {}", standing.told())).collect::<Vec<_>>()
        };
        let words = |left: Vec<String>, what: &str| match left.as_slice() {
            [] => String::new(),
            [one] => format!("; 1 Machine is {what}: {}", inert(one)),
            [first, ..] => format!("; {} Machines are {what}, of which {}", left.len(), inert(first)),
        };
        let leaving: String =
            self.leaving.iter().map(|title| format!("; {} is still being deleted", inert(title))).collect();
        words(left(false), "not as desired yet") + &words(left(true), "still there") + &leaving
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = (&Followed, &str)> {
        self.standings.iter().filter_map(|(followed, (_, standing))| match standing {
            Standing::Waiting(why) | Standing::Moving(why) => Some((followed, why.as_str())),
            Standing::Done(_) | Standing::Refused(_) => None,
        })
    }

    pub(crate) fn refused(&self) -> impl Iterator<Item = (&Followed, &str)> {
        self.standings.iter().filter_map(|(followed, (_, standing))| match standing {
            Standing::Refused(why) => Some((followed, why.as_str())),
            _ => None,
        })
    }

    /// What is refused does not come about by waiting.
    pub(crate) fn no_refusals(&self) -> Result<()> {
        match self.refused().next() {
            Some((followed, why)) => bail!(
                "{} is refused: {}; write it otherwise, or have who rejected it approve it",
                inert(&followed.to_string()),
                inert(why)
            ),
            None => Ok(()),
        }
    }
}

/// How far a Machine is, from what is known of it.
pub(crate) fn standing(machine: Option<&Machine>, aim: Aim) -> Standing {
    let Some(machine) = machine else {
        return match aim {
            Aim::Gone => Standing::Done("deleted".to_owned()),
            Aim::Synced { .. } => Standing::Moving("not there yet".to_owned()),
        };
    };
    let status = machine.status.as_ref();
    let leaves = machine.metadata.deletion_timestamp.is_some();
    let at = status.and_then(|status| status.observed_generation).unwrap_or_default();
    let needed = match aim {
        Aim::Synced { generation } => generation,
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
        return Standing::Moving("not looked at since it was changed".to_owned());
    }
    if let Some(intent) = status.intents.first() {
        return Standing::Moving(format!("{} under way", format!("{:?}", intent.action).to_lowercase()));
    }
    match (synced.status, synced.reason.as_deref(), aim) {
        (ConditionStatus::True, _, Aim::Synced { .. }) if !leaves => {
            let guest = status.provider_id.as_deref().map(|id| format!(", guest {id}")).unwrap_or_default();
            Standing::Done(format!("{}{guest}", status.run.as_deref().unwrap_or("as desired")))
        }
        (ConditionStatus::False, Some("Refused"), _) => Standing::Refused(told(synced)),
        (_, Some("Waiting" | "OverLimit" | "EnvironmentMissing"), _) => Standing::Waiting(told(synced)),
        (ConditionStatus::True, _, _) => Standing::Moving("being deleted".to_owned()),
        _ => Standing::Moving(told(synced)),
    }
}

pub(crate) fn condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Follows until nothing moves by itself any more, or until the time is over.
pub(crate) async fn follow(session: &Session, aims: BTreeMap<Followed, Aim>, within: Duration) -> Result<Followup> {
    let namespaces: BTreeSet<&str> = aims.keys().map(|followed| followed.namespace.as_str()).collect();
    let streams = namespaces.into_iter().map(|namespace| {
        let machines: Api<Machine> = Api::namespaced(session.server.client.clone(), namespace);
        let namespace = namespace.to_owned();
        let events = watcher(machines, watcher::Config::default()).default_backoff();
        events.map(move |event| (namespace.clone(), event)).boxed()
    });
    let mut events = select_all(streams);
    let mut world = World { aims, machines: BTreeMap::new(), listed: BTreeSet::new(), stuck: BTreeMap::new() };
    let (mut progress, deadline) = (Progress::new(), Instant::now() + within.min(LONGEST));
    loop {
        let (followup, next) = world.look(&mut progress, Instant::now());
        let Some(next) = next.filter(|_| Instant::now() < deadline) else { return Ok(followup) };
        tokio::select! {
            event = events.next() => match event {
                Some((namespace, Ok(event))) => world.take(&namespace, event),
                Some((namespace, Err(error))) => {
                    // A watch that broke is begun again by itself, one that may not be had is not.
                    if let Some(why) = forbidden(&error) {
                        bail!("the Machines in namespace {} cannot be followed: {why}", inert(&namespace));
                    }
                }
                None => return Ok(followup),
            },
            () = tokio::time::sleep_until(next.min(deadline)) => {}
        }
    }
}

/// Why Machines may not be watched, in the server's words.
fn forbidden(error: &watcher::Error) -> Option<String> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
            if status.code == 403 =>
        {
            Some(words(status))
        }
        _ => None,
    }
}

/// What is known of the Machines that are followed.
struct World {
    aims: BTreeMap<Followed, Aim>,
    machines: BTreeMap<Followed, Machine>,
    /// The namespaces whose Machines are all known.
    listed: BTreeSet<String>,
    /// Since when something waits.
    stuck: BTreeMap<Followed, Instant>,
}

impl World {
    fn take(&mut self, namespace: &str, event: Event<Machine>) {
        match event {
            Event::Init => {
                // Until all are told again, none is known to be gone.
                self.machines.retain(|followed, _| followed.namespace != namespace);
                self.listed.remove(namespace);
            }
            Event::InitDone => {
                self.listed.insert(namespace.to_owned());
            }
            Event::InitApply(machine) | Event::Apply(machine) => {
                let followed = followed(&machine);
                if self.aims.contains_key(&followed) {
                    self.machines.insert(followed, machine);
                }
            }
            Event::Delete(machine) => {
                self.machines.remove(&followed(&machine));
            }
        }
    }

    /// How far everything is, and when to look again if nothing happens; never, if nothing moves any more.
    fn look(&mut self, progress: &mut Progress, now: Instant) -> (Followup, Option<Instant>) {
        let (mut followup, mut next) = (Followup::default(), None);
        for (followed, aim) in &self.aims {
            let known = self.listed.contains(&followed.namespace);
            let standing = match known {
                true => standing(self.machines.get(followed), *aim),
                false => Standing::Moving("not looked at yet".to_owned()),
            };
            let again = match &standing {
                Standing::Done(_) | Standing::Refused(_) => None,
                Standing::Moving(_) => Some(now + Duration::from_secs(3600)),
                Standing::Waiting(_) => {
                    let since = *self.stuck.entry(followed.clone()).or_insert(now);
                    (now < since + PATIENCE).then(|| since + PATIENCE)
                }
            };
            if !matches!(standing, Standing::Waiting(_)) {
                self.stuck.remove(followed);
            }
            progress.tell(&followed.to_string(), &standing.told(), again.is_none());
            next = [next, again].into_iter().flatten().min();
            followup.standings.insert(followed.clone(), (*aim, standing));
        }
        (followup, next)
    }
}

fn followed(machine: &Machine) -> Followed {
    Followed {
        namespace: machine.metadata.namespace.clone().unwrap_or_default(),
        name: machine.metadata.name.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(generation: i64, status: Value) -> Machine {
        let object = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine",
            "metadata": {"name": "web", "namespace": "shop", "generation": generation},
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
        let (now, gone) = (Aim::Synced { generation: 2 }, Aim::Gone);
        let rows = [
            ("not there", None, now, Standing::Moving("not there yet".into())),
            ("gone as it should be", None, gone, Standing::Done("deleted".into())),
            ("new", Some(machine(1, json!({}))), now, Standing::Moving("not looked at yet".into())),
            (
                "an older generation was carried out",
                Some(machine(3, synced("True", "", ""))),
                Aim::Synced { generation: 3 },
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
    fn it_is_done_only_when_every_machine_is() {
        let text = String::new;
        let rows = [
            ("nothing was followed", vec![], true),
            ("all are done", vec![Standing::Done(text()), Standing::Done(text())], true),
            ("one moves", vec![Standing::Done(text()), Standing::Moving(text())], false),
            ("one waits", vec![Standing::Waiting(text()), Standing::Done(text())], false),
            ("one was rejected", vec![Standing::Done(text()), Standing::Refused(text())], false),
        ];
        for (row, standings, expected) in rows {
            let named = standings.into_iter().enumerate().map(|(number, standing)| {
                (Followed { namespace: "shop".to_owned(), name: number.to_string() }, (Aim::Gone, standing))
            });
            assert_eq!(Followup { standings: named.collect(), ..Followup::default() }.is_done(), expected, "{row}");
        }
    }

    #[test]
    fn what_is_left_is_told_by_what_was_wanted() {
        let synced = Aim::Synced { generation: 1 };
        let (done, waits) = (Standing::Done("running".into()), Standing::Waiting("for 1 person".into()));
        let moves = Standing::Moving("create under way".into());
        let rows = [
            ("nothing was followed", vec![], ""),
            ("all is done", vec![(synced, done.clone()), (Aim::Gone, done.clone())], ""),
            (
                "one is yet to come",
                vec![(synced, moves.clone()), (synced, done)],
                "; 1 Machine is not as desired yet: shop/0 create under way",
            ),
            (
                "one has yet to go",
                vec![(Aim::Gone, waits.clone())],
                "; 1 Machine is still there: shop/0 waits: for 1 person",
            ),
            (
                "some of each",
                vec![(Aim::Gone, waits.clone()), (synced, moves), (Aim::Gone, waits)],
                "; 1 Machine is not as desired yet: shop/1 create under way; \
                 2 Machines are still there, of which shop/0 waits: for 1 person",
            ),
        ];
        for (row, standings, expected) in rows {
            let named = standings.into_iter().enumerate().map(|(number, standing)| {
                (Followed { namespace: "shop".to_owned(), name: number.to_string() }, standing)
            });
            assert_eq!(Followup { standings: named.collect(), ..Followup::default() }.rest(), expected, "{row}");
        }
    }
}
