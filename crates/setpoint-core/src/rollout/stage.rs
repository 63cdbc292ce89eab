//! The stages of a rollout, one after the other, and the way back.

use setpoint_api::app::{Analysis, InconclusivePolicy, PauseReason, Progress, RolloutPhase, RolloutState, Strategy};
use setpoint_api::revision::RevisionPhase;
use setpoint_api::traffic_split::ALL_BPS;

use super::shift::{Course, Pace, Shift, shift};
use super::{Action, Decision, Facts, Sample, Verdict, WaitsOn, heed, judge};

/// One thing to get through.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    /// Get this weight; 0 is to be ready for a preview.
    Weight(u32),
    /// Wait for so many seconds, or for a person.
    Pause(Option<u32>),
    /// Be measured.
    Analysis(Analysis),
}

/// The stages of a rollout. The first revision has nobody to share with, and an undo goes straight.
fn stages(strategy: &Strategy, state: &RolloutState) -> Vec<Stage> {
    let mut stages = Vec::new();
    if state.direct || state.from.is_none() {
        return vec![Stage::Weight(ALL_BPS)];
    }
    if let Some(preview) = &strategy.preview {
        stages.extend([Stage::Weight(0), Stage::Pause(preview.seconds)]);
    }
    for step in &strategy.steps {
        stages.extend(step.weight_bps.map(Stage::Weight));
        stages.extend(step.pause.as_ref().map(|pause| Stage::Pause(pause.seconds)));
        stages.extend(step.analysis.clone().map(Stage::Analysis));
    }
    if stages.last() == Some(&Stage::Weight(ALL_BPS)) {
        stages.pop();
    }
    if !strategy.auto_promote {
        stages.push(Stage::Pause(None));
    }
    stages.push(Stage::Weight(ALL_BPS));
    stages
}

/// The number of the last stage: all traffic.
pub(super) fn last(facts: &Facts<'_>) -> u32 {
    u32::try_from(stages(facts.strategy, facts.state).len() - 1).expect("a strategy has few steps")
}

/// The stage a rollout is in. A strategy that became shorter leaves it in the last.
fn current(facts: &Facts<'_>) -> Stage {
    let mut stages = stages(facts.strategy, facts.state);
    stages.swap_remove((facts.state.stage as usize).min(stages.len() - 1))
}

pub(super) fn waits_for_a_person(facts: &Facts<'_>) -> bool {
    facts.state.phase == RolloutPhase::Progressing && current(facts) == Stage::Pause(None)
}

/// What comes next on the way forward.
pub(super) fn advance(facts: &Facts<'_>) -> Decision {
    let Some(target) = facts.state.target.as_deref() else {
        return facts.wait(WaitsOn::Revision, None, "waits for a revision to roll out".to_owned());
    };
    if let Some(decision) = failure(facts, target).or_else(|| progress(facts, target)) {
        return decision;
    }
    if let Some(drain) = abandoned(facts, target) {
        return facts.act(vec![drain], "an abandoned revision makes room".to_owned());
    }
    match current(facts) {
        Stage::Weight(0) if !can_preview(facts) => {
            let why = format!("{target} is not previewed: with no surge that would take away all that serves");
            leap(facts, 2, why)
        }
        Stage::Weight(weight) => gain(facts, target, facts.granularity.nearest(weight)),
        Stage::Pause(None) => {
            stay(facts, target, WaitsOn::Person, None, "waits for a person: resume, promote or abort".to_owned())
        }
        Stage::Pause(Some(seconds)) => {
            let until = facts.after(facts.state.since, seconds);
            if facts.now >= until {
                return next(facts, format!("paused for {seconds} s"));
            }
            stay(facts, target, WaitsOn::Time, Some(until), format!("pauses until {until}"))
        }
        Stage::Analysis(analysis) => measure(facts, target, &analysis),
    }
}

/// What comes next on the way back.
pub(super) fn retreat(facts: &Facts<'_>) -> Decision {
    let why = facts.state.message.clone().unwrap_or_default();
    let back = facts
        .state
        .from
        .as_deref()
        .filter(|from| facts.revision(from).is_some_and(|revision| revision.phase != RevisionPhase::Archived));
    let Some(from) = back else { return aborted(facts, why) };
    if let Some(decision) = progress(facts, from) {
        return decision;
    }
    let given_up = facts.state.target.as_deref().is_some_and(|target| facts.weight(target) == 0);
    if is_late(facts) && given_up && facts.split.is_some() {
        return aborted(facts, format!("{why}; {from} could not take over, and who served goes on"));
    }
    let deadline = facts.strategy.progress_deadline_seconds;
    let why_now = if is_late(facts) {
        let out = "a new template, an undo or a retry gets out of it";
        format!("{why}: going back to {from} made no progress for {deadline} seconds, and {out}")
    } else {
        why.clone()
    };
    let until = Some(due(facts)).filter(|until| facts.now < *until);
    let course = Course { to: from, weight_bps: ALL_BPS, replicas: facts.replicas, pace: Pace::Eager };
    match shift(facts, course) {
        Shift::There => aborted(facts, why),
        Shift::Act(actions, reason) => Decision { until, ..facts.act(actions, format!("{why_now}: {reason}")) },
        Shift::Ask(split, _) => facts.ask(split, why_now),
        Shift::Wait(on, reason) => facts.wait(on, until, format!("{why_now}: {reason}")),
    }
}

