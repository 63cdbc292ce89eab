//! What can be observed of a world, and what cannot.

use std::collections::BTreeSet;

use setpoint_core::observation::{Completeness, Config, Guest, Observation, Reading};
use setpoint_core::value::Fields;

use super::{Instance, World};

/// What cannot be seen for now, by guest.
#[derive(Debug, Clone, Default)]
pub struct Sight {
    /// Why the list of guests is not complete.
    pub partial: Option<String>,
    /// Guests that are not listed.
    pub hidden: BTreeSet<Box<str>>,
    /// Guests whose configuration cannot be read.
    pub unreadable: BTreeSet<Box<str>>,
    /// Fields that cannot be read.
    pub unreadable_fields: BTreeSet<(Box<str>, &'static str)>,
    /// Guests of which it cannot be told whether they run.
    pub unknown_run: BTreeSet<Box<str>>,
    /// Guests of which it cannot be told whether they hold data.
    pub unknown_data: BTreeSet<Box<str>>,
}

impl Sight {
    /// Whether everything is seen.
    pub fn is_clear(&self) -> bool {
        let Sight { partial, hidden, unreadable, unreadable_fields, unknown_run, unknown_data } = self;
        partial.is_none()
            && hidden.is_empty()
            && unreadable.is_empty()
            && unreadable_fields.is_empty()
            && unknown_run.is_empty()
            && unknown_data.is_empty()
    }
}

impl World {
    /// A look at the world as it is now.
    pub fn observe(&self) -> Observation {
        let shown = |id: &str, guest: &Instance| guest.shows_from <= self.now && !self.sight.hidden.contains(id);
        Observation {
            completeness: match &self.sight.partial {
                Some(reason) => Completeness::Partial(reason.clone()),
                None => Completeness::Complete,
            },
            guests: self
                .guests
                .iter()
                .filter(|(id, guest)| shown(id, guest))
                .map(|(id, guest)| self.observe_guest(id, guest))
                .collect(),
            observed_at: self.now,
        }
    }

    fn observe_guest(&self, id: &str, guest: &Instance) -> Guest {
        Guest {
            id: id.into(),
            name: format!("guest-{id}").into(),
            mark: guest.mark.clone(),
            config: self.observe_config(id, guest),
            run: self.observe_run(id, guest),
            holds_data: match self.sight.unknown_data.contains(id) {
                true => Reading::Unknown,
                false => Reading::Known(guest.holds_data),
            },
            busy: guest.busy.clone(),
            is_template: guest.is_template,
            hourly_price: self
                .price
                .map(|price| if guest.is_running { price(&guest.fields) } else { Default::default() }),
        }
    }

    fn observe_config(&self, id: &str, guest: &Instance) -> Config {
        if self.sight.unreadable.contains(id) {
            return Config::Unreadable("the provider does not answer".into());
        }
        let unknown: Vec<&'static str> =
            self.sight.unreadable_fields.iter().filter(|(of, _)| **of == *id).map(|(_, name)| *name).collect();
        let readable = |fields: &Fields| {
            let mut readable = fields.clone();
            unknown.iter().for_each(|name| drop(readable.remove(name)));
            readable
        };
        Config::Read { known: readable(&guest.fields), pending: readable(&guest.pending), unknown }
    }

    fn observe_run(&self, id: &str, guest: &Instance) -> Reading<Box<str>> {
        if self.sight.unknown_run.contains(id) {
            return Reading::Unknown;
        }
        let words = if guest.is_running { self.capabilities.running_words } else { self.capabilities.stopped_words };
        match (&guest.word, words.first()) {
            (Some(word), _) => Reading::Known(word.clone()),
            (None, Some(word)) => Reading::Known((*word).into()),
            (None, None) => Reading::Absent,
        }
    }
}
