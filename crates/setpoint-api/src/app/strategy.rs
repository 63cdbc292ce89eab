//! How a new revision takes over from the old one.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MAX_REPLICAS;
use crate::field::{Errors, Path};
use crate::rules;
use crate::traffic_split::ALL_BPS;

const MAX_STEPS: usize = 50;
/// The longest time to wait for something: a week.
const MAX_SECONDS: u32 = 604_800;
const MAX_INCREASE_PERCENT: u32 = 100_000;

/// How a new revision takes over from the old one.
///
/// A canary is many steps. Blue/green is no steps, a preview before and the old kept for a while after. Without steps
/// all traffic moves at once, as soon as the new revision is ready.
///
/// What is promised while a rollout runs: at least `replicas - maxUnavailable` ready instances serve, each revision with
/// as many of them as its share of the traffic asks for; and at most `replicas + surge` instances exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.surge) || self.surge > 0 || self.maxUnavailable > 0",
    "message": "surge 0 needs maxUnavailable of at least 1: otherwise nothing can ever be replaced",
}]))]
pub struct Strategy {
    /// How many instances may exist beyond `replicas` during a rollout; absent: as many as `replicas`, a whole second
    /// set. 0 needs no spare capacity: the old revision shrinks as the new one grows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100_000))]
    pub surge: Option<u32>,
    /// How many of `replicas` may be missing during a rollout. A single instance that has no room beside itself needs 1:
    /// it is stopped before the new one starts, if the provider says that the new one can be placed.
    #[schemars(range(max = 100_000))]
    pub max_unavailable: u32,
    /// If set, the new revision runs with weight 0 before the first step and can be reached by its preview route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<Preview>,
    /// What is done in order. All traffic moves at the end, whether or not the last step says so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), extend("x-kubernetes-list-type" = "atomic"))]
    pub steps: Vec<RolloutStep>,
    /// What is watched from the first basis point to the last: if it fails, the rollout is aborted at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<Analysis>,
    /// Whether all traffic moves without asking when the steps are done.
    pub auto_promote: bool,
    /// For how long the old revision stays ready after it has lost its traffic, so that going back takes no time.
    #[schemars(range(max = 604_800))]
    pub keep_seconds: u32,
    /// How long a rollout may go without progress before it is aborted. Pauses and analyses do not count.
    #[schemars(range(min = 1, max = 604_800))]
    pub progress_deadline_seconds: u32,
}

/// The time in which a new revision runs without traffic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Preview {
    /// How long; absent: until a person resumes or promotes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 604_800))]
    pub seconds: Option<u32>,
}

/// One step: a weight, a pause, or an analysis.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "(has(self.weightBps) ? 1 : 0) + (has(self.pause) ? 1 : 0) + (has(self.analysis) ? 1 : 0) == 1",
    "message": "exactly one of weightBps, pause and analysis must be set",
}]))]
pub struct RolloutStep {
    /// The share of the traffic that the new revision gets, in basis points.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub weight_bps: Option<u32>,
    /// Wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    /// Measure, and go on only if it passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub analysis: Option<Analysis>,
}

/// A time to wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Pause {
    /// How long; absent: until a person resumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 604_800))]
    pub seconds: Option<u32>,
}

/// What a new revision must be like while it serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Analysis {
    /// For how long it is measured at least before it can pass. It can fail earlier.
    #[schemars(range(max = 604_800))]
    pub seconds: u32,
    /// How many requests are needed to say anything.
    #[schemars(range(min = 1))]
    pub min_requests: u64,
    /// The least share of requests that must succeed, in basis points.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10_000))]
    pub min_success_bps: Option<u32>,
    /// By how many basis points the success rate may be below that of the serving revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10_000))]
    pub max_success_drop_bps: Option<u32>,
    /// Bounds on the latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyBound>,
    /// What to do when the time is over and there were too few requests to say anything.
    pub inconclusive: InconclusivePolicy,
}

/// Bounds on a quantile of the latency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LatencyBound {
    /// The quantile in thousandths: 500 is the median, 990 is what people call p99.
    #[schemars(range(min = 1, max = 1_000))]
    pub quantile_permille: u32,
    /// The most it may be, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ms: Option<u64>,
    /// By how many per cent it may be above that of the serving revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100_000))]
    pub max_increase_percent: Option<u32>,
}

/// What to do when nothing can be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum InconclusivePolicy {
    /// Pause for a person.
    #[default]
    Pause,
    /// Go on measuring.
    Wait,
}

