//! The data path: threads that accept connections, and carry requests to where the table says.

mod access_log;
mod affinity;
mod answer;
mod attempts;
mod body;
mod connection;
mod exchange;
mod listeners;
mod live;
mod outgoing;
mod proxy;
mod relay;
mod service;
mod shared;
mod stream;
mod takeover;
mod tcp;
mod tls;
mod udp;
mod upgrade;
mod upstream;
mod watch;
mod wire;
mod worker;

pub use self::access_log::AccessLog;
pub use self::listeners::{Inherited, Kind};
pub use self::proxy::{Applied, Proxy, StartError};
pub use self::shared::Limits;
pub use self::takeover::{receive_sockets, send_sockets};
pub use self::watch::Patience;
