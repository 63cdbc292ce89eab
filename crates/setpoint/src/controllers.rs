//! The controllers in the server's own process: its clients, through a function call.

use kube::Client;
use setpoint_apiserver::{Identity, Server};
use setpoint_controllers::Manager;
use setpoint_controllers::runtime::Clock;
use tokio::task::JoinHandle;

/// Starts the controllers; they work until they are aborted.
pub(crate) fn start(server: &Server) -> JoinHandle<()> {
    let identity = Identity::new("system:kube-controller-manager", Vec::<String>::new());
    let client = Client::new(server.acting_as(identity), "default");
    tokio::spawn(Manager { client, clock: Clock::System }.run())
}
