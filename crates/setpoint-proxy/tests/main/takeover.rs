//! Another process takes the sockets over while clients connect.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use setpoint_proxy::table::Table;
use setpoint_proxy::{Proxy, receive_sockets, send_sockets};

use crate::fixture::{Backend, SOON, address, limits, raw, simple, start};

#[test]
fn no_connection_is_refused_while_sockets_change_hands() -> Result<()> {
    let backend = Backend::start("web")?;
    let mut spec = simple(&[&backend]);
    let mut proxy = start(spec.clone())?;
    let at = address(&proxy)?;
    // The next process knows the address by the table, as it would be.
    spec.listeners[0].address = at;
    let is_over = Arc::<AtomicBool>::default();
    let clients: Vec<_> = (0..3)
        .map(|_| {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || -> Result<u32> {
                let mut served = 0;
                while !is_over.load(Ordering::SeqCst) {
                    let answer = raw(at, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
                    ensure!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("web"), "{answer:?}");
                    served += 1;
                }
                Ok(served)
            })
        })
        .collect();
    for version in 2..12 {
        spec.version = version;
        let (old, new) = UnixStream::pair()?;
        send_sockets(&old, &proxy.sockets()?)?;
        let sockets = receive_sockets(&new)?;
        ensure!(sockets.len() == 1 && sockets[0].address == at);
        let (next, applied) = Proxy::start(Table::compile(spec.clone())?, limits(), None, sockets)?;
        ensure!(applied.faults.is_empty(), "{applied:?}");
        std::mem::replace(&mut proxy, next).drain(SOON);
    }
    is_over.store(true, Ordering::SeqCst);
    for client in clients {
        ensure!(client.join().expect("a thread").context("a client was not served")? > 0);
    }
    Ok(())
}
