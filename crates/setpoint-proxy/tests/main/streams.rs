//! TCP and UDP through the proxy.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use setpoint_proxy::Proxy;
use setpoint_proxy::table::{Affinity, Endpoint, Group, Listener, Serves, Table, TableSpec};

use crate::fixture::{SOON, address, eventually, listener, start};

fn endpoint(address: SocketAddr) -> Endpoint {
    Endpoint { address, ready: true, terminating: false }
}

fn spec(serves: Serves, endpoints: Vec<Endpoint>) -> TableSpec {
    TableSpec {
        version: 1,
        listeners: vec![listener("web", serves)],
        groups: [("g".to_owned(), Group { endpoints, ..Group::default() })].into(),
        ..TableSpec::default()
    }
}

fn tcp(endpoints: Vec<Endpoint>) -> TableSpec {
    spec(Serves::Tcp { group: "g".to_owned() }, endpoints)
}

/// Answers only after the client has ended its half, with what it said and with its own name.
fn tcp_backend(name: &'static str) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut said = Vec::new();
                stream.read_to_end(&mut said)?;
                stream.write_all(name.as_bytes())?;
                stream.write_all(&said)
            });
        }
    });
    Ok(address)
}

fn say(proxy: &Proxy, bytes: &[u8]) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address(proxy)?)?;
    stream.set_read_timeout(Some(SOON))?;
    stream.write_all(bytes)?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

#[test]
fn tcp_is_carried_with_half_close() -> Result<()> {
    let proxy = start(tcp(vec![endpoint(tcp_backend("a:")?)]))?;
    ensure!(say(&proxy, b"hello")? == b"a:hello");
    let large = vec![7; 3_000_000];
    let answer = say(&proxy, &large)?;
    ensure!(answer.len() == large.len() + 2 && answer[2..] == large[..]);
    eventually("it is counted", || {
        let counts = proxy.snapshot().groups["g"].total.clone();
        Ok(counts.requests() == 2 && counts.request_bytes == 3_000_005)
    })
}

#[test]
fn a_connection_goes_to_an_endpoint_that_takes_it() -> Result<()> {
    let gone = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let proxy = start(tcp(vec![endpoint(gone), endpoint(tcp_backend("a:")?)]))?;
    for _ in 0..20 {
        ensure!(say(&proxy, b"x")? == b"a:x");
    }
    let proxy = start(tcp(vec![]))?;
    let mut stream = TcpStream::connect(address(&proxy)?)?;
    stream.set_read_timeout(Some(SOON))?;
    ensure!(stream.read(&mut [0; 1]).unwrap_or(0) == 0, "without an endpoint it is closed");
    Ok(())
}

#[test]
fn a_client_stays_with_its_endpoint() -> Result<()> {
    let backends = ["a", "b", "c", "d"].map(tcp_backend).into_iter().collect::<Result<Vec<_>>>()?;
    let endpoints: Vec<_> = backends.iter().map(|address| endpoint(*address)).collect();
    let mut spec = tcp(endpoints[..3].to_vec());
    spec.groups.get_mut("g").context("the group")?.affinity = Some(Affinity { timeout_s: 60 });
    let proxy = start(spec.clone())?;
    let from = |last: u8| -> Result<Vec<u8>> {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&socket, &SocketAddr::from(([127, 0, 0, last], 0)))?;
        connect(&socket, &address(&proxy)?)?;
        let mut stream = TcpStream::from(socket);
        stream.shutdown(Shutdown::Write)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    };
    let clients = || (2..40).map(from).collect::<Result<Vec<_>>>();
    let first = clients()?;
    ensure!(first.iter().collect::<BTreeSet<_>>().len() == 3, "all endpoints have clients");
    ensure!(clients()? == first);
    spec.version = 2;
    spec.groups.get_mut("g").context("the group")?.endpoints = endpoints;
    proxy.apply(Table::compile(spec)?);
    ensure!(clients()? == first, "another endpoint moves nobody");
    Ok(())
}

#[test]
fn an_open_connection_survives_its_endpoints_draining() -> Result<()> {
    let backend = tcp_backend("a:")?;
    let mut spec = tcp(vec![endpoint(backend)]);
    let proxy = start(spec.clone())?;
    let mut stream = TcpStream::connect(address(&proxy)?)?;
    stream.set_read_timeout(Some(SOON))?;
    stream.write_all(b"x")?;
    eventually("it is in flight", || Ok(proxy.in_flight_to(backend) == 1))?;
    spec.version = 2;
    spec.groups.get_mut("g").context("the group")?.endpoints[0].terminating = true;
    proxy.apply(Table::compile(spec)?);
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(answer == "a:x");
    eventually("it is released", || Ok(proxy.in_flight_to(backend) == 0))
}

#[test]
fn udp_goes_by_flow() -> Result<()> {
    let backends = (0..3)
        .map(|number: u8| {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            let address = socket.local_addr()?;
            std::thread::spawn(move || {
                let mut bytes = [0; 65_535];
                while let Ok((count, client)) = socket.recv_from(&mut bytes) {
                    let answer = [&[number], &bytes[..count]].concat();
                    if socket.send_to(&answer, client).is_err() {
                        return;
                    }
                }
            });
            Ok(endpoint(address))
        })
        .collect::<Result<Vec<_>>>()?;
    let mut spec = spec(Serves::Udp { group: "g".to_owned() }, backends);
    let proxy = start(spec.clone())?;
    let at = address(&proxy)?;
    let ask = |socket: &UdpSocket, bytes: &[u8]| -> Result<Vec<u8>> {
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        socket.send_to(bytes, at)?;
        let mut answer = [0; 65_535];
        let (count, from) = socket.recv_from(&mut answer)?;
        ensure!(from == at, "it is answered from {from}");
        Ok(answer[..count].to_vec())
    };
    let clients = (0..20).map(|_| UdpSocket::bind("127.0.0.1:0")).collect::<std::io::Result<Vec<_>>>()?;
    let first: Vec<u8> = clients.iter().map(|client| Ok(ask(client, b"x")?[0])).collect::<Result<_>>()?;
    ensure!(first.iter().collect::<BTreeSet<_>>().len() == 3, "all endpoints have flows: {first:?}");
    for (client, number) in clients.iter().zip(&first) {
        ensure!(ask(client, &[1; 9_000])?.len() == 9_001);
        ensure!(ask(client, b"again")?[0] == *number, "a flow stays");
    }
    // An endpoint that gets no more requests loses its flows to the others.
    spec.version = 2;
    spec.groups.get_mut("g").context("the group")?.endpoints[0].ready = false;
    proxy.apply(Table::compile(spec.clone())?);
    for client in &clients {
        ensure!(ask(client, b"y")?[0] != 0);
    }
    // A listener that goes frees its address at once, and one that comes back gets it.
    let listeners = std::mem::take(&mut spec.listeners);
    spec.version = 3;
    proxy.apply(Table::compile(spec.clone())?);
    eventually("the address is free", || Ok(UdpSocket::bind(at).is_ok()))?;
    spec.version = 4;
    spec.listeners = vec![Listener { address: at, ..listeners[0].clone() }];
    ensure!(proxy.apply(Table::compile(spec)?).faults.is_empty());
    ensure!(ask(&clients[0], b"z")?[0] != 0);
    Ok(())
}
