//! Properties and scenarios of the pure core, through its public face.

mod graph;
mod resolve;
mod version;
