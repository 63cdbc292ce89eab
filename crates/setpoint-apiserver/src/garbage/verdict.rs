//! What garbage collection does about one object: the decision alone.
//!
//! It errs on the side of keeping. An owner is absent only if it would be found where the reference says and is not; what
//! cannot be looked up is not absent.

use super::facts::{Facts, Order};
use super::graph::{Standing, Wait};
use crate::object_meta::{FOREGROUND, ORPHAN};
use crate::query::Propagation;

/// What is known of the owner that a reference names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// It exists, and does not want its dependents deleted; it may be deleted itself.
    Alive,
    /// There is none by that name, or it is another one by the same name.
    Absent,
    /// It is deleted, and waits for its dependents to be deleted before it.
    DeletingDependents,
    /// It is deleted, and waits for its dependents to forget it.
    Orphaning,
    /// Its kind is not served; it may be one day.
    Unserved,
    /// Its kind has namespaces and the dependent has none: such an owner cannot be looked up, and never will.
    OutOfReach,
}

impl From<Order> for Owner {
    fn from(order: Order) -> Owner {
        match order {
            Order::Foreground => Owner::DeletingDependents,
            Order::Orphan => Owner::Orphaning,
        }
    }
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Keep,
    /// Nothing can be said until every owner's kind is served.
    Wait,
    /// The object is deleted and waits for nothing any more.
    RemoveFinalizer(Order),
    /// Its owners are no longer to wait for it, because it waits for them.
    Unblock,
    /// The references at these positions are to go.
    RemoveReferences(Vec<usize>),
    Delete(Propagation),
}

/// Decides about an object. `owners` has what is known of the owner in each of its references.
pub fn decide(object: &Facts, standing: Standing, owners: &[Owner]) -> Verdict {
    match standing.wait {
        Some(Wait::Over(order)) if object.order() == Some(order) => return Verdict::RemoveFinalizer(order),
        Some(Wait::Circular) if object.owner_references.iter().any(|reference| reference.block_owner_deletion) => {
            return Verdict::Unblock;
        }
        _ => {}
    }
    let has = |owner: Owner| owners.contains(&owner);
    if has(Owner::Orphaning) {
        return Verdict::RemoveReferences(positions(owners, &[Owner::Orphaning]));
    }
    // Also if it is deleted: the owner may turn out to be one that waits to be forgotten.
    if has(Owner::Unserved) {
        return Verdict::Wait;
    }
    if object.is_deleted() || owners.is_empty() || has(Owner::OutOfReach) {
        return Verdict::Keep;
    }
    if has(Owner::Alive) {
        // An owner that waits would wait for ever for an object that others keep.
        let needless = positions(owners, &[Owner::Absent, Owner::DeletingDependents]);
        return if needless.is_empty() { Verdict::Keep } else { Verdict::RemoveReferences(needless) };
    }
    Verdict::Delete(match () {
        () if has(Owner::DeletingDependents) && standing.has_dependents => Propagation::Foreground,
        () if object.has_finalizer(ORPHAN) => Propagation::Orphan,
        () if object.has_finalizer(FOREGROUND) => Propagation::Foreground,
        () => Propagation::Background,
    })
}

fn positions(owners: &[Owner], wanted: &[Owner]) -> Vec<usize> {
    owners.iter().enumerate().filter(|(_, owner)| wanted.contains(owner)).map(|(position, _)| position).collect()
}
