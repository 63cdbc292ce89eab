//! Rollouts: decisions as tables, and whole rollouts in a model world in which anything can go wrong.

mod analysis;
mod properties;
mod scenarios;
mod world;
