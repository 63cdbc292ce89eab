//! Serves a table from a file: `serve TABLE.json [THREADS]`. For trials and comparisons; it has no control plane.

use std::io::Read;

use anyhow::{Context, Result};
use setpoint_proxy::table::{Table, TableSpec};
use setpoint_proxy::{Limits, Proxy};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().context("usage: serve TABLE.json [THREADS]")?;
    let threads = arguments.next().map_or(Ok(1), |threads| threads.parse())?;
    let spec: TableSpec = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let (_proxy, applied) =
        Proxy::start(Table::compile(spec)?, Limits { threads, ..Limits::default() }, None, Vec::new())?;
    for (name, fault) in &applied.faults {
        tracing::warn!(name, fault, "a part of the table does not work");
    }
    // It serves until its standard input ends.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
