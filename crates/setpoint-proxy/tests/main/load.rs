//! Many requests, many connections, large bodies, slow clients: bounded, exact, and nobody else is hurt.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use setpoint_proxy::table::{Action, Sticky, Table};
use setpoint_proxy::{Limits, Patience, Proxy};

use crate::fixture::{Backend, SOON, address, curl, eventually, group, limits, simple, split, start, start_with};

/// A client that keeps its connection, and opens another when that is closed between two requests.
struct Client {
    proxy: std::net::SocketAddr,
    stream: Option<TcpStream>,
}

impl Client {
    fn new(proxy: &Proxy) -> Result<Self> {
        Ok(Self { proxy: address(proxy)?, stream: None })
    }

    /// The status and the body of an answer.
    fn get(&mut self, path: &str, headers: &str) -> Result<(u16, String, String)> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                let stream = TcpStream::connect(self.proxy)?;
                stream.set_read_timeout(Some(SOON))?;
                stream.set_nodelay(true)?;
                none.insert(stream)
            }
        };
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n{headers}\r\n").as_bytes())?;
        let mut answer = Vec::new();
        let mut bytes = [0; 4096];
        let (head, length) = loop {
            let count = stream.read(&mut bytes)?;
            ensure!(count > 0, "the connection was closed after {:?}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&bytes[..count]);
            if let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&answer[..end + 2]).into_owned();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
                break (head, end + 4 + length.unwrap_or(0));
            }
        };
        while answer.len() < length {
            let count = stream.read(&mut bytes)?;
            ensure!(count > 0, "the body was cut off");
            answer.extend_from_slice(&bytes[..count]);
        }
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).context("a status")?;
        let body = String::from_utf8_lossy(&answer[head.len() + 2..]).into_owned();
        if head.contains("connection: close") {
            self.stream = None;
        }
        Ok((status, head, body))
    }
}

#[test]
fn any_ten_thousand_requests_are_divided_exactly() -> Result<()> {
    let (old, new) = (Backend::start("old")?, Backend::start("new")?);
    let mut spec = simple(&[]);
    spec.groups = [("old".to_owned(), group(&[&old])), ("new".to_owned(), group(&[&new]))].into();
    let route = &mut spec.route_sets.get_mut("main").context("the set")?[0];
    route.action = Action::Forward(split(&[("old", 9_950), ("new", 50)]));
    let proxy = start(spec)?;
    // Several clients on several threads: together they are exact.
    let clients = (0..4).map(|_| {
        let mut client = Client::new(&proxy)?;
        Ok(std::thread::spawn(move || {
            (0..2_500)
                .try_fold(0_u32, |new, _| Ok::<_, anyhow::Error>(new + u32::from(client.get("/", "")?.2 == "new")))
        }))
    });
    let clients: Vec<_> = clients.collect::<Result<_>>()?;
    let counts: Vec<u32> = clients.into_iter().map(|client| client.join().expect("a thread")).collect::<Result<_>>()?;
    ensure!(counts.iter().sum::<u32>() == 50, "{counts:?}");
    eventually("all are counted", || {
        let snapshot = proxy.snapshot();
        Ok(snapshot.groups["new"].total.requests() == 50 && snapshot.routes["main/all"].total.requests() == 10_000)
    })
}

#[test]
fn a_client_keeps_its_side() -> Result<()> {
    let (old, new) = (Backend::start("old")?, Backend::start("new")?);
    let mut spec = simple(&[]);
    spec.groups = [("old".to_owned(), group(&[&old])), ("new".to_owned(), group(&[&new]))].into();
    let mut halves = split(&[("old", 5_000), ("new", 5_000)]);
    halves.sticky = Some(Sticky::Cookie { name: "side".to_owned(), max_age_s: None });
    spec.route_sets.get_mut("main").context("the set")?[0].action = Action::Forward(halves);
    let proxy = start(spec)?;
    let mut client = Client::new(&proxy)?;
    let mut sides = BTreeMap::<String, u32>::new();
    for _ in 0..20 {
        let (_, head, side) = client.get("/", "")?;
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).context("a cookie")?.to_owned();
        let cookie = cookie.split(';').next().context("a pair")?.to_owned();
        for _ in 0..3 {
            let (_, head, again) = client.get("/", &format!("Cookie: a=b; {cookie}\r\n"))?;
            ensure!(again == side, "{cookie} went from {side} to {again}");
            ensure!(!head.contains("set-cookie"), "{head}");
        }
        *sides.entry(side).or_default() += 1;
    }
    ensure!(sides.len() == 2, "{sides:?}");
    Ok(())
}