fn aborted(facts: &Facts<'_>, why: String) -> Decision {
    let since = Some(facts.now);
    let state = facts.state.clone();
    facts.remember(RolloutState { phase: RolloutPhase::Aborted, since, progress: None, message: Some(why), ..state })
}

fn abort(facts: &Facts<'_>, why: &str) -> Decision {
    facts.remember(heed::aborting(facts, facts.state.clone(), why))
}

fn next(facts: &Facts<'_>, reason: String) -> Decision {
    leap(facts, 1, reason)
}

/// Leaves so many stages behind.
fn leap(facts: &Facts<'_>, stages: u32, reason: String) -> Decision {
    let (stage, since) = (facts.state.stage.saturating_add(stages), Some(facts.now));
    let state = facts.state.clone();
    facts.remember(RolloutState { stage, since, progress: None, message: Some(reason), ..state })
}

/// What ends a rollout: the target failed after it had been staged for it, the guard fails, or nothing moves any more.
fn failure(facts: &Facts<'_>, target: &str) -> Option<Decision> {
    let state = facts.state;
    let phase = facts.revision(target).map(|revision| revision.phase)?;
    let was_staged = state.progress.as_ref().is_some_and(|progress| rank(progress.phase) > 0);
    if phase == RevisionPhase::Failed && was_staged {
        return Some(abort(facts, &format!("{target} failed to become ready")));
    }
    // A machine that exists once has all traffic or none, also while the stages ask for less.
    let serves_a_part = (1..ALL_BPS).contains(&facts.weight(target));
    let is_tried = serves_a_part || (facts.weight(target) == ALL_BPS && state.stage < last(facts));
    let guard = facts.strategy.guard.as_ref().filter(|_| is_tried)?;
    match verdict(facts, target, guard, jiff::Timestamp::MIN) {
        Verdict::Fail(reason) => Some(abort(facts, &format!("{target} is given up: {reason}"))),
        Verdict::Pass | Verdict::Inconclusive(_) | Verdict::Pending { .. } => None,
    }
}

/// Whether nothing is asked for of what must be seen ready first. That is waited out, without a deadline.
fn cannot_be_proven(facts: &Facts<'_>, target: &str) -> bool {
    facts.replicas == 0 && facts.revision(target).is_some_and(|revision| revision.phase != RevisionPhase::Ready)
}

/// Remembers the farthest that the target has come, for the deadline. What goes up and down is no progress.
fn progress(facts: &Facts<'_>, target: &str) -> Option<Decision> {
    let revision = facts.revision(target)?;
    if cannot_be_proven(facts, target) {
        let forgotten = RolloutState { progress: None, ..facts.state.clone() };
        return facts.state.progress.as_ref().map(|_| facts.remember(forgotten));
    }
    let weight = facts.weight(target);
    let farthest = match &facts.state.progress {
        None => Some((revision.phase, revision.ready, weight)),
        Some(best) => {
            let ahead =
                rank(revision.phase) > rank(best.phase) || revision.ready > best.ready || weight > best.weight_bps;
            let phase = if rank(revision.phase) > rank(best.phase) { revision.phase } else { best.phase };
            ahead.then(|| (phase, revision.ready.max(best.ready), weight.max(best.weight_bps)))
        }
    };
    let (phase, ready, weight_bps) = farthest?;
    let progress = Some(Progress { phase, ready, weight_bps, at: facts.now });
    Some(facts.remember(RolloutState { progress, ..facts.state.clone() }))
}

fn rank(phase: RevisionPhase) -> u8 {
    match phase {
        RevisionPhase::Staged => 1,
        RevisionPhase::Warming => 2,
        RevisionPhase::Ready => 3,
        RevisionPhase::Inactive | RevisionPhase::Draining | RevisionPhase::Failed | RevisionPhase::Archived => 0,
    }
}

/// A revision of an earlier rollout that still runs and that no split names.
fn abandoned(facts: &Facts<'_>, target: &str) -> Option<Action> {
    let from = facts.state.from.as_deref();
    let (name, _) = facts.revisions.iter().find(|(name, revision)| {
        let runs = matches!(revision.phase, RevisionPhase::Staged | RevisionPhase::Warming | RevisionPhase::Ready);
        runs && *name != target && Some(name.as_str()) != from && !facts.names(name)
    })?;
    Some(Action::Drain { revision: name.clone() })
}

