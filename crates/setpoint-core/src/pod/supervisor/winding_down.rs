//! The end of a Pod: the main containers first and together, then the sidecars, the last one first.

use jiff::Timestamp;

use super::container::Activity;
use super::{Action, Supervisor};
use crate::pod::state::NEVER_STARTED;
use crate::pod::{Exit, Phase, Role};

impl Supervisor {
    /// Ends what is to end, in its turn. What only waited to run has ended without it.
    pub(super) fn wind_down(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        if !self.is_over() {
            return;
        }
        for index in 0..self.containers.len() {
            self.give_up(index, now);
        }
        if let Some(deadline) = self.stop_at.filter(|deadline| *deadline <= now) {
            for index in 0..self.containers.len() {
                self.stop(index, deadline, now, actions);
            }
            return;
        }
        let deadline = self.stop_at.unwrap_or(now + self.plan.grace);
        let (sidecars, others): (Vec<usize>, Vec<usize>) = (0..self.containers.len())
            .filter(|index| !matches!(self.containers[*index].activity, Activity::Ended))
            .partition(|index| self.plan.containers[*index].role == Role::Sidecar);
        if others.is_empty() {
            if let Some(last) = sidecars.last() {
                self.stop(*last, deadline, now, actions);
            }
        } else {
            for index in others {
                self.stop(index, deadline, now, actions);
            }
        }
    }

    /// Whether nothing is to start any more: a stop was asked for, an init container failed for good, or all main
    /// containers have ended for good.
    pub(super) fn is_over(&self) -> bool {
        let mut containers = self.plan.containers.iter().zip(&self.state.containers);
        let init_failed = containers.any(
            |(plan, state)| matches!(&state.phase, Phase::Ended(exit) if plan.role == Role::Init && exit.code != 0),
        );
        let mut mains = self.plan.containers.iter().zip(&self.containers).filter(|(plan, _)| plan.role == Role::Main);
        let mains_ended = mains.all(|(_, container)| matches!(container.activity, Activity::Ended));
        self.stop_at.is_some() || init_failed || mains_ended
    }

    /// What does not run will not.
    fn give_up(&mut self, index: usize, now: Timestamp) {
        if !matches!(self.containers[index].activity, Activity::Pending | Activity::BackOff { .. }) {
            return;
        }
        self.containers[index].activity = Activity::Ended;
        let state = &mut self.state.containers[index];
        let never = || Exit {
            code: 137,
            signal: None,
            reason: NEVER_STARTED.to_owned(),
            message: "the Pod ended before the container's turn had come".to_owned(),
            started_at: None,
            finished_at: now,
        };
        state.phase = Phase::Ended(state.last_exit.take().unwrap_or_else(never));
    }

    fn stop(&mut self, index: usize, deadline: Timestamp, now: Timestamp, actions: &mut Vec<Action>) {
        let message = format!("Stopping container {}", self.plan.containers[index].name);
        self.end(index, deadline, message, now, actions);
    }
}
