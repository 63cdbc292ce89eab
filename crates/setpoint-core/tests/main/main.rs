//! Properties and scenarios of the pure core, through its public face.
mod plan_properties;
