//! `25%` of something: numbers that may be given as a share, and the bounds of a rolling update.

use k8s_openapi::api::apps::v1::RollingUpdateDeployment;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How a share that is not whole becomes a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    Up,
    Down,
}

/// A text that is no percentage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a percentage such as \"25%\"")]
pub struct NotAPercentage(pub String);

/// How far a rolling update may go above and below the desired number of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub max_surge: i64,
    pub max_unavailable: i64,
}

/// What is meant where a rolling update does not say.
const DEFAULT_SHARE: &str = "25%";

impl Bounds {
    /// For strategies that know no bounds: everything may go, nothing may be added.
    pub const NONE: Bounds = Bounds { max_surge: 0, max_unavailable: 0 };

    /// The bounds for this many replicas. Surge rounds up and unavailability down; if both come to nothing, no pod
    /// could ever be replaced, so one may be unavailable.
    pub fn of(rolling: Option<&RollingUpdateDeployment>, replicas: i64) -> Result<Bounds, NotAPercentage> {
        let share = |given: Option<&IntOrString>, round| match given {
            Some(value) => resolve(value, replicas, round),
            None => resolve(&IntOrString::String(DEFAULT_SHARE.to_owned()), replicas, round),
        };
        let max_surge = share(rolling.and_then(|rolling| rolling.max_surge.as_ref()), Round::Up)?;
        let unavailable = share(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), Round::Down)?;
        let max_unavailable = if max_surge == 0 && unavailable == 0 { 1 } else { unavailable };
        Ok(Bounds { max_surge, max_unavailable: max_unavailable.min(replicas) })
    }
}

/// A number as it is, or a percentage of `total`; never less than nothing.
pub fn resolve(value: &IntOrString, total: i64, round: Round) -> Result<i64, NotAPercentage> {
    let text = match value {
        IntOrString::Int(number) => return Ok(i64::from(*number).max(0)),
        IntOrString::String(text) => text,
    };
    let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<u32>().ok());
    let hundredths = i64::from(percent.ok_or_else(|| NotAPercentage(text.clone()))?) * total.max(0);
    Ok(match round {
        Round::Up => hundredths / 100 + i64::from(hundredths % 100 != 0),
        Round::Down => hundredths / 100,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::workload::fixtures::object;

    #[test]
    fn bounds_of_a_rolling_update() {
        let rows: [(&str, Value, i64, (i64, i64)); 12] = [
            ("numbers are taken as they are", json!({"maxSurge": 2, "maxUnavailable": 1}), 10, (2, 1)),
            ("surge rounds up, unavailability down", json!({"maxSurge": "25%", "maxUnavailable": "25%"}), 10, (3, 2)),
            ("what is not said is a quarter", json!({}), 4, (1, 1)),
            ("two replicas, 1% and 0: one may be missing", json!({"maxSurge": 0, "maxUnavailable": "1%"}), 2, (0, 1)),
            (
                "one replica, 1% and 0: that one may be missing",
                json!({"maxSurge": "0%", "maxUnavailable": "1%"}),
                1,
                (0, 1),
            ),
            (
                "one replica, 25% and 1%: surge comes first",
                json!({"maxSurge": "1%", "maxUnavailable": "25%"}),
                1,
                (1, 0),
            ),
            (
                "nothing may be missing if nothing was said to",
                json!({"maxSurge": "1%", "maxUnavailable": 0}),
                2,
                (1, 0),
            ),
            ("both zero would never end: one may be missing", json!({"maxSurge": 0, "maxUnavailable": 0}), 5, (0, 1)),
            ("no more can be missing than there are", json!({"maxSurge": 0, "maxUnavailable": 9}), 4, (0, 4)),
            ("surge may be larger than the whole", json!({"maxSurge": "200%", "maxUnavailable": 0}), 3, (6, 0)),
            ("no replicas, no bounds", json!({"maxSurge": "25%", "maxUnavailable": "25%"}), 0, (0, 0)),
            (
                "huge numbers do not overflow",
                json!({"maxSurge": "1000%"}),
                i32::MAX.into(),
                (21_474_836_470, 536_870_911),
            ),
        ];
        for (name, rolling, replicas, (max_surge, max_unavailable)) in rows {
            let bounds = Bounds::of(Some(&object(rolling)), replicas);
            assert_eq!(bounds, Ok(Bounds { max_surge, max_unavailable }), "{name}");
        }
    }

    #[test]
    fn what_is_no_percentage_is_said_to_be_none() {
        for text in ["25", "many", "-1%", "%", ""] {
            let value = IntOrString::String(text.to_owned());
            assert_eq!(resolve(&value, 10, Round::Up), Err(NotAPercentage(text.to_owned())), "{text:?}");
        }
    }
}
