//! Properties and scenarios of the pure core, through its public face.

mod classify;
mod diff;
mod fixture;
mod gate;
mod graph;
mod plan;
mod resolve;
mod scenarios;
mod version;
mod workload;
