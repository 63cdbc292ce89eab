//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use setpoint_testkit::Kubeconfig;

use crate::subject::Subject;

/// Measure a Kubernetes API server, and etcd beside it.
#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// The binary to measure [default: `setpoint` beside this one]
    #[arg(long, value_name = "FILE")]
    setpoint: Option<PathBuf>,

    /// Measure the server of this kubeconfig instead of starting one
    #[arg(long, value_name = "FILE", conflicts_with = "setpoint")]
    kubeconfig: Option<PathBuf>,

    /// The processes of the kubeconfig's server, to measure their memory
    #[arg(long, value_name = "PID", requires = "kubeconfig", value_delimiter = ',')]
    pid: Vec<u32>,

    /// An earlier binary to compare creates with
    #[arg(long, value_name = "FILE")]
    pub(crate) before: Option<PathBuf>,

    /// The etcd to compare with
    #[arg(long, value_name = "FILE", default_value = "etcd")]
    pub(crate) etcd: PathBuf,

    /// The proxy to measure: the example `serve` of setpoint-proxy [default: `examples/serve` beside this one]
    #[arg(long, value_name = "FILE")]
    proxy: Option<PathBuf>,

    /// Measure only these parts
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<Part>,

    /// Measure for a shorter time: figures are rough
    #[arg(long)]
    pub(crate) quick: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Finding out who may do what.
    Access,
    /// Server-side apply.
    Apply,
    Creates,
    /// CustomResourceDefinitions.
    Crds,
    /// The same puts into etcd, in turn with the creates.
    Etcd,
    /// The dependents of a deleted owner.
    Gc,
    Get,
    /// Goals, and the Plans that serve them.
    Goals,
    /// Machines of a fast Environment beside one that is stuck.
    Lanes,
    List,
    /// Machines in a simulated Environment.
    Machines,
    Memory,
    /// Planning for an environment, without a server.
    Plan,
    /// Pods on this machine.
    Processes,
    /// The proxy beside nginx and haproxy, with wrk; only if it is asked for.
    Proxy,
    Start,
    Watch,
    /// Pods of workloads in a simulated Environment.
    Workloads,
}

impl Arguments {
    pub(crate) fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    pub(crate) fn names(&self, part: Part) -> bool {
        self.only.contains(&part)
    }

    pub(crate) fn wants_only(&self, part: Part) -> bool {
        self.only == [part]
    }

    pub(crate) fn subject(&self) -> Result<Subject> {
        if let Some(path) = &self.kubeconfig {
            return Ok(Subject::Running(Box::new(Kubeconfig::read(path)?), self.pid.clone()));
        }
        let beside = || Some(std::env::current_exe().ok()?.with_file_name("setpoint"));
        let program = self.setpoint.clone().or_else(beside).context("no setpoint binary; give --setpoint")?;
        anyhow::ensure!(program.exists(), "{} does not exist: build it with the same profile", program.display());
        Ok(Subject::Program(program))
    }

    pub(crate) fn proxy(&self) -> Result<PathBuf> {
        let beside = || Some(std::env::current_exe().ok()?.with_file_name("examples").join("serve"));
        let program = self.proxy.clone().or_else(beside).context("no proxy; give --proxy")?;
        let how = "cargo build --release -p setpoint-proxy --example serve";
        anyhow::ensure!(program.exists(), "{} does not exist: {how}", program.display());
        Ok(program)
    }

    /// How long one measurement of throughput takes.
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs(if self.quick { 1 } else { 4 })
    }

    /// How often each is repeated; the median counts.
    pub(crate) fn rounds(&self) -> usize {
        if self.quick { 1 } else { 3 }
    }

    /// How many objects the larger of the two populations has.
    pub(crate) fn population(&self) -> u64 {
        if self.quick { 20_000 } else { 100_000 }
    }
}
