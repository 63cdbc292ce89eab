//! The Kubernetes API over a Setpoint store.
//!
//! A request is read by [`request`], [`query`] and [`negotiate`], comes from somebody whom [`authentication`] knows, is
//! allowed by [`authorization`], waits for its turn in [`fairness`], is answered by one of [`verbs`] and written by
//! [`render`] and [`response`], or reaches into a Pod by [`streams`]; what it changes has to pass [`admission`], and
//! [`audit`] writes it down. What is particular to a kind stands in [`kinds`] behind the trait in [`kind`]; how an
//! object is kept stands in [`object`]. Everything that decides is pure; [`server`], [`verbs`], [`namespaces`],
//! [`garbage`], [`expiry`], [`own_kinds`], [`live_policy`], [`audit`], the users' file in [`authentication`] and
//! [`custom::Definitions`] do the I/O, and so do the sessions of [`streams`].

pub mod admission;
pub mod apply;
pub mod audit;
pub mod authentication;
pub mod authorization;
pub mod built_in;
pub mod cel;
pub mod columns;
pub mod custom;
pub mod deletion;
pub mod discovery;
pub mod expiry;
pub mod failure;
pub mod fairness;
mod fence;
pub mod filter;
pub mod garbage;
pub mod go_regex;
mod head;
pub mod health;
mod idle;
mod in_process;
pub mod ip;
pub mod json_syntax;
pub mod kind;
pub mod kinds;
mod linger;
pub mod listener;
pub mod live_policy;
pub mod metrics;
pub mod namespaces;
pub mod negotiate;
pub mod object;
pub mod object_meta;
pub mod object_size;
pub mod openapi;
pub mod own_kinds;
pub mod patch;
pub mod pieces;
#[cfg(test)]
mod proportion;
pub mod query;
pub mod record;
pub mod registry;
pub mod render;
pub mod request;
mod request_log;
pub mod response;
pub mod reviews;
pub mod schema;
pub mod schema_facts;
pub mod selector;
pub mod server;
pub mod service_ip;
pub mod settled;
mod shared_text;
pub mod streams;
pub mod surroundings;
pub mod verbs;
pub mod write;

pub use authentication::{Identity, Issuer, Users};
pub use in_process::InProcess;
pub use object_size::OBJECT_LIMIT;
pub use server::{BODY_LIMIT, Server, Setup};
pub use surroundings::Surroundings;