#[test]
fn a_group_without_endpoints_leaves_its_requests_to_the_others() -> Result<()> {
    let old = Backend::start("old")?;
    let mut spec = simple(&[]);
    spec.groups = [("old".to_owned(), group(&[&old])), ("new".to_owned(), group(&[]))].into();
    spec.route_sets.get_mut("main").context("the set")?[0].action =
        Action::Forward(split(&[("old", 5_000), ("new", 5_000)]));
    let proxy = start(spec)?;
    let mut client = Client::new(&proxy)?;
    for _ in 0..100 {
        ensure!(client.get("/", "")?.2 == "old");
    }
    eventually("they are counted as failures of the empty group", || {
        let failed = proxy.snapshot().groups["new"].total.failures();
        Ok((40..=60).contains(&failed))
    })
}

#[test]
fn connections_to_endpoints_are_used_again() -> Result<()> {
    let backend = Backend::start("web")?;
    let proxy = start(simple(&[&backend]))?;
    let mut client = Client::new(&proxy)?;
    for _ in 0..200 {
        ensure!(client.get("/", "")?.0 == 200);
    }
    let at = format!("http://{}/count", address(&proxy)?);
    for _ in 0..10 {
        ensure!(curl(&["-d", "hello", &at])?.starts_with("5 "));
    }
    let connections = backend.connections.load(Ordering::SeqCst);
    ensure!(connections <= 4, "{connections} connections for one client at a time");
    Ok(())
}

/// Endpoints come and go, and a table comes every so often, while requests are being served.
#[test]
fn new_tables_under_load_fail_no_request() -> Result<()> {
    let backends = (0..4).map(|n| Backend::start(&format!("b{n}"))).collect::<Result<Vec<_>>>()?;
    let mut spec = simple(&[&backends[0], &backends[1]]);
    let proxy = Arc::new(start(spec.clone())?);
    let is_over = Arc::<AtomicBool>::default();
    let served = Arc::<AtomicU64>::default();
    let clients = (0..4).map(|_| {
        let mut client = Client::new(&proxy)?;
        let (is_over, served) = (Arc::clone(&is_over), Arc::clone(&served));
        Ok(std::thread::spawn(move || -> Result<()> {
            while !is_over.load(Ordering::SeqCst) {
                let (status, head, body) = client.get("/", "")?;
                ensure!(status == 200 && body.starts_with('b'), "{head}{body}");
                served.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
        }))
    });
    let clients: Vec<_> = clients.collect::<Result<_>>()?;
    let began = Instant::now();
    let mut version = 1;
    while began.elapsed() < Duration::from_secs(5) {
        version += 1;
        spec.version = version;
        let (first, second) = (version as usize % 4, (version as usize + 1) % 4);
        spec.groups.insert("web".to_owned(), group(&[&backends[first], &backends[second]]));
        let applied = Arc::clone(&proxy).apply(Table::compile(spec.clone())?);
        ensure!(applied.version == version && applied.faults.is_empty(), "{applied:?}");
        // What is in effect takes no new requests at once: those before it finish.
        let gone = &backends[(version as usize + 3) % 4];
        eventually("the endpoint that went is released", || Ok(proxy.in_flight_to(gone.address) == 0))?;
        let before = gone.served();
        std::thread::park_timeout(Duration::from_millis(90));
        ensure!(gone.served() == before, "an endpoint that went got another request");
    }
    is_over.store(true, Ordering::SeqCst);
    for client in clients {
        client.join().expect("a thread")?;
    }
    ensure!(served.load(Ordering::SeqCst) > 500, "{served:?} requests are no load");
    Ok(())
}

fn resident_bytes() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("a line")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}

#[test]
fn large_bodies_need_little_memory() -> Result<()> {
    const BYTES: u64 = 200 * 1024 * 1024;
    let backend = Backend::start("web")?;
    let proxy = start(simple(&[&backend]))?;
    let url = format!("http://{}", address(&proxy)?);
    curl(&["-o", "/dev/null", &format!("{url}/download?1000000")])?;
    let before = resident_bytes()?;
    let size = curl(&["-o", "/dev/null", "-w", "%{size_download}", &format!("{url}/download?{BYTES}")])?;
    ensure!(size == BYTES.to_string());
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("large");
    std::fs::File::create(&file)?.set_len(BYTES)?;
    let told = curl(&["-T", file.to_str().context("a path")?, &format!("{url}/count")])?;
    ensure!(told == format!("{BYTES} 0"), "{told}");
    let grown = resident_bytes()?.saturating_sub(before);
    ensure!(grown < 24 * 1024 * 1024, "it grew by {grown} bytes");
    Ok(())
}

#[test]
fn idle_connections_cost_little() -> Result<()> {
    const CONNECTIONS: usize = 2_000;
    let backend = Backend::start("web")?;
    let proxy = start(simple(&[&backend]))?;
    let mut client = Client::new(&proxy)?;
    client.get("/", "")?;
    let before = resident_bytes()?;
    let idle = (0..CONNECTIONS).map(|_| Client::new(&proxy)).collect::<Result<Vec<_>>>()?;
    let mut idle: Vec<Client> = idle
        .into_iter()
        .map(|mut client| {
            // Each has had a request: it is kept alive, not merely accepted.
            client.get("/", "")?;
            Ok(client)
        })
        .collect::<Result<_>>()?;
    ensure!(proxy.snapshot().connections > CONNECTIONS as u64);
    let each = resident_bytes()?.saturating_sub(before) / CONNECTIONS as u64;
    ensure!(each <= 16 * 1024, "each costs {each} bytes");
    ensure!(client.get("/", "")?.0 == 200);
    ensure!(idle[CONNECTIONS - 1].get("/", "")?.0 == 200);
    Ok(())
}

