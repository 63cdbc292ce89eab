//! What the program tells about its work, on standard error.

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

/// Starts logging. `SETPOINT_LOG` filters as `RUST_LOG` does elsewhere, such as `setpoint_apiserver=debug`.
pub(crate) fn start(format: Format) {
    let filter = EnvFilter::try_from_env("SETPOINT_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    match format {
        Format::Text => builder.with_ansi(colours).with_target(false).init(),
        Format::Json => builder.json().flatten_event(true).init(),
    }
}

/// Starts logging for a command whose own output is what counts: only what goes wrong is told. That a server does not answer
/// the command says itself.
pub(crate) fn start_quietly() {
    let filter = EnvFilter::try_from_env("SETPOINT_LOG").unwrap_or_else(|_| EnvFilter::new("error,kube_client=off"));
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    builder.with_ansi(colours).with_target(false).init();
}
