//! One object that all writers increment: optimistic concurrency must neither lose nor repeat an increment.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use setpoint_testkit::Client;

use super::PATH;
use super::address::Address;
use super::content::revision;

pub(super) const NAME: &str = "counter";

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Increments {
    acknowledged: u64,
    /// Sent, but not answered.
    doubtful: u64,
    /// Refused because another came first.
    refused: u64,
}

impl AddAssign for Increments {
    fn add_assign(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.doubtful += other.doubtful;
        self.refused += other.refused;
    }
}

pub(super) async fn create(client: &mut Client) -> Result<()> {
    let data = json!({"count": "0"});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": data});
    client.post(PATH, &object).await?.success()?;
    Ok(())
}

fn count(object: &Value) -> Result<u64> {
    Ok(object["data"]["count"].as_str().context("a counter without a count")?.parse()?)
}

/// Tries to increment once; an outer error is a broken connection, an inner one a broken promise.
pub(super) async fn increment(
    client: &mut Client,
    address: &Address,
    increments: &mut Increments,
) -> Result<Result<()>> {
    let path = format!("{PATH}/{NAME}");
    let mut object = match client.get(&path).await?.success() {
        Ok(object) => object,
        Err(error) => return Ok(Err(error)),
    };
    object["data"]["count"] = (count(&object)? + 1).to_string().into();
    increments.doubtful += 1;
    let answer = client.put(&path, &object).await?;
    increments.doubtful -= 1;
    if answer.status == 409 {
        increments.refused += 1;
        return Ok(Ok(()));
    }
    increments.acknowledged += 1;
    Ok(answer.success().and_then(|object| {
        address.saw(revision(&object)?);
        Ok(())
    }))
}

/// Every acknowledged increment counts, and nothing that was not asked for.
pub(super) fn prove(listed: &BTreeMap<String, Value>, increments: Increments) -> Result<()> {
    let count = count(&listed[NAME])?;
    let possible = increments.acknowledged..=increments.acknowledged + increments.doubtful;
    ensure!(possible.contains(&count), "the counter is {count} after {increments:?}");
    Ok(())
}
