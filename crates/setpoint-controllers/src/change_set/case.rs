//! A change set with everything that people said of it: what whoever is about to act asks for leave.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use setpoint_api::change_set::{ChangeSet, ChangeSetStatus, UsedNonce};
use setpoint_api::review::Review;
use setpoint_api::step::Target;
use setpoint_core::authority;
use setpoint_core::gate::Evidence;

use crate::runtime::Caches;
use crate::runtime::caches::{CHANGE_SETS_BY_OWNER, CHANGE_SETS_BY_TARGET, REVIEWS_BY_GATE, target_value};
use crate::signature::Checked;

/// A change set and the reviews of its gate, with their signatures checked.
#[derive(Debug, Clone)]
pub struct Case {
    pub change_set: Arc<ChangeSet>,
    pub reviews: Vec<Reviewed>,
}

/// A review, and what is known of it.
#[derive(Debug, Clone)]
pub struct Reviewed {
    pub review: Arc<Review>,
    pub created_at: Timestamp,
    pub signature: Checked,
}

/// The change sets that list steps of an object, as the caches show them.
pub fn cases(caches: &Caches, target: &Target) -> Vec<Case> {
    let sets = caches.change_sets.by(&CHANGE_SETS_BY_TARGET, &target_value(target));
    // A change set is about its own namespace, and so are those who may review there.
    let own = sets.into_iter().filter(|set| set.metadata.namespace.as_deref() == Some(&*target.namespace));
    own.map(|change_set| Case::of(caches, change_set)).collect()
}

/// The change sets that were made for an object, by its uid.
pub fn cases_of(caches: &Caches, owner: &str) -> Vec<Case> {
    let sets = caches.change_sets.by(&CHANGE_SETS_BY_OWNER, owner);
    sets.into_iter().map(|change_set| Case::of(caches, change_set)).collect()
}

impl Case {
    pub fn of(caches: &Caches, change_set: Arc<ChangeSet>) -> Case {
        let metadata = &change_set.metadata;
        let gate = format!("{}/{}", text(&metadata.namespace), text(&metadata.name));
        let reviews = caches.reviews.by(&REVIEWS_BY_GATE, &gate);
        let reviews = reviews.into_iter().filter(|review| review.metadata.deletion_timestamp.is_none());
        let reviews = reviews.filter_map(|review| {
            let created_at = review.metadata.creation_timestamp.as_ref()?.0;
            let signature = Checked::of(&review);
            Some(Reviewed { review, created_at, signature })
        });
        Case { reviews: reviews.collect(), change_set }
    }

    /// The same as the core reads it; none where it authorizes nothing.
    pub fn as_set(&self) -> Option<authority::Set<'_>> {
        authority::Set::of(&self.change_set, self.evidence(), self.used_nonces())
    }

    pub(super) fn evidence(&self) -> Vec<Evidence<'_>> {
        let evidence = self.reviews.iter().map(|reviewed| Evidence {
            review: &reviewed.review,
            created_at: reviewed.created_at,
            signature: reviewed.signature.as_signature(),
        });
        evidence.collect()
    }

    /// The nonces that were used by reviews that are gone.
    pub(super) fn used_nonces(&self) -> BTreeSet<(String, String)> {
        let present: BTreeSet<&str> =
            self.reviews.iter().filter_map(|own| own.review.metadata.uid.as_deref()).collect();
        let recorded = self.status().into_iter().flat_map(|status| &status.nonces);
        let gone = recorded.filter(|used| !present.contains(used.review.as_str()));
        gone.map(|used| (used.reviewer.clone(), used.nonce.clone())).collect()
    }

    /// The record of nonces with those of the signed reviews that are here; each goes to the first review that used it.
    pub(super) fn nonces(&self) -> Vec<UsedNonce> {
        let mut nonces = self.status().map(|status| status.nonces.clone()).unwrap_or_default();
        let mut signed: Vec<&Reviewed> = self.reviews.iter().filter(|own| own.signature != Checked::Unsigned).collect();
        signed.sort_by_key(|own| (own.created_at, own.review.metadata.name.clone()));
        for Reviewed { review, .. } in signed {
            let (Some(nonce), Some(uid)) = (&review.spec.nonce, &review.metadata.uid) else { continue };
            let used = UsedNonce { reviewer: review.spec.reviewer.clone(), nonce: nonce.clone(), review: uid.clone() };
            let is_known = |known: &UsedNonce| known.reviewer == used.reviewer && known.nonce == used.nonce;
            if !nonces.iter().any(is_known) {
                nonces.push(used);
            }
        }
        let surplus = nonces.len().saturating_sub(MAX_NONCES);
        nonces.split_off(surplus)
    }

    fn status(&self) -> Option<&ChangeSetStatus> {
        self.change_set.status.as_ref()
    }
}

const MAX_NONCES: usize = 1_000;

fn text(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or_default()
}
