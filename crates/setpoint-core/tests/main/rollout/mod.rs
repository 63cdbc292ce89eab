//! Rollouts: decisions as tables, and whole rollouts in a model world in which anything can go wrong.

mod analysis;
mod mishaps;
mod properties;
mod scenarios;
mod world;
