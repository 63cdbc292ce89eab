//! Properties and scenarios of the pure core, through its public face.

mod classify;
mod diff;
mod fixture;
mod plan;
mod scenarios;
mod workload;
