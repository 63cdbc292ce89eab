//! The proxy beside nginx and haproxy: the same backend, the same load from wrk, one thread each, in turns.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::arguments::Arguments;
use crate::process;
use crate::report::{Peer, Report, Row, Target};

/// A process that ends with the measurement.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

/// What wrk says of one run.
#[derive(Clone, Copy, Default)]
struct Run {
    requests_per_s: f64,
    p99_ms: f64,
}

/// One load, and who is measured under it.
struct Cell {
    what: &'static str,
    path: &'static str,
    connections: u32,
    is_tcp: bool,
    is_split: bool,
}

const CELLS: [Cell; 7] = [
    Cell { what: "1 KB, 1 connection", path: "/small", connections: 1, is_tcp: false, is_split: false },
    Cell { what: "1 KB, 64 connections", path: "/small", connections: 64, is_tcp: false, is_split: false },
    Cell { what: "1 KB, 256 connections", path: "/small", connections: 256, is_tcp: false, is_split: false },
    Cell { what: "100 KB, 64 connections", path: "/large", connections: 64, is_tcp: false, is_split: false },
    Cell { what: "9950/50 split, 64 connections", path: "/small", connections: 64, is_tcp: false, is_split: true },
    Cell { what: "TCP, 1 KB, 64 connections", path: "/small", connections: 64, is_tcp: true, is_split: false },
    Cell { what: "TCP, 100 KB, 64 connections", path: "/large", connections: 64, is_tcp: true, is_split: false },
];

/// Where everybody listens.
struct Places {
    backend: SocketAddr,
    plain: [SocketAddr; 2],
    split: [SocketAddr; 2],
    tcp: [SocketAddr; 2],
}

pub(crate) fn measure(arguments: &Arguments, report: &mut Report) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = arguments.proxy()?;
    let free = || -> Result<SocketAddr> { Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?) };
    let places =
        Places { backend: free()?, plain: [free()?, free()?], split: [free()?, free()?], tcp: [free()?, free()?] };
    report.add(Row::new("load of the machine beforehand", "", process::load()?));
    let _backend = backend(folder.path(), places.backend)?;
    let _nginx = nginx(folder.path(), &places)?;
    let _haproxy = haproxy(folder.path(), &places)?;
    let proxy = setpoint(folder.path(), &program, &places)?;
    let memory = process::memory(&[proxy.0.id()])?;
    report.add(Row::new("proxy: memory, idle", "MB", memory.proportional_mb).target(Target::AtMost(10.0)));
    for cell in &CELLS {
        let (places, peer) = match (cell.is_tcp, cell.is_split) {
            (true, _) => (&places.tcp, "haproxy"),
            (false, true) => (&places.split, "nginx"),
            (false, false) => (&places.plain, "nginx"),
        };
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..arguments.rounds() {
            ours.push(wrk(places[0], cell, arguments.duration())?);
            theirs.push(wrk(places[1], cell, arguments.duration())?);
        }
        let (ours, theirs) = (median(ours), median(theirs));
        let wanted = if cell.is_tcp { 0.95 } else { 1.0 };
        let row = Row::new(format!("proxy: {}", cell.what), "requests/s", ours.requests_per_s)
            .peer(Some(Peer { name: peer, figure: theirs.requests_per_s }))
            .target(Target::RatioAtLeast(wanted));
        report.add(row);
        let row = Row::new(format!("proxy: {}, p99", cell.what), "ms", ours.p99_ms)
            .peer(Some(Peer { name: peer, figure: theirs.p99_ms }))
            .target(Target::RatioAtMost(1.0));
        report.add(row);
    }
    Ok(())
}

fn backend(folder: &Path, address: SocketAddr) -> Result<Server> {
    fs::write(folder.join("small"), "x".repeat(1_000))?;
    fs::write(folder.join("large"), "x".repeat(100_000))?;
    let server = format!("server {{ listen {address}; root {}; open_file_cache max=10; }}", folder.display());
    run_nginx(folder, "backend", &server, address)
}

fn nginx(folder: &Path, places: &Places) -> Result<Server> {
    let backend = places.backend;
    let upstream =
        |name: &str| format!("upstream {name} {{ server {backend}; keepalive 256; keepalive_requests 100000000; }}");
    let to = |listen: SocketAddr, upstream: &str| {
        format!(
            "server {{ listen {listen}; location / {{ proxy_pass http://{upstream}; proxy_http_version 1.1; \
             proxy_set_header Connection \"\"; proxy_set_header Host $host; \
             proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Request-Id $request_id; }} }}"
        )
    };
    let blocks = [
        upstream("a"),
        upstream("b"),
        "split_clients $request_id $side { 99.5% a; * b; }".to_owned(),
        to(places.plain[1], "a"),
        to(places.split[1], "$side"),
    ];
    run_nginx(folder, "nginx", &blocks.join("\n"), places.plain[1])
}

