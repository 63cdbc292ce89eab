//! What happens at a simulated place behind our back.

use std::time::Duration;

use jiff::Timestamp;
use rand::Rng;
use rand::rngs::SmallRng;
use setpoint_core::value::Value;

use super::blueprint::Body;
use super::cloud::Cloud;
use super::program::{DriftKind, Program};

/// Makes one thing happen to one instance that carries a mark. `None` if there is none it could happen to.
pub(super) fn happen(
    cloud: &mut Cloud,
    kind: DriftKind,
    serial: u64,
    program: &Program,
    dice: &mut SmallRng,
    now: Timestamp,
) -> Option<()> {
    let instance = cloud.get_mut(serial)?;
    match kind {
        DriftKind::Changed => change(&mut instance.body, dice),
        DriftKind::Stopped => drop(instance.stop(program, Duration::ZERO, now)),
        DriftKind::Vanished => drop(cloud.remove(serial, Duration::from_millis(program.delisted_after_ms), now)),
        DriftKind::Unmarked => cloud.set_mark(serial, None),
    }
    Some(())
}

/// An instance with a mark, any of them.
pub(super) fn pick(cloud: &Cloud, dice: &mut SmallRng) -> Option<u64> {
    let start = dice.random_range(0..=cloud.last());
    let serial = cloud.at_or_after(start).or_else(|| cloud.at_or_after(0))?;
    cloud.get(serial)?.mark.is_some().then_some(serial)
}

/// Somebody changes a field that can be changed in place.
fn change(body: &mut Body, dice: &mut SmallRng) {
    let Body::Machine(fields) = body else { return };
    match dice.random_range(0..3) {
        0 => fields.set("cores", i64::from(dice.random_range(1..=64))),
        1 => fields.set("memory", i64::from(dice.random_range(16..=4096)) << 20),
        _ => fields.set("description", Value::from("changed by hand\n")),
    }
}
