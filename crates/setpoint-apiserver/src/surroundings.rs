//! Where a server takes the time and chance from: the system, or whoever simulates one.
//!
//! Everything that gets into an object comes from here, so that a simulation gives the same objects again. Certificates,
//! tokens and the audit log are not objects, and go by the system.

use std::fmt;

use jiff::Timestamp;
use uuid::Builder;

/// What time it is, and numbers that nobody can foresee.
pub struct Surroundings {
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    chance: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").finish_non_exhaustive()
    }
}

impl Default for Surroundings {
    /// Those of the system.
    fn default() -> Surroundings {
        Surroundings::new(Timestamp::now, rand::random::<u64>)
    }
}

impl Surroundings {
    pub fn new(
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
        chance: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Surroundings {
        Surroundings { clock: Box::new(clock), chance: Box::new(chance) }
    }

    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    pub fn random(&self) -> u64 {
        (self.chance)()
    }

    /// The uid of a new object.
    pub(crate) fn uid(&self) -> String {
        let bytes = (u128::from(self.random()) << 64 | u128::from(self.random())).to_be_bytes();
        Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    /// Five characters that form no words: no vowels, nothing that looks like another.
    pub(crate) fn suffix(&self) -> String {
        const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut number = self.random();
        let mut next = || {
            let character = ALPHABET[(number % 27) as usize];
            number /= 27;
            char::from(character)
        };
        std::array::from_fn::<char, 5, _>(|_| next()).iter().collect()
    }
}
