//! Fixtures for tests and benchmarks: a real server process, the clients that drive it, and a model world to plan against.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`server`] | a `setpoint` process in a folder of its own; start, kill, restart |
//! | [`kubeconfig`] | where an API server is and how to speak to it |
//! | [`client`] | one HTTPS connection to an API server, for raw requests and watches |
//! | [`kubectl`] | the newest kubectl on this machine |
//! | [`deployers`] | what two kinds of provider can do, as data |
//! | [`process_table`] | who runs on this machine, as the kernel tells it |
//! | [`proof`] | how far a long proof goes, and its seed |
//! | [`wait`] | waiting for a condition with a deadline |
//! | [`world`] | a model of a provider and its guests, with failures and drift, to plan against |

pub mod client;
pub mod deployers;
pub mod kubeconfig;
pub mod kubectl;
pub mod process_table;
pub mod proof;
pub mod server;
pub mod wait;
pub mod world;

pub use client::{Answer, Client, Lines};
pub use kubeconfig::Kubeconfig;
pub use kubectl::Kubectl;
pub use server::Server;
pub use wait::wait_for;
