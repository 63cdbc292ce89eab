//! Attacks that once took the server down, read what was private, or acted where a person only looked.

mod api_bodies;
mod api_owners;
mod api_size;
mod api_watches;
mod audit;
mod lanes;
mod looking;
mod mixed;
mod pod_environment;
mod pod_files;
mod pod_place;
mod pod_process;
mod store_files;
