//! Properties and scenarios of the pure core, through its public face.

mod authority;
mod authority_properties;
mod check;
mod classify;
mod diff;
mod drift;
mod fixture;
mod gate;
mod graph;
mod intent;
mod lifecycle;
mod machine;
mod machine_status;
mod plan;
mod plan_properties;
mod progress;
mod removal;
mod resolve;
mod rollout;
mod scenarios;
mod scheduling;
mod split;
mod steps;
mod version;
mod workload;
mod writes;
