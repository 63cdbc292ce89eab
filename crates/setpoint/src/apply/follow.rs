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
use setpoint_api::machine::Machine;
use setpoint_core::count::counted_are;
use tokio::time::Instant;

use super::progress::Progress;
use super::standing::{Aim, Standing, standing};
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
        let left = |what: Rest| {
            let left = self.standings.iter().filter(move |(_, (aim, standing))| Rest::of(aim, standing) == Some(what));
            left.map(|(followed, (_, standing))| format!("{followed} {}", standing.told())).collect::<Vec<_>>()
        };
        let words = |left: Vec<String>, what: &str| match left.as_slice() {
            [] => String::new(),
            [one] => format!("; {} {what}: {}", counted_are(1, "Machine"), inert(one)),
            [first, ..] => format!("; {} {what}, of which {}", counted_are(left.len(), "Machine"), inert(first)),
        };
        let leaving: String =
            self.leaving.iter().map(|title| format!("; {} is still being deleted", inert(title))).collect();
        words(left(Rest::Overtaken), "not what was written")
            + &words(left(Rest::Undone), "not as desired yet")
            + &words(left(Rest::There), "still there")
            + &leaving
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = (&Followed, &str)> {
        self.standings.iter().filter_map(|(followed, (_, standing))| match standing {
            Standing::Waiting(why) | Standing::Moving(why) => Some((followed, why.as_str())),
            Standing::Done(_) | Standing::Refused(_) | Standing::Overtaken(_) => None,
        })
    }

    pub(crate) fn refused(&self) -> impl Iterator<Item = (&Followed, &str)> {
        self.standings.iter().filter_map(|(followed, (_, standing))| match standing {
            Standing::Refused(why) => Some((followed, why.as_str())),
            _ => None,
        })
    }

    /// What is refused does not come about by waiting, nor does what is to be something else by now.
    pub(crate) fn no_failures(&self) -> Result<()> {
        for (followed, (_, standing)) in &self.standings {
            let (followed, why) = (inert(&followed.to_string()), inert(standing.message()));
            match standing {
                Standing::Refused(_) => {
                    bail!("{followed} is refused: {why}; write it otherwise, or have who rejected it approve it")
                }
                Standing::Overtaken(_) => bail!("{followed} {why}; `setpoint plan` shows what differs now"),
                Standing::Done(_) | Standing::Moving(_) | Standing::Waiting(_) => {}
            }
        }
        Ok(())
    }
}

/// In which way a Machine is not where it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Overtaken,
    Undone,
    There,
}

impl Rest {
    fn of(aim: &Aim, standing: &Standing) -> Option<Rest> {
        match (aim, standing) {
            (_, Standing::Done(_)) => None,
            (_, Standing::Overtaken(_)) => Some(Rest::Overtaken),
            (Aim::Gone, _) => Some(Rest::There),
            (Aim::Synced { .. } | Aim::Written { .. }, _) => Some(Rest::Undone),
        }
    }
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
                true => standing(self.machines.get(followed), aim),
                false => Standing::Moving("not looked at yet".to_owned()),
            };
            let again = match &standing {
                Standing::Done(_) | Standing::Refused(_) | Standing::Overtaken(_) => None,
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
            followup.standings.insert(followed.clone(), (aim.clone(), standing));
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

    #[test]
    fn it_is_done_only_when_every_machine_is() {
        let text = String::new;
        let rows = [
            ("nothing was followed", vec![], true),
            ("all are done", vec![Standing::Done(text()), Standing::Done(text())], true),
            ("one moves", vec![Standing::Done(text()), Standing::Moving(text())], false),
            ("one waits", vec![Standing::Waiting(text()), Standing::Done(text())], false),
            ("one was rejected", vec![Standing::Done(text()), Standing::Refused(text())], false),
            ("somebody else changed one", vec![Standing::Done(text()), Standing::Overtaken(text())], false),
        ];
        for (row, standings, expected) in rows {
            let named = standings.into_iter().enumerate().map(|(number, standing)| {
                (Followed { namespace: "shop".to_owned(), name: number.to_string() }, (Aim::Gone, standing))
            });
            assert_eq!(Followup { standings: named.collect(), ..Followup::default() }.is_done(), expected, "{row}");
        }
    }

    #[test]
    fn what_does_not_come_about_by_waiting_is_an_error() {
        let refused = "shop/web is refused: it can only grow; write it otherwise, or have who rejected it approve it";
        let changed = "shop/web was changed by somebody else since; `setpoint plan` shows what differs now";
        let rows = [
            (Standing::Done("running".into()), None),
            (Standing::Moving("create under way".into()), None),
            (Standing::Waiting("for 1 person".into()), None),
            (Standing::Refused("it can only grow".into()), Some(refused)),
            (Standing::Overtaken("was changed by somebody else since".into()), Some(changed)),
        ];
        for (standing, expected) in rows {
            let followed = Followed { namespace: "shop".to_owned(), name: "web".to_owned() };
            let standings = BTreeMap::from([(followed, (Aim::Synced { generation: 1 }, standing))]);
            let error = Followup { standings, ..Followup::default() }.no_failures().err();
            assert_eq!(error.map(|error| error.to_string()).as_deref(), expected);
        }
    }

    #[test]
    fn what_is_left_is_told_by_what_was_wanted() {
        let synced = || Aim::Synced { generation: 1 };
        let (done, waits) = (Standing::Done("running".into()), Standing::Waiting("for 1 person".into()));
        let moves = Standing::Moving("create under way".into());
        let rows = [
            ("nothing was followed", vec![], ""),
            ("all is done", vec![(synced(), done.clone()), (Aim::Gone, done.clone())], ""),
            (
                "one is yet to come",
                vec![(synced(), moves.clone()), (synced(), done)],
                "; 1 Machine is not as desired yet: shop/0 create under way",
            ),
            (
                "somebody else wrote one meanwhile",
                vec![
                    (synced(), Standing::Overtaken("was changed by somebody else since".into())),
                    (synced(), moves.clone()),
                ],
                "; 1 Machine is not what was written: shop/0 was changed by somebody else since; \
                 1 Machine is not as desired yet: shop/1 create under way",
            ),
            (
                "one has yet to go",
                vec![(Aim::Gone, waits.clone())],
                "; 1 Machine is still there: shop/0 waits: for 1 person",
            ),
            (
                "some of each",
                vec![(Aim::Gone, waits.clone()), (synced(), moves), (Aim::Gone, waits)],
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
