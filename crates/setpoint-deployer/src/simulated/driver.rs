//! How the simulated deployer is registered: one place for each environment, for as long as the process lives.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::client::{Simulated, abilities};
use super::place::Place;
use super::program::Program;
use super::subject::SimulatedSubject;
use crate::conformance::Subject;
use crate::provider::{Abilities, Answer};
use crate::registry::{Context, Driver, Parts, Settings};

/// The simulated deployer.
pub struct SimulatedDriver {
    abilities: Abilities,
    /// How the places behave that the conformance suite runs on.
    subjects: Program,
    /// What time it is when a place is opened.
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    places: Mutex<BTreeMap<String, Place>>,
}

impl fmt::Debug for SimulatedDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedDriver").field("places", &self.places.lock().keys()).finish_non_exhaustive()
    }
}

impl SimulatedDriver {
    /// One whose conformance suite runs on places that behave like this.
    pub fn new(subjects: Program) -> SimulatedDriver {
        let abilities = abilities(&Program::default());
        SimulatedDriver { abilities, subjects, clock: Box::new(Timestamp::now), places: Mutex::default() }
    }

    /// One whose places are opened at the time that this clock shows.
    pub fn by(clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> SimulatedDriver {
        SimulatedDriver { clock: Box::new(clock), ..SimulatedDriver::default() }
    }

    /// The place of an environment, if it was opened.
    pub fn place(&self, environment: &str) -> Option<Place> {
        self.places.lock().get(environment).cloned()
    }

    fn open_place(&self, settings: &Settings, context: &Context) -> crate::Result<Place> {
        let program = Program::read(&format!("environment {}", context.environment), settings)?;
        let mut places = self.places.lock();
        if let Some(place) = places.get(&context.environment) {
            place.reprogram(program)?;
            return Ok(place.clone());
        }
        let folder = context.folder.join("place");
        let place = match program.durable {
            true if context.read_only => Place::copied_from(&folder, program, (self.clock)())?,
            true => Place::kept_in(&folder, program, (self.clock)())?,
            false => Place::new(program, (self.clock)()),
        };
        places.insert(context.environment.clone(), place.clone());
        Ok(place)
    }
}

impl Default for SimulatedDriver {
    fn default() -> SimulatedDriver {
        SimulatedDriver::new(Program { latency_ms: 1, latency_max_ms: Some(4), ..Program::default() })
    }
}

impl Driver for SimulatedDriver {
    fn name(&self) -> &str {
        super::NAME
    }

    fn version(&self) -> &str {
        "1.0.0"
    }

    fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    fn open<'a>(&'a self, settings: &'a Settings, context: &'a Context) -> Answer<'a, Parts> {
        Box::pin(async move {
            let client = Arc::new(Simulated::new(&self.open_place(settings, context)?, &context.cluster));
            Ok(Parts { provider: client.clone(), deployer: Some(client) })
        })
    }

    fn subject(&self) -> Answer<'_, Box<dyn Subject>> {
        Box::pin(async { Ok(Box::new(SimulatedSubject::new(self.subjects.clone(), true)) as Box<dyn Subject>) })
    }
}
