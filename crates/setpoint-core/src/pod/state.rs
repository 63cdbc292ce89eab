//! What is observed of a Pod's containers.

use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How many notices are kept: the newest.
pub const MAX_NOTICES: usize = 32;

/// A Pod as it is where it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodState {
    /// When the first of its containers was to start.
    pub started_at: Timestamp,
    /// Where it can be reached; absent where it has no address of its own yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<IpAddr>,
    /// Init containers in their order, then the others in theirs.
    pub containers: Vec<ContainerState>,
    /// The ports that containers declare, and where they are to be reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortState>,
    /// Since when it is being stopped, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopping_since: Option<Timestamp>,
    /// What happened, oldest first; at most [`MAX_NOTICES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// One container as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerState {
    pub name: String,
    pub role: Role,
    pub phase: Phase,
    /// How its run before this one ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<Exit>,
    /// How often it was started again.
    pub restarts: u32,
    /// Whether it is beyond its startup probe.
    pub is_started: bool,
    /// Whether it is ready for traffic. A container without a readiness probe is ready while it runs and is started.
    pub is_ready: bool,
    /// Which run of it this is, for people: a process with the time it started, an engine's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// What it has used, as far as that is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// What a run of a container has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub cpu_microseconds: u64,
    pub memory_bytes: u64,
    pub peak_memory_bytes: u64,
}

/// What a container is to its Pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Role {
    /// It runs to its end before the next begins.
    Init,
    /// An init container that goes on: the next begins when it has started, and it is stopped last.
    Sidecar,
    Main,
}

/// What a container does now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// It does not run, and is still to: `PodInitializing`, `ContainerCreating`, `CrashLoopBackOff`.
    #[serde(rename_all = "camelCase")]
    Waiting { reason: String, message: String },
    #[serde(rename_all = "camelCase")]
    Running { started_at: Timestamp },
    /// It does not run, and will not again.
    Ended(Exit),
}

/// How a run of a container ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exit {
    /// As a shell tells it: 128 and the signal's number, if a signal ended it.
    pub code: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// `Completed`, `Error`, `OOMKilled`, `StartError`; `ContainerStatusUnknown` where nobody saw it.
    pub reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Absent if it never ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    pub finished_at: Timestamp,
}

/// A port that a container declares, and the one that it was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortState {
    pub container: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub container_port: u16,
    pub assigned_port: u16,
}

/// Something that happened and that people want to know: it becomes an Event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// Counts all notices of the Pod, from 1: who has seen one has seen all before it.
    pub number: u64,
    pub at: Timestamp,
    pub kind: NoticeKind,
    /// `Started`, `Killing`, `Unhealthy`, `BackOff`, …
    pub reason: String,
    /// The container it happened to, if it did not happen to all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoticeKind {
    Normal,
    Warning,
}

/// The reason of a container that never had its turn.
pub const NEVER_STARTED: &str = "NeverStarted";

impl Exit {
    /// Whether it is the end of a container that never had its turn.
    pub fn is_of_what_never_ran(&self) -> bool {
        self.started_at.is_none() && self.reason == NEVER_STARTED
    }
}

impl PodState {
    pub fn container(&self, name: &str) -> Option<&ContainerState> {
        self.containers.iter().find(|container| container.name == name)
    }

    /// Whether nothing of it runs, nor will.
    pub fn has_ended(&self) -> bool {
        self.containers.iter().all(|container| matches!(container.phase, Phase::Ended(_)))
    }

    /// Adds what happened, and forgets the oldest where there is no more place.
    pub fn note(&mut self, at: Timestamp, kind: NoticeKind, reason: &str, container: Option<&str>, message: String) {
        let number = self.notices.last().map_or(1, |last| last.number + 1);
        if self.notices.len() == MAX_NOTICES {
            self.notices.remove(0);
        }
        let container = container.map(str::to_owned);
        self.notices.push(Notice { number, at, kind, reason: reason.to_owned(), container, message });
    }
}

impl ContainerState {
    /// A container that has not run yet.
    pub fn waiting(name: &str, role: Role, reason: &str) -> ContainerState {
        ContainerState {
            name: name.to_owned(),
            role,
            phase: Phase::Waiting { reason: reason.to_owned(), message: String::new() },
            last_exit: None,
            restarts: 0,
            is_started: false,
            is_ready: false,
            run_id: None,
            usage: None,
        }
    }

    pub fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running { .. })
    }
}