fn run_nginx(folder: &Path, name: &str, blocks: &str, address: SocketAddr) -> Result<Server> {
    let config = folder.join(format!("{name}.conf"));
    let text = format!(
        "daemon off; worker_processes 1; master_process off; error_log stderr crit; pid {folder}/{name}.pid;\n\
         events {{ worker_connections 4096; }}\n\
         http {{ access_log off; keepalive_requests 100000000; client_body_temp_path {folder}/{name}-bodies;\n\
         proxy_temp_path {folder}/{name}-proxied; tcp_nodelay on; sendfile on;\n{blocks}\n}}\n",
        folder = folder.display(),
    );
    fs::write(&config, text)?;
    start(Command::new("nginx").arg("-c").arg(&config), address)
}

fn haproxy(folder: &Path, places: &Places) -> Result<Server> {
    let config = folder.join("haproxy.cfg");
    let text = format!(
        "global\n  nbthread 1\n  maxconn 4096\n\
         defaults\n  mode tcp\n  timeout connect 3s\n  timeout client 60s\n  timeout server 60s\n\
         listen tcp\n  bind {}\n  server backend {}\n",
        places.tcp[1], places.backend
    );
    fs::write(&config, text)?;
    start(Command::new("haproxy").arg("-db").arg("-f").arg(&config), places.tcp[1])
}

fn setpoint(folder: &Path, program: &Path, places: &Places) -> Result<Server> {
    let endpoints = json!([{ "address": places.backend, "ready": true }]);
    let http = |routes: &str| json!({ "http": { "routes": routes } });
    let listener = |name: &str, address, serves| json!({ "name": name, "address": address, "serves": serves });
    let route =
        |assignment| json!([{ "name": "all", "action": { "forward": { "name": "all", "assignment": assignment } } }]);
    let run = |group: &str, points: u16| json!({ "group": group, "points": points });
    let table = json!({
        "version": 1,
        "listeners": [
            listener("plain", places.plain[0], http("plain")),
            listener("split", places.split[0], http("split")),
            listener("tcp", places.tcp[0], json!({ "tcp": { "group": "a" } })),
        ],
        "routeSets": {
            "plain": route(json!([run("a", 10_000)])),
            "split": route(json!([run("a", 9_950), run("b", 50)])),
        },
        "groups": { "a": { "endpoints": endpoints }, "b": { "endpoints": endpoints } },
    });
    let file = folder.join("table.json");
    fs::write(&file, table.to_string())?;
    start(Command::new(program).arg(&file).arg("1"), places.plain[0])
}

/// Starts a server and waits until it answers.
fn start(command: &mut Command, address: SocketAddr) -> Result<Server> {
    // A proxy lives as long as its standard input is open.
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let server = Server(child.with_context(|| format!("{:?} cannot be started", command.get_program()))?);
    let deadline = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(address).is_err() {
        ensure!(Instant::now() < deadline, "{:?} does not listen at {address}", command.get_program());
        std::thread::park_timeout(Duration::from_millis(10));
    }
    Ok(server)
}

fn wrk(address: SocketAddr, cell: &Cell, duration: Duration) -> Result<Run> {
    let output = Command::new("wrk")
        .args(["--latency", "--threads", "1", "--timeout", "10s"])
        .args(["--connections", &cell.connections.to_string()])
        .args(["--duration", &format!("{}s", duration.as_secs())])
        .arg(format!("http://{address}{}", cell.path))
        .output()
        .context("wrk cannot be started")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success() && !text.contains("Non-2xx") && !text.contains("Socket errors"),
        "{}: {text}",
        cell.what
    );
    let after = |label: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(label)).context("wrk says something else")?;
        anyhow::Ok(line.trim().to_owned())
    };
    Ok(Run { requests_per_s: after("Requests/sec:")?.parse()?, p99_ms: milliseconds(&after("99%")?)? })
}

fn milliseconds(text: &str) -> Result<f64> {
    let number = text.trim_end_matches(char::is_alphabetic);
    let factor = match &text[number.len()..] {
        "us" => 0.001,
        "ms" => 1.0,
        "s" => 1_000.0,
        unit => anyhow::bail!("{unit:?} is no unit of wrk's"),
    };
    Ok(number.parse::<f64>()? * factor)
}

/// The run whose throughput is the median.
fn median(mut runs: Vec<Run>) -> Run {
    runs.sort_by(|a, b| a.requests_per_s.total_cmp(&b.requests_per_s));
    runs.get(runs.len() / 2).copied().unwrap_or_default()
}