#[test]
fn slow_clients_are_given_up() -> Result<()> {
    let backend = Backend::start("web")?;
    let short = Duration::from_millis(500);
    let patience = Patience { idle: short, head: short, body: short, write: short };
    let proxy = start_with(simple(&[&backend]), Limits { patience, ..limits() }, None)?;
    let rows: [(&str, &[u8]); 5] = [
        ("nothing is said", b""),
        ("a head is never finished", b"GET / HTTP/1.1\r\nHost: a.test\r\n"),
        ("a preface is never finished", b"PRI * HTTP/2.0\r\n"),
        ("a body is never finished", b"POST /count HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nabc"),
        ("no second request follows", b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"),
    ];
    for (what, bytes) in rows {
        let began = Instant::now();
        crate::fixture::raw(address(&proxy)?, bytes)?;
        ensure!(began.elapsed() < Duration::from_secs(10), "{what}: it took {:?}", began.elapsed());
    }
    // One that does not read its answer.
    let mut deaf = TcpStream::connect(address(&proxy)?)?;
    deaf.write_all(b"GET /download?200000000 HTTP/1.1\r\nHost: a.test\r\n\r\n")?;
    eventually("it is given up", || Ok(backend.served() >= 3 && proxy.in_flight_to(backend.address) == 0))?;
    // A long answer is no reason to give a client up.
    ensure!(curl(&[&format!("http://{}/slow?2000", address(&proxy)?)])? == "web");
    Ok(())
}

#[test]
fn a_proxy_that_drains_finishes_what_it_began() -> Result<()> {
    let backend = Backend::start("web")?;
    let proxy = start(simple(&[&backend]))?;
    let at = address(&proxy)?;
    let mut idle = Client::new(&proxy)?;
    idle.get("/", "")?;
    // One that is accepted and has not said anything yet.
    let mut fresh = Client::new(&proxy)?;
    fresh.stream = Some(TcpStream::connect(at)?);
    eventually("both are accepted", || Ok(proxy.snapshot().connections == 2))?;
    let requests: Vec<_> = ["--http1.1", "--http2-prior-knowledge"]
        .map(|version| std::thread::spawn(move || curl(&[version, "-i", &format!("http://{at}/slow?500")])))
        .into();
    eventually("both are under way", || Ok(proxy.in_flight_to(backend.address) == 2))?;
    let began = Instant::now();
    let draining = std::thread::spawn(move || proxy.drain(SOON));
    eventually("nobody is accepted any more", || Ok(TcpStream::connect(at).is_err()))?;
    let (status, head, _) = fresh.get("/", "")?;
    ensure!(status == 200 && head.contains("connection: close"), "{head}");
    draining.join().expect("a thread");
    ensure!(began.elapsed() < Duration::from_secs(10), "it waited for an idle connection");
    for request in requests {
        let answer = request.join().expect("a thread")?;
        ensure!(answer.contains(" 200") && answer.ends_with("web"), "{answer}");
    }
    ensure!(TcpStream::connect(at).is_err(), "nobody listens any more");
    ensure!(idle.get("/", "").is_err(), "the idle connection was closed");
    Ok(())
}

#[test]
fn requests_are_logged_without_secrets() -> Result<()> {
    let backend = Backend::start("web")?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("access.log");
    let log = setpoint_proxy::AccessLog::to(std::fs::File::create(&file)?)?;
    let proxy = start_with(simple(&[&backend]), limits(), Some(log))?;
    let url = format!("http://{}/x?token=s3cret&page=1", address(&proxy)?);
    curl(&["-u", "alice:s3cret", "-H", "Cookie: s3cret", &url])?;
    let mut text = String::new();
    eventually("it is written", || {
        text = std::fs::read_to_string(&file)?;
        Ok(text.ends_with('\n'))
    })?;
    ensure!(!text.contains("s3cret"), "{text}");
    for part in [
        "\"method\":\"GET\"",
        "\"path\":\"/x\"",
        "\"queryNames\":\"token,page\"",
        "\"status\":200",
        "\"group\":\"web\"",
    ] {
        ensure!(text.contains(part), "{part} is missing in {text}");
    }
    let metrics = setpoint_proxy::measure::render(&proxy.snapshot());
    ensure!(metrics.contains("setpoint_proxy_group_requests_total{group=\"web\",code=\"2xx\"} 1"), "{metrics}");
    Ok(())
}
