//! Where the server is now, and the highest revision that anybody has seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use setpoint_testkit::{Client, Kubeconfig};
use tokio::sync::watch;

/// Shared by all clients; the one who kills the server announces it.
#[derive(Debug, Clone)]
pub(super) struct Address {
    state: Arc<watch::Sender<State>>,
    highest: Arc<AtomicU64>,
}

#[derive(Debug, Clone, Default)]
struct State {
    /// How often the server has been started.
    generation: u64,
    kubeconfig: Option<Kubeconfig>,
    /// Whether the clients should stop.
    finished: bool,
}

impl Address {
    pub(super) fn new(kubeconfig: Kubeconfig) -> Self {
        let state = State { generation: 1, kubeconfig: Some(kubeconfig), finished: false };
        Self { state: Arc::new(watch::Sender::new(state)), highest: Arc::default() }
    }

    pub(super) fn lose(&self) {
        self.state.send_modify(|state| state.kubeconfig = None);
    }

    pub(super) fn found(&self, kubeconfig: Kubeconfig) {
        self.state.send_modify(|state| {
            state.generation += 1;
            state.kubeconfig = Some(kubeconfig);
        });
    }

    pub(super) fn finish(&self) {
        self.state.send_modify(|state| state.finished = true);
    }

    pub(super) fn finished(&self) -> bool {
        self.state.borrow().finished
    }

    /// A connection to a server that was started after generation `after`, and its generation.
    pub(super) async fn connect(&self, after: u64) -> Result<(Client, u64)> {
        let mut states = self.state.subscribe();
        let state = states.wait_for(|state| state.generation > after && state.kubeconfig.is_some()).await?.clone();
        let kubeconfig = state.kubeconfig.as_ref().expect("the condition waited for");
        Ok((Client::new(kubeconfig)?, state.generation))
    }

    /// Notes a revision that a client was shown.
    pub(super) fn saw(&self, revision: u64) {
        self.highest.fetch_max(revision, Ordering::SeqCst);
    }

    pub(super) fn highest(&self) -> u64 {
        self.highest.load(Ordering::SeqCst)
    }
}
