//! Machines through the real binary, at a simulated place whose records outlive the process: what is desired is made and
//! held, what is not ours is left alone, and what cannot be undone waits for people.

mod applies;
mod approvals;
mod cluster;
mod crashes;
mod drift;
mod guarding;
mod life;
mod orphans;
mod people;
mod places;
mod staleness;
mod telling;
