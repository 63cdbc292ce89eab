//! What came and went in Environments since they were last looked at: what they say of what they hold and what that costs
//! is to follow soon, and not by a look for each Machine.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_api::machine::Machine;

use crate::runtime::Name;

/// For how long nothing must have come or gone before a place is looked at for its sake: many come at once.
const QUIET: Duration = Duration::from_secs(2);

/// When something last came or went in each Environment that was not looked at since.
#[derive(Debug, Default)]
pub(super) struct News(Mutex<BTreeMap<Name, Timestamp>>);

impl News {
    /// Something came or went. Says whether that is the first since the last look.
    pub(super) fn heard(&self, environment: &Name, now: Timestamp) -> bool {
        self.0.lock().insert(environment.clone(), now).is_none()
    }

    /// A look that was begun then is on record.
    pub(super) fn looked(&self, environment: &Name, at: Timestamp) {
        let mut news = self.0.lock();
        if news.get(environment).is_some_and(|heard| *heard <= at) {
            news.remove(environment);
        }
    }

    pub(super) fn forget(&self, environment: &Name) {
        self.0.lock().remove(environment);
    }

    /// How long it is until a look for the sake of what came and went; none where nothing did.
    pub(super) fn due_in(&self, environment: &Name, now: Timestamp) -> Option<Duration> {
        let heard = self.0.lock().get(environment).copied()?;
        let quiet = Duration::try_from(now.duration_since(heard)).unwrap_or_default();
        Some(QUIET.saturating_sub(quiet))
    }
}

/// Whether a Machine has a guest. What one costs that is changed shows when everything is looked at anyway.
pub(super) fn has_guest(machine: Option<&Machine>) -> bool {
    machine.and_then(|machine| machine.status.as_ref()).is_some_and(|status| status.run.is_some())
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::constant(1_900_000_000, 0) + SignedDuration::from_millis(milliseconds)
    }

    #[test]
    fn a_look_is_due_once_nothing_more_comes() {
        let (news, lab) = (News::default(), Name::new("", "lab"));
        let due = |now: i64| news.due_in(&lab, at(now)).map(|due| due.as_millis());
        assert_eq!(due(0), None, "nothing came");
        assert!(news.heard(&lab, at(0)), "who waits is told once");
        assert_eq!(due(500), Some(1_500));
        assert!(!news.heard(&lab, at(1_500)), "and not of each that comes after it");
        assert_eq!(due(2_000), Some(1_500), "more came: it is put off");
        assert_eq!(due(9_000), Some(0));
        news.looked(&lab, at(1_000));
        assert_eq!(due(9_000), Some(0), "what came during a look may not be in it");
        news.looked(&lab, at(9_000));
        assert_eq!(due(9_500), None);
        assert!(news.heard(&lab, at(10_000)));
    }
}
