//! What is not an object: discovery, health, metrics, and how nonsense is refused.

mod audit;
mod bodies;
mod discovery;
mod fairness;
mod health;
mod identity;
mod openapi;
mod paths;
