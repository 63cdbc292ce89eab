//! When a process that serves is told to stop.

use anyhow::Result;
use tokio::signal::unix::{Signal, SignalKind};

/// Resolves when the process is told to stop.
pub(crate) fn signal() -> Result<impl Future<Output = ()>> {
    let mut terminate = tokio::signal::unix::signal(SignalKind::terminate())?;
    let mut interrupt = tokio::signal::unix::signal(SignalKind::interrupt())?;
    Ok(async move {
        either(&mut terminate, &mut interrupt).await;
        tracing::info!("stopping; a second signal ends at once");
        tokio::spawn(async move {
            either(&mut terminate, &mut interrupt).await;
            std::process::exit(1);
        });
    })
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
