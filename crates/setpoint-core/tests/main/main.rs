//! Properties and scenarios of the pure core, through its public face.

mod lifecycle;
mod rollout;
mod split;
