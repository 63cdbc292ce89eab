//! Runs guarantees, each on a place of its own, and tells how each one went.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use futures::stream::{self, StreamExt};

use super::{Trial, Unproven, Verdict};
use crate::registry::{self, Driver};

/// How long one guarantee may take, whatever happens.
const DEADLINE: Duration = Duration::from_secs(180);

/// How many are tried at a time. Most of them wait most of the time; more at once would delay each other.
const AT_ONCE: usize = 4;

/// Something that the contract promises, and what proves it.
#[derive(Clone, Copy)]
pub struct Guarantee {
    /// A sentence with underscores for spaces.
    pub name: &'static str,
    pub check: for<'a> fn(&'a Trial<'a>) -> LocalBoxFuture<'a, Verdict>,
}

/// How a guarantee went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub guarantee: &'static str,
    pub verdict: Verdict,
}

/// How a whole suite went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Which deployer it was run on.
    pub deployer: String,
    pub lines: Vec<Line>,
}

/// Runs guarantees on a deployer, a few at a time, and tells each line as it is known, in their order.
pub async fn run(driver: &dyn Driver, guarantees: &[Guarantee], mut tell: impl FnMut(&Line)) -> Report {
    let proofs = stream::iter(guarantees).map(|guarantee| prove(driver, guarantee)).buffered(AT_ONCE);
    let lines = proofs.inspect(|line| tell(line)).collect().await;
    Report { deployer: registry::reference(driver), lines }
}

/// Tries to prove one guarantee on a fresh place. What panics or takes too long is broken.
pub async fn prove(driver: &dyn Driver, guarantee: &Guarantee) -> Line {
    let attempt = async {
        let subject = driver.subject().await?;
        let trial = Trial::new(&*subject);
        (guarantee.check)(&trial).await
    };
    let verdict = match tokio::time::timeout(DEADLINE, AssertUnwindSafe(attempt).catch_unwind()).await {
        Ok(Ok(verdict)) => verdict,
        Ok(Err(panic)) => Err(Unproven::Broken(format!("panicked: {}", message(&*panic)))),
        Err(_) => Err(Unproven::Broken(format!("not proven within {DEADLINE:?}"))),
    };
    Line { guarantee: guarantee.name, verdict }
}

impl Guarantee {
    /// `a delete twice is as once`.
    pub fn sentence(&self) -> String {
        sentence(self.name)
    }
}

impl Line {
    pub fn sentence(&self) -> String {
        sentence(self.guarantee)
    }
}

impl Report {
    pub fn broken(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| matches!(line.verdict, Err(Unproven::Broken(_))))
    }

    pub fn passed(&self) -> bool {
        self.broken().next().is_none()
    }

    /// `simulated@1.0.0: 52 hold, 0 are broken, 3 do not apply`.
    pub fn summary(&self) -> String {
        let held = self.lines.iter().filter(|line| line.verdict.is_ok()).count();
        let broken = self.broken().count();
        let rest = self.lines.len() - held - broken;
        format!("{}: {held} hold, {broken} are broken, {rest} do not apply", self.deployer)
    }
}

fn sentence(name: &str) -> String {
    name.replace('_', " ")
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

/// `ok      create twice makes one instance`.
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let guarantee = self.sentence();
        match &self.verdict {
            Ok(()) => write!(f, "ok      {guarantee}"),
            Err(Unproven::Broken(reason)) => write!(f, "FAILED  {guarantee}: {reason}"),
            Err(Unproven::NotApplicable(reason)) => write!(f, "n/a     {guarantee}: {reason}"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        f.write_str(&self.summary())
    }
}

impl fmt::Debug for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
