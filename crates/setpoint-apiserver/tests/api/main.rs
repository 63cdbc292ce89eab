//! The API server over HTTP, without a socket: requests go in, and what a client would see comes out.
//!
//! The facts are those of a kube-apiserver; where a test names a message, clients or people are known to read it.

mod apply;
mod authentication;
mod authorization;
mod crds;
mod fixture;
mod garbage;
mod in_process;
mod objects;
mod reads;
mod surface;
mod watches;
mod writes;
