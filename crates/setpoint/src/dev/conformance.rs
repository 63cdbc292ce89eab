//! `setpoint dev conformance`: runs the contract's suite on a deployer, one line per guarantee.

use std::io::{self, Write as _};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use setpoint_deployer::conformance::{self, GUARANTEES, Guarantee, Liar, Noop};
use setpoint_deployer::{Driver, Registry};

use crate::deployers;

#[derive(Debug, Args)]
pub(crate) struct Conformance {
    /// The deployer, with a version if need be: `process`, `process@1.2`
    name: String,
    /// Try only the guarantees whose sentence holds these words
    #[arg(long, value_name = "WORDS")]
    only: Option<String>,
}

impl Conformance {
    pub(crate) fn run(&self) -> Result<()> {
        let registry = registry()?;
        let driver = registry.find_by_reference(&self.name)?;
        let guarantees = self.guarantees();
        ensure!(!guarantees.is_empty(), "no guarantee says `{}`", self.only.as_deref().unwrap_or_default());
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let mut written = Ok(());
        let report = runtime.block_on(conformance::run(&**driver, &guarantees, |line| {
            if written.is_ok() {
                written = writeln!(io::stdout(), "{line}");
            }
        }));
        match written.and_then(|()| writeln!(io::stdout(), "{}", report.summary())) {
            // Whoever reads has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            written => written.context("cannot write to standard output")?,
        }
        if let Some(first) = report.broken().next() {
            bail!("{} does not keep the contract: {}", report.deployer, first.sentence());
        }
        Ok(())
    }

    fn guarantees(&self) -> Vec<Guarantee> {
        let words = self.only.as_deref().unwrap_or_default();
        GUARANTEES.iter().filter(|guarantee| guarantee.sentence().contains(words)).copied().collect()
    }
}

/// The deployers of this binary, and two that are there to be found out.
fn registry() -> Result<Registry> {
    let mut registry = deployers::registry()?;
    for pretender in [Arc::new(Liar) as Arc<dyn Driver>, Arc::new(Noop)] {
        registry.register(pretender)?;
    }
    Ok(registry)
}
