//! A guest that is at a simulated place without our doing, as an Environment's config describes it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use setpoint_api::machine::Run;
use setpoint_api::quantity::Quantity;
use setpoint_core::value::{Fields, Value};

/// How many can be described.
const MAX_RESIDENTS: usize = 10_000;
const MAX_ID: usize = 253;
/// How the ids begin that the place itself gives.
const OWN_IDS: &str = "sim-";

/// A guest that somebody else made.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resident {
    /// Its id; the place gives it one where this is not set.
    #[serde(default)]
    pub id: Option<String>,
    pub name: String,
    #[serde(default)]
    pub cores: Option<u32>,
    #[serde(default)]
    pub memory: Option<String>,
    #[serde(default)]
    pub disk: Option<String>,
    #[serde(default)]
    pub image: Option<String>,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Whether it runs; it does where this is not set.
    #[serde(default)]
    pub run: Option<Run>,
    /// Whether there is data on it.
    #[serde(default)]
    pub holds_data: bool,
}

impl Resident {
    /// What it is known by, so that it is put there once.
    pub(super) fn key(&self) -> &str {
        self.id.as_deref().unwrap_or(&self.name)
    }

    /// The first that cannot be, and why.
    pub(super) fn problem(residents: &[Resident]) -> Option<(usize, String)> {
        if residents.len() > MAX_RESIDENTS {
            return Some((MAX_RESIDENTS, format!("there can be {MAX_RESIDENTS} at most")));
        }
        let mut keys = BTreeSet::new();
        residents.iter().enumerate().find_map(|(at, resident)| {
            let problem = match resident.key() {
                "" => "needs a name".to_owned(),
                key if key.len() > MAX_ID || key.chars().any(char::is_control) => "has no proper id".to_owned(),
                key if key.starts_with(OWN_IDS) => format!("ids that begin with {OWN_IDS} are given by the place"),
                key if !keys.insert(key.to_owned()) => format!("{key} is there twice"),
                _ => resident
                    .amounts()
                    .find_map(|(field, text)| Quantity::parse(text).err().map(|error| format!("{field}: {error}")))?,
            };
            Some((at, problem))
        })
    }

    fn amounts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let amounts = [("disk", &self.disk), ("memory", &self.memory)];
        amounts.into_iter().filter_map(|(field, text)| Some((field, text.as_deref()?)))
    }

    pub(super) fn fields(&self) -> Fields {
        let mut fields = Fields::default();
        if let Some(cores) = self.cores {
            fields.set("cores", i64::from(cores));
        }
        for (field, text) in self.amounts() {
            if let Ok(quantity) = Quantity::parse(text) {
                fields.set(field, quantity.value());
            }
        }
        let texts = [("description", &self.description), ("image", &self.image)];
        for (field, text) in texts.into_iter().filter_map(|(field, text)| Some((field, text.as_deref()?))) {
            fields.set(field, text);
        }
        if !self.env.is_empty() {
            fields.set("env", Value::Map(self.env.iter().map(|(name, value)| (&**name, &**value)).collect()));
        }
        fields
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_there_is_named() {
        let rows = [
            ("one without a name", json!([{"name": ""}]), Some((0, "needs a name"))),
            ("two of one name", json!([{"name": "db"}, {"name": "db"}]), Some((1, "db is there twice"))),
            ("two of one name with ids", json!([{"id": "1", "name": "db"}, {"id": "2", "name": "db"}]), None),
            ("an id of the place's own", json!([{"id": "sim-1", "name": "db"}]), Some((0, "given by the place"))),
            ("an amount that is none", json!([{"name": "db", "memory": "much"}]), Some((0, "memory: "))),
        ];
        for (name, residents, expected) in rows {
            let residents: Vec<Resident> = serde_json::from_value(residents).unwrap();
            match (Resident::problem(&residents), expected) {
                (None, None) => {}
                (Some((at, problem)), Some((place, words))) if at == place && problem.contains(words) => {}
                (found, _) => panic!("{name}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_resident_has_what_is_said_of_it() {
        let db = json!({"name": "db", "cores": 2, "memory": "1Gi", "env": {"MODE": "prod"}, "run": "Stopped"});
        let db: Resident = serde_json::from_value(db).unwrap();
        let fields = db.fields();
        assert_eq!(fields.get("cores"), Some(&Value::Integer(2)));
        assert_eq!(fields.get("memory"), Some(&Value::Integer(1 << 30)));
        assert_eq!(fields.get("disk"), None);
        assert_eq!(db.run, Some(Run::Stopped));
    }
}
