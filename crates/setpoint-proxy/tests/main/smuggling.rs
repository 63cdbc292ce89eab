//! Attacks as bytes on the wire: each is refused and its connection closed, and the backend hears nothing of it.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Result, ensure};

use crate::attacks::{ATTACKS, BROKEN_BODIES, LEGAL};
use crate::fixture::{Backend, SOON, address, raw, simple, start};

#[test]
fn attacks_are_answered_with_400_and_closed() -> Result<()> {
    let backend = Backend::start("web")?;
    let proxy = start(simple(&[&backend]))?;
    for (what, bytes) in ATTACKS {
        // What follows an attack would be smuggled: it must not be answered.
        let smuggled = [bytes, &b"GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n"[..]].concat();
        let answer = raw(address(&proxy)?, &smuggled)?;
        ensure!(answer.starts_with("HTTP/1.1 400 "), "{what}: {answer}");
        ensure!(answer.to_ascii_lowercase().contains("connection: close"), "{what}: {answer}");
        ensure!(answer.matches("HTTP/1.1 ").count() == 1, "{what}: {answer}");
    }
    ensure!(backend.served() == 0, "the backend heard of {} attacks", backend.served());
    let refused: u64 = proxy.snapshot().refused.values().sum();
    ensure!(refused == ATTACKS.len() as u64, "{refused} were counted");
    Ok(())
}

#[test]
fn an_attack_behind_a_request_is_refused_after_its_answer() -> Result<()> {
    let backend = Backend::start("web")?;
    let proxy = start(simple(&[&backend]))?;
    let bytes = b"GET /slow?50 HTTP/1.1\r\nHost: a.test\r\n\r\nGET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n";
    let answer = raw(address(&proxy)?, bytes)?;
    let (first, second) = (answer.find("HTTP/1.1 200 "), answer.find("HTTP/1.1 400 "));
    ensure!(first.is_some() && second > first, "{answer}");
    ensure!(backend.served() == 1);
    Ok(())
}

#[test]
fn broken_bodies_end_the_connection() -> Result<()> {
    let backend = Backend::start("web")?;
    let proxy = start(simple(&[&backend]))?;
    for (what, body) in BROKEN_BODIES {
        let head = b"POST /count HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n";
        let answer = raw(address(&proxy)?, &[&head[..], body].concat())?;
        ensure!(answer.starts_with("HTTP/1.1 400 "), "{what}: {answer}");
    }
    Ok(())
}

#[test]
fn odd_but_legal_requests_are_served() -> Result<()> {
    let backend = Backend::start("web")?;
    let proxy = start(simple(&[&backend]))?;
    for (what, bytes) in LEGAL {
        // The next request says where this one ended, and closes the connection.
        let next = b"GET /next HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
        let is_closed = what.contains("HTTP/1.0 without");
        let all = if is_closed { bytes.to_vec() } else { [bytes, &next[..]].concat() };
        let answer = raw(address(&proxy)?, &all)?;
        let expected = if is_closed { 1 } else { 2 };
        ensure!(answer.matches(" 200 OK").count() == expected, "{what}: {answer}");
    }
    Ok(())
}

#[test]
fn a_large_head_is_refused_and_others_go_on() -> Result<()> {
    let backend = Backend::start("web")?;
    let proxy = start(simple(&[&backend]))?;
    let mut flood = TcpStream::connect(address(&proxy)?)?;
    flood.set_read_timeout(Some(SOON))?;
    flood.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n")?;
    let line = format!("X-Flood: {}\r\n", "x".repeat(1_000));
    // The write may be cut short once the proxy has had enough.
    let _refused = (0..200).try_for_each(|_| flood.write_all(line.as_bytes()));
    let mut answer = Vec::new();
    let _reset = flood.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    ensure!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let other = raw(address(&proxy)?, b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")?;
    ensure!(other.starts_with("HTTP/1.1 200 "), "{other}");
    Ok(())
}