/// Whether the new revision can run beside what serves. It cannot where there is no surge and all may be missing: what it
/// runs on would be taken from the last that serve, for as long as the preview lasts.
fn can_preview(facts: &Facts<'_>) -> bool {
    let promise = facts.promise();
    let previewing = facts.strategy.preview.is_some() && facts.state.stage == 0;
    !previewing || promise.surge > 0 || promise.owed() > 0 || promise.replicas == 0
}

/// When there must have been progress.
fn due(facts: &Facts<'_>) -> jiff::Timestamp {
    let moved = facts.state.progress.as_ref().map(|progress| progress.at).or(facts.state.since);
    facts.after(moved, facts.strategy.progress_deadline_seconds)
}

pub(super) fn is_late(facts: &Facts<'_>) -> bool {
    facts.now >= due(facts)
}

fn gain(facts: &Facts<'_>, target: &str, weight_bps: u32) -> Decision {
    if cannot_be_proven(facts, target) {
        let reason = format!("no replicas are asked for: {target} takes over once there are some to prove it");
        return facts.wait(WaitsOn::Replicas, None, reason);
    }
    let deadline = facts.strategy.progress_deadline_seconds;
    let until = due(facts);
    match shift(facts, course(facts, target, weight_bps)) {
        Shift::There if facts.state.stage >= last(facts) => {
            let (phase, since) = (RolloutPhase::Complete, Some(facts.now));
            let message = Some(format!("{target} serves"));
            facts.remember(RolloutState { phase, since, progress: None, message, ..facts.state.clone() })
        }
        Shift::There => next(facts, format!("{target} has {weight_bps} basis points")),
        Shift::Act(_, reason) | Shift::Ask(_, reason) | Shift::Wait(_, reason) if is_late(facts) => {
            abort(facts, &format!("{target} made no progress for {deadline} seconds: {reason}"))
        }
        Shift::Ask(split, reason) => {
            let decision = facts.ask(split, reason);
            Decision { until: decision.until.or(Some(until)), ..decision }
        }
        Shift::Act(actions, reason) => Decision { until: Some(until), ..facts.act(actions, reason) },
        Shift::Wait(on, reason) => facts.wait(on, Some(until), reason),
    }
}

/// Keeps up with what changes (replicas, room) while the weight stays.
fn stay(facts: &Facts<'_>, target: &str, on: WaitsOn, until: Option<jiff::Timestamp>, reason: String) -> Decision {
    match shift(facts, course(facts, target, facts.weight(target))) {
        Shift::Act(actions, why) => Decision { until, ..facts.act(actions, why) },
        Shift::Ask(..) | Shift::Wait(..) | Shift::There => facts.wait(on, until, reason),
    }
}

/// The course to a weight. For a preview the revision has what its first weight will need.
fn course<'c>(facts: &Facts<'_>, to: &'c str, weight_bps: u32) -> Course<'c> {
    let upcoming = stages(facts.strategy, facts.state).into_iter().skip(facts.state.stage as usize);
    let first = upcoming.into_iter().find_map(|stage| match stage {
        Stage::Weight(weight) if weight > 0 => Some(weight),
        _ => None,
    });
    let sized_for = if weight_bps == 0 { first.unwrap_or(ALL_BPS) } else { weight_bps };
    Course { to, weight_bps, replicas: facts.promise().share(sized_for), pace: Pace::Careful }
}

fn measure(facts: &Facts<'_>, target: &str, analysis: &Analysis) -> Decision {
    match verdict(facts, target, analysis, facts.measured_since.unwrap_or(jiff::Timestamp::MAX)) {
        Verdict::Pass => next(facts, format!("the analysis of {target} passes")),
        Verdict::Fail(reason) => abort(facts, &format!("{target} is given up: {reason}")),
        Verdict::Inconclusive(reason) if analysis.inconclusive == InconclusivePolicy::Pause => {
            let message = Some(format!("paused, since the analysis of {target} is inconclusive: {reason}"));
            let paused = Some(PauseReason::Inconclusive);
            facts.remember(RolloutState { paused, message, ..facts.state.clone() })
        }
        Verdict::Inconclusive(reason) => stay(facts, target, WaitsOn::Analysis, None, reason),
        Verdict::Pending { until } => {
            stay(facts, target, WaitsOn::Analysis, Some(until), format!("{target} is measured until {until}"))
        }
    }
}

/// What is to be said of the target by samples that were counted from `counted` on.
fn verdict(facts: &Facts<'_>, target: &str, analysis: &Analysis, counted: jiff::Timestamp) -> Verdict {
    let of_this_split = |sample: &&Sample| sample.since >= counted;
    let new = facts.samples.get(target).filter(of_this_split);
    let serving = facts.state.from.as_ref().and_then(|from| facts.samples.get(from)).filter(of_this_split);
    let since = facts.state.since.max(facts.measured_since).unwrap_or(facts.now);
    judge(analysis, new, serving, since, facts.now)
}
