//! Waiting for a condition with a deadline, never for a fixed time.

use std::fmt::Display;
use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long to wait between two looks at the condition.
const INTERVAL: Duration = Duration::from_millis(1);

/// Looks until `condition` answers with a value, and fails with `what` when the deadline has passed.
pub async fn wait_for<T, F>(what: impl Display, deadline: Duration, mut condition: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<Option<T>>>,
{
    let start = Instant::now();
    loop {
        if let Some(value) = condition().await? {
            return Ok(value);
        }
        if start.elapsed() > deadline {
            bail!("waited {deadline:?} in vain for {what}");
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
