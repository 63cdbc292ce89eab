//! Tests of the proxy: its pure parts from outside, and its data path with real sockets and real clients.

mod attacks;
mod fixture;
mod head;
mod http1;
mod http2;
mod load;
mod smuggling;
mod streams;
mod takeover;
mod tls;
