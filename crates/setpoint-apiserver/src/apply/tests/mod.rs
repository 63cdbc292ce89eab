//! What applies and updates do to objects and to the record of who owns what, on the types of built-in kinds.

mod applying;
mod comparing;
mod hostile;
mod laws;
mod updating;

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::{Applied, FieldSet, Ignored, Managers, Refusal, Subject, Writer, apply, update};
use crate::schema::{Schema, Schemas};

static SCHEMAS: LazyLock<Schemas> = LazyLock::new(Schemas::built_in);

fn schema(name: &str) -> Schema {
    SCHEMAS.get(&format!("io.k8s.api.{name}")).expect("a type that is built in")
}

fn set(fields: Value) -> FieldSet {
    serde_json::from_value(fields).expect("a set of fields")
}

/// An object on which several managers work.
struct World {
    schema: Schema,
    object: Value,
    managers: Managers,
    seconds: u32,
}

impl World {
    fn new(name: &str) -> World {
        let schema = schema(name);
        World { object: schema.empty_object(), schema, managers: Managers::default(), seconds: 0 }
    }

    fn subject<'s>(&'s self, empty: &'s Value) -> Subject<'s> {
        Subject {
            object_type: self.schema.root(),
            empty,
            ignored: Ignored::Fields(FieldSet::of(&["status"])),
            version_bound: false,
        }
    }

    fn time(&mut self) -> String {
        self.seconds += 1;
        format!("2030-01-01T00:00:{:02}Z", self.seconds % 60)
    }

    fn try_apply(&mut self, manager: &str, config: &Value, force: bool) -> Result<Applied, Refusal> {
        let now = self.time();
        let empty = self.schema.empty_object();
        let writer = Writer { manager, api_version: "v1", subresource: "", now: &now };
        let record = self.managers.text();
        let applied = apply(&self.object, config, &record, &self.subject(&empty), &writer, force)?;
        let object = match &applied.object {
            Some(object) => self.schema.decode(object).expect("a merged object is of its type").object,
            None => self.object.clone(),
        };
        // As the server does: where nothing but a time has changed, nothing has.
        let managers = applied.managers.clone().unwrap_or_else(|| self.managers.clone());
        if object != self.object || !managers.equals_but_for_time(&self.managers) {
            (self.object, self.managers) = (object, managers);
        }
        Ok(applied)
    }

    fn apply(&mut self, manager: &str, config: Value) -> &mut World {
        self.try_apply(manager, &config, false).unwrap_or_else(|refusal| panic!("{manager}: {refusal:?}"));
        self
    }

    fn force(&mut self, manager: &str, config: Value) -> &mut World {
        self.try_apply(manager, &config, true).unwrap_or_else(|refusal| panic!("{manager}: {refusal:?}"));
        self
    }

    fn update(&mut self, manager: &str, object: Value) -> &mut World {
        let now = self.time();
        let empty = self.schema.empty_object();
        let new = self.schema.decode(&object).expect("an object of its type").object;
        let writer = Writer { manager, api_version: "v1", subresource: "", now: &now };
        let mut managers = std::mem::take(&mut self.managers);
        let subject = self.subject(&empty);
        update(&mut managers, subject.compare(&self.object, &new), &subject, &writer);
        (self.object, self.managers) = (new, managers);
        self
    }

    /// What each manager owns.
    fn owned(&self) -> Value {
        let entries = self.managers.0.iter().map(|entry| {
            let fields = serde_json::to_value(&entry.fields).expect("a set is JSON");
            (entry.manager.clone(), fields)
        });
        Value::Object(entries.collect())
    }
}

/// What a refusal says, one line for each conflict.
fn refusal(refused: Result<Applied, Refusal>) -> Vec<String> {
    match refused.expect_err("a refusal") {
        Refusal::Malformed(fault) => vec![fault.to_string()],
        Refusal::Conflicts(conflicts) => conflicts.iter().map(ToString::to_string).collect(),
    }
}

fn data(entries: Value) -> Value {
    json!({"data": entries})
}
