//! Where a data folder keeps who approved and who did what.

use std::path::Path;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use setpoint_apiserver::audit::Decisions;
use setpoint_apiserver::audit::decisions::{AdministrationFact, Retention, record_administration};

use crate::data_dir::DataDir;

/// The folder of the log's files within a data folder.
pub(crate) const DECISIONS: &str = "audit/decisions";

/// Opens the log to write to it. A command does not know for how long the server keeps it, and removes nothing.
pub(crate) fn open(data: &DataDir, retention: Option<Retention>) -> Result<Decisions> {
    let path = data.file(DECISIONS);
    Decisions::open(&path, retention).with_context(|| format!("cannot open the decision log {}", path.display()))
}

/// Writes down what a command does with the data folder. A line is written at once.
pub(crate) fn record(folder: &Path, act: &str, subject: &str) -> Result<()> {
    let by = format!("uid {}", rustix::process::getuid().as_raw());
    let fact = AdministrationFact { by, act: act.to_owned(), subject: subject.to_owned() };
    let path = folder.join(DECISIONS);
    record_administration(&path, fact, Timestamp::now())
        .with_context(|| format!("cannot write the decision log {}", path.display()))
}
