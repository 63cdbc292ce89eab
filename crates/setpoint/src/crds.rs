//! `setpoint crds`: the definitions of our kinds, for a Kubernetes cluster.

use std::io::{self, Write as _};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use serde_json::json;

#[derive(Debug, Args)]
pub(crate) struct Crds {
    /// The form to print them in: YAML documents, or one JSON List
    #[arg(short, long, value_enum, default_value_t = Output::Yaml)]
    output: Output,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    Yaml,
    Json,
}

impl Crds {
    pub(crate) fn run(&self) -> Result<()> {
        let text = match self.output {
            Output::Yaml => yaml()?,
            Output::Json => json()?,
        };
        match io::stdout().lock().write_all(text.as_bytes()) {
            // Whoever reads has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.context("cannot write to standard output"),
        }
    }
}

fn yaml() -> Result<String> {
    let mut text = String::new();
    for crd in setpoint_api::crds::all() {
        text += "---\n";
        text += &serde_saphyr::to_string(&crd).context("cannot write a definition as YAML")?;
    }
    Ok(text)
}

fn json() -> Result<String> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": setpoint_api::crds::all()});
    Ok(format!("{list:#}\n"))
}
