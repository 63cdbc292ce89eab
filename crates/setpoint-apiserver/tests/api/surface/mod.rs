//! What is not an object: discovery, health, metrics, and how nonsense is refused.

mod bodies;
mod discovery;
mod health;
mod identity;
mod openapi;
mod paths;