impl Default for Strategy {
    fn default() -> Strategy {
        Strategy {
            surge: None,
            max_unavailable: 0,
            preview: None,
            steps: Vec::new(),
            guard: None,
            auto_promote: true,
            keep_seconds: 0,
            progress_deadline_seconds: 600,
        }
    }
}

impl Default for Analysis {
    fn default() -> Analysis {
        Analysis {
            seconds: 60,
            min_requests: 100,
            min_success_bps: None,
            max_success_drop_bps: None,
            latency: None,
            inconclusive: InconclusivePolicy::Pause,
        }
    }
}

impl fmt::Display for InconclusivePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Strategy {
    pub(super) fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        if self.surge == Some(0) && self.max_unavailable == 0 {
            errors.invalid(
                &path.field("maxUnavailable"),
                0,
                "must be at least 1 when surge is 0: otherwise nothing can ever be replaced",
            );
        }
        rules::between(&path.field("surge"), self.surge.unwrap_or_default(), 0..=MAX_REPLICAS, errors);
        rules::between(&path.field("maxUnavailable"), self.max_unavailable, 0..=MAX_REPLICAS, errors);
        rules::between(&path.field("keepSeconds"), self.keep_seconds, 0..=MAX_SECONDS, errors);
        let deadline = path.field("progressDeadlineSeconds");
        rules::between(&deadline, self.progress_deadline_seconds, 1..=MAX_SECONDS, errors);
        if let Some(seconds) = self.preview.as_ref().and_then(|preview| preview.seconds) {
            let preview = path.field("preview");
            rules::between(&preview.field("seconds"), seconds, 0..=MAX_SECONDS, errors);
        }
        if let Some(guard) = &self.guard {
            guard.validate(&path.field("guard"), errors);
        }
        self.validate_steps(&path.field("steps"), errors);
    }

    fn validate_steps(&self, path: &Path<'_>, errors: &mut Errors) {
        if self.steps.len() > MAX_STEPS {
            errors.too_many(path, self.steps.len(), MAX_STEPS);
        }
        let mut reached = 0;
        for (index, step) in self.steps.iter().enumerate() {
            let at = path.index(index);
            step.validate(&at, errors);
            let Some(weight) = step.weight_bps else { continue };
            if weight < reached {
                let detail =
                    format!("must not be below the {reached} of an earlier step: abort goes back, steps go on");
                errors.invalid(&at.field("weightBps"), weight, &detail);
            }
            reached = reached.max(weight);
        }
    }
}

impl RolloutStep {
    fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        let set =
            [self.weight_bps.is_some(), self.pause.is_some(), self.analysis.is_some()].into_iter().filter(|set| *set);
        match set.count() {
            0 => errors.required(path, "exactly one of weightBps, pause and analysis must be set"),
            1 => {}
            _ => errors.forbidden(path, "exactly one of weightBps, pause and analysis must be set"),
        }
        if let Some(weight) = self.weight_bps {
            rules::between(&path.field("weightBps"), weight, 1..=ALL_BPS, errors);
        }
        if let Some(seconds) = self.pause.as_ref().and_then(|pause| pause.seconds) {
            let pause = path.field("pause");
            rules::between(&pause.field("seconds"), seconds, 0..=MAX_SECONDS, errors);
        }
        if let Some(analysis) = &self.analysis {
            analysis.validate(&path.field("analysis"), errors);
        }
    }
}

impl Analysis {
    fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        rules::between(&path.field("seconds"), self.seconds, 0..=MAX_SECONDS, errors);
        if self.min_requests == 0 {
            errors.invalid(&path.field("minRequests"), 0, "must be greater than 0");
        }
        for (name, bound) in [("minSuccessBps", self.min_success_bps), ("maxSuccessDropBps", self.max_success_drop_bps)]
        {
            rules::between(&path.field(name), bound.unwrap_or_default(), 0..=ALL_BPS, errors);
        }
        let latency = path.field("latency");
        if let Some(bound) = &self.latency {
            rules::between(&latency.field("quantilePermille"), bound.quantile_permille, 1..=1_000, errors);
            let increase = bound.max_increase_percent.unwrap_or_default();
            rules::between(&latency.field("maxIncreasePercent"), increase, 0..=MAX_INCREASE_PERCENT, errors);
            if bound.max_ms.is_none() && bound.max_increase_percent.is_none() {
                errors.required(&latency, "at least one of maxMs and maxIncreasePercent must be set");
            }
        }
        if self.min_success_bps.is_none() && self.max_success_drop_bps.is_none() && self.latency.is_none() {
            errors.required(path, "at least one of minSuccessBps, maxSuccessDropBps and latency must be set");
        }
    }
}
