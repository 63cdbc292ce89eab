//! The proxy: where requests go, as pure functions, and the data path that carries them.
//!
//! Pure, without I/O, clock or randomness of its own: [`table`] finds the route of a request, [`assignment`] and
//! [`stickiness`] divide requests between groups, [`pick`], [`ejection`], [`drain`] and [`retry_budget`] say which endpoint
//! may get one, [`forwarded`] and [`hop_by_hop`] say what is told on the way, [`measure`] counts, and [`head`] judges the
//! bytes of an HTTP/1 connection before anybody parses them.
//!
//! The data path is behind [`Proxy`]: threads with a runtime each, which share a table and nothing that waits.

pub mod assignment;
mod data;
pub mod drain;
pub mod ejection;
pub mod forwarded;
pub mod head;
pub mod hop_by_hop;
pub mod measure;
pub mod pick;
pub mod retry_budget;
pub mod saved_table;
pub mod stickiness;
pub mod table;

pub use self::data::{
    AccessLog, Applied, Inherited, Kind, Limits, Patience, Proxy, StartError, receive_sockets, send_sockets,
};
