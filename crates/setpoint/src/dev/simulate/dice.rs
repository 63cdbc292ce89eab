//! Where all chance of a simulation comes from: a seed.

use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Dice that fall the same way for the same seed. Clones are the same dice.
#[derive(Debug, Clone)]
pub(super) struct Dice(Arc<Mutex<SmallRng>>);

impl Dice {
    /// Dice of their own for each purpose, so that one more throw for one changes nothing for another.
    pub(super) fn new(seed: u64, purpose: u64) -> Dice {
        let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose.wrapping_mul(0xd1b5_4a32_d192_ed03);
        Dice(Arc::new(Mutex::new(SmallRng::seed_from_u64(seed))))
    }

    pub(super) fn number(&self) -> u64 {
        self.0.lock().random()
    }

    /// A number less than `count`, which is not zero.
    pub(super) fn below(&self, count: usize) -> usize {
        self.0.lock().random_range(0..count)
    }

    pub(super) fn between(&self, least: u64, most: u64) -> u64 {
        self.0.lock().random_range(least..=most)
    }

    /// Whether something happens that happens so many times in a thousand.
    pub(super) fn permille(&self, rate: u32) -> bool {
        self.0.lock().random_range(0..1000) < rate
    }

    pub(super) fn pick<'a, T>(&self, among: &'a [T]) -> Option<&'a T> {
        (!among.is_empty()).then(|| &among[self.below(among.len())])
    }

    /// One of several, each as likely as its weight says.
    pub(super) fn weighted<T: Copy>(&self, among: &[(u32, T)]) -> Option<T> {
        let total: u32 = among.iter().map(|(weight, _)| weight).sum();
        let mut left = self.0.lock().random_range(0..total.max(1));
        among
            .iter()
            .find(|(weight, _)| {
                left < *weight || {
                    left -= weight;
                    false
                }
            })
            .map(|(_, one)| *one)
    }
}
