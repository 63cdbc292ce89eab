//! When a condition's transition time moves: with its status, and with nothing else.

use jiff::Timestamp;
use setpoint_api::condition::Condition;

/// Puts a condition among the others, in place of the one of its type. Returns whether anything changed.
///
/// `lastTransitionTime` becomes `now` where the status is another than before, and stays where it was otherwise, whatever
/// `new` says of it; reason, message and observedGeneration may change alone. Other conditions stay as they are.
pub fn set(conditions: &mut Vec<Condition>, new: Condition, now: Timestamp) -> bool {
    let Some(old) = conditions.iter_mut().find(|condition| condition.type_ == new.type_) else {
        conditions.push(Condition { last_transition_time: Some(now), ..new });
        return true;
    };
    let since = if old.status == new.status { old.last_transition_time.or(Some(now)) } else { Some(now) };
    let new = Condition { last_transition_time: since, ..new };
    let changed = *old != new;
    *old = new;
    changed
}

#[cfg(test)]
mod tests {
    use setpoint_api::condition::ConditionStatus::{self, False, True, Unknown};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time near 1970")
    }

    fn condition(type_: &str, status: ConditionStatus, reason: &str, second: Option<i64>) -> Condition {
        Condition {
            type_: type_.to_owned(),
            status,
            reason: Some(reason.to_owned()),
            message: None,
            last_transition_time: second.map(at),
            observed_generation: Some(1),
        }
    }

    #[test]
    fn a_transition_time_moves_with_the_status_alone() {
        let ready = condition("Ready", True, "Up", Some(1));
        let rows = [
            ("a first condition", vec![], condition("Ready", True, "Up", None), true, Some(9)),
            (
                "the same again changes nothing",
                vec![ready.clone()],
                condition("Ready", True, "Up", None),
                false,
                Some(1),
            ),
            ("another status moves it", vec![ready.clone()], condition("Ready", False, "Up", None), true, Some(9)),
            ("unknown is another status", vec![ready.clone()], condition("Ready", Unknown, "Up", None), true, Some(9)),
            ("another reason does not", vec![ready.clone()], condition("Ready", True, "Well", None), true, Some(1)),
            (
                "another message does not",
                vec![ready.clone()],
                Condition { message: Some("all is well".to_owned()), ..ready.clone() },
                true,
                Some(1),
            ),
            (
                "another generation does not",
                vec![ready.clone()],
                Condition { observed_generation: Some(2), ..ready.clone() },
                true,
                Some(1),
            ),
            (
                "a time in the new one is not believed",
                vec![ready.clone()],
                condition("Ready", True, "Up", Some(5)),
                false,
                Some(1),
            ),
            (
                "a missing time is filled in",
                vec![condition("Ready", True, "Up", None)],
                condition("Ready", True, "Up", None),
                true,
                Some(9),
            ),
        ];
        for (name, mut conditions, new, changed, second) in rows {
            let status = new.status;
            assert_eq!(set(&mut conditions, new, at(9)), changed, "{name}");
            assert_eq!(conditions.len(), 1, "{name}");
            assert_eq!(conditions[0].status, status, "{name}");
            assert_eq!(conditions[0].last_transition_time, second.map(at), "{name}");
        }
    }

    #[test]
    fn other_conditions_stay_as_they_are() {
        let other = condition("PlanResolved", False, "NoPlanFound", Some(3));
        let mut conditions = vec![other.clone(), condition("Ready", True, "Up", Some(1))];
        assert!(set(&mut conditions, condition("Ready", False, "Down", None), at(9)));
        assert_eq!(conditions, [other, condition("Ready", False, "Down", Some(9))]);
    }
}
