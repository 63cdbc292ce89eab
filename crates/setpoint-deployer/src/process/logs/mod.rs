//! What containers wrote, as their shims have kept it: found, cut to what is wanted, and followed as it grows.

mod entry;
mod files;
mod follow;
mod printer;
mod reader;
mod tail;

use std::sync::Arc;

use setpoint_core::pod::{ContainerState, Phase, PodState};

use self::follow::Following;
pub(super) use self::follow::LogWatch;
use self::reader::LogReader;
use super::provider::{Place, ProcessProvider, fault};
use super::verbs::blocking;
use crate::error::{Error, Fault, Operation};
use crate::provider::Answer;
use crate::session::{LogOptions, LogStream, Logs};

impl Logs for ProcessProvider {
    fn read<'a>(&'a self, id: &'a str, container: &'a str, options: LogOptions) -> Answer<'a, LogStream> {
        Box::pin(async move {
            let place = self.place.clone();
            let refused = |fault: Fault, why: String| Error::provider(Operation::Logs, id, fault, why);
            let found = place.ours(Operation::Logs, id)?.ok_or_else(|| refused(Fault::NotFound, String::new()))?;
            let state = found.state.as_ref().and_then(|state: &PodState| state.container(container));
            let run = match state {
                Some(state) => wanted_run(state, options.previous),
                None => Err("is not available".to_owned()),
            };
            let run = run.map_err(|why| {
                let subject = if why.ends_with("not found") { "previous terminated container" } else { "container" };
                refused(Fault::Refused, format!("{subject} {container:?} in pod {:?} {why}", &*found.pod_name))
            })?;
            let folder = place.folder(id).join("logs").join(container);
            let follows = options.follow && !options.previous;
            let opened = {
                let folder = folder.clone();
                move || LogReader::open(&folder, run, options)
            };
            let failed = |error: std::io::Error| fault(Operation::Logs, id, &error);
            // Watched before it is read: what is written meanwhile is seen.
            let following = match follows {
                true => Some(Following::new(&place, id, container, run, &folder).map_err(failed)?),
                false => None,
            };
            let id = id.to_owned();
            let reader = blocking(move || opened().map_err(|error| fault(Operation::Logs, &id, &error))).await?;
            Ok(reader.stream(following))
        })
    }
}

/// Which run of a container is meant, or why there is none. As on Kubernetes, a container that waits to be started again
/// shows what its last run wrote, and that run is also the previous one.
fn wanted_run(container: &ContainerState, previous: bool) -> Result<u32, String> {
    match (&container.phase, &container.last_exit) {
        (_, None) if previous => Err("not found".to_owned()),
        (Phase::Running { .. } | Phase::Ended(_), _) if previous => Ok(container.restarts.saturating_sub(1)),
        // The next run has begun to start, and has written nothing yet.
        (Phase::Waiting { reason, .. }, Some(_)) if reason == "ContainerCreating" => {
            Ok(container.restarts.saturating_sub(1))
        }
        (Phase::Waiting { .. }, Some(_)) => Ok(container.restarts),
        (Phase::Waiting { reason, .. }, None) => Err(format!("is waiting to start: {reason}")),
        (Phase::Running { .. } | Phase::Ended(_), _) => Ok(container.restarts),
    }
}

/// Whether a run writes nothing any more.
fn is_over(place: &Arc<Place>, id: &str, container: &str, run: u32) -> bool {
    let Ok(Some(found)) = place.ours(Operation::Logs, id) else { return true };
    let state = found.state.as_ref().and_then(|state| state.container(container));
    found.shim.is_none() || !state.is_some_and(|state| state.restarts == run && state.is_running())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use setpoint_core::pod::{Exit, Role};

    use super::*;

    #[test]
    fn the_run_is_the_one_that_kubernetes_would_show() {
        let exit = || Exit {
            code: 1,
            signal: None,
            reason: "Error".to_owned(),
            message: String::new(),
            started_at: None,
            finished_at: Timestamp::UNIX_EPOCH,
        };
        let running = || Phase::Running { started_at: Timestamp::UNIX_EPOCH };
        let waiting = |reason: &str| Phase::Waiting { reason: reason.to_owned(), message: String::new() };
        let no_previous = || Err("not found".to_owned());
        let rows = [
            ("its first run", running(), None, 0, Ok(0), no_previous()),
            ("its third run", running(), Some(exit()), 2, Ok(2), Ok(1)),
            ("it has ended", Phase::Ended(exit()), None, 0, Ok(0), no_previous()),
            ("it has ended after another run", Phase::Ended(exit()), Some(exit()), 1, Ok(1), Ok(0)),
            ("it backs off", waiting("CrashLoopBackOff"), Some(exit()), 1, Ok(1), Ok(1)),
            ("it is being started again", waiting("ContainerCreating"), Some(exit()), 2, Ok(1), Ok(1)),
            (
                "it has not run",
                waiting("PodInitializing"),
                None,
                0,
                Err("is waiting to start: PodInitializing".to_owned()),
                no_previous(),
            ),
        ];
        for (name, phase, last_exit, restarts, present, previous) in rows {
            let waiting = ContainerState::waiting("web", Role::Main, "");
            let container = ContainerState { phase, last_exit, restarts, ..waiting };
            assert_eq!(wanted_run(&container, false), present, "{name}");
            assert_eq!(wanted_run(&container, true), previous, "{name}, previous");
        }
    }
}
