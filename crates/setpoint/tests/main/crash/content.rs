//! What the objects hold: text that follows from a number, so that a half-written object cannot go unnoticed.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use setpoint_testkit::Client;

use super::PATH;

/// The object that is written when all is over.
pub(super) const END: &str = "end";

/// The number that an object's text follows from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Content(pub(super) u64);

impl Content {
    pub(super) fn object(&self, name: &str) -> Value {
        let data = json!({"number": self.0.to_string(), "text": self.text()});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
    }

    /// Reads an object back, and fails if it is not whole.
    pub(super) fn read(object: &Value) -> Result<Self> {
        let number = object["data"]["number"].as_str().with_context(|| format!("no number in {object}"))?;
        let content = Self(number.parse()?);
        ensure!(object["data"]["text"] == content.text(), "half an object: {object}");
        Ok(content)
    }

    /// From nothing to 4 KB.
    fn text(&self) -> String {
        let length = (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % 4096;
        format!("{} ", self.0).chars().cycle().take(length).collect()
    }
}

pub(super) fn revision(object: &Value) -> Result<u64> {
    let text = object["metadata"]["resourceVersion"].as_str().with_context(|| format!("no revision in {object}"))?;
    Ok(text.parse()?)
}

/// Creates an object and returns its revision.
pub(super) async fn create(client: &mut Client, name: &str, number: u64) -> Result<u64> {
    revision(&client.post(PATH, &Content(number).object(name)).await?.success()?)
}
