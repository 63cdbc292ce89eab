//! How long a Job waits after failures before it makes Pods again.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

const FIRST: SignedDuration = SignedDuration::from_secs(10);
const LAST: SignedDuration = SignedDuration::from_mins(6);

/// When Pods may be made again, after these failures since the last success. Each doubles the wait.
pub fn until(failed: &[&Pod], succeeded: &[&Pod]) -> Option<Timestamp> {
    let last_success = succeeded.iter().map(|pod| finish_time(pod)).max();
    let since = failed.iter().map(|pod| finish_time(pod)).filter(|at| last_success.is_none_or(|last| *at > last));
    let (count, last) = since.fold((0, None), |(count, last), at| (count + 1, last.max(Some(at))));
    last.and_then(|last| last.checked_add(delay(count)).ok())
}

/// The wait after so many failures in a row.
pub fn delay(failures: u32) -> SignedDuration {
    match failures {
        0 => SignedDuration::ZERO,
        failures => FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LAST),
    }
}

/// When a Pod ended, as well as that can be told.
pub fn finish_time(pod: &Pod) -> Timestamp {
    let status = pod.status.as_ref();
    let containers = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    let ends: Option<Vec<Timestamp>> = containers.iter().map(end).collect();
    let ended = ends.and_then(|ends| ends.into_iter().max());
    let not_ready = || {
        let mut conditions = status?.conditions.iter().flatten();
        let ready = conditions.find(|condition| condition.type_ == "Ready" && condition.status == "False")?;
        ready.last_transition_time.as_ref().map(|time| time.0)
    };
    let deleted = || {
        let grace = SignedDuration::from_secs(pod.metadata.deletion_grace_period_seconds.unwrap_or_default());
        pod.metadata.deletion_timestamp.as_ref()?.0.checked_sub(grace).ok()
    };
    let created = || pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    ended.or_else(not_ready).or_else(deleted).or_else(created).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn end(container: &ContainerStatus) -> Option<Timestamp> {
    container.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref().map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_doubles_the_wait_up_to_six_minutes() {
        let waits: Vec<i64> = (0..9).map(|failures| delay(failures).as_secs()).collect();
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 320, 360, 360]);
        assert_eq!(delay(u32::MAX), LAST);
    }
}
