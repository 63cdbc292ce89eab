//! Probes of real containers, in all four kinds.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use setpoint_core::pod::PortState;
use setpoint_deployer::process::order::LogLimits;

use crate::instance::{Instance, wait_for};

/// A server in this process that stands for the container's, and says what it is told to.
struct Server {
    port: u16,
    is_well: Arc<AtomicBool>,
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    fn start(is_grpc: bool) -> Server {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_well = Arc::new(AtomicBool::new(true));
        let shared = is_well.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let is_well = shared.clone();
                let service = service_fn(move |_| {
                    let is_well = is_well.load(Ordering::SeqCst);
                    async move { Ok::<_, std::convert::Infallible>(respond(is_grpc, is_well)) }
                });
                let stream = TokioIo::new(stream);
                if is_grpc {
                    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    tokio::spawn(server.serve_connection(stream, service));
                } else {
                    tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(stream, service));
                }
            }
        });
        Server { port, is_well, _runtime: runtime }
    }
}

fn respond(
    is_grpc: bool,
    is_well: bool,
) -> http::Response<http_body_util::combinators::BoxBody<Bytes, std::convert::Infallible>> {
    if !is_grpc {
        let status = if is_well { 200 } else { 500 };
        return http::Response::builder().status(status).body(Full::default().boxed()).unwrap();
    }
    let body = Full::new(Bytes::from(vec![0, 0, 0, 0, 2, 8, if is_well { 1 } else { 2 }]));
    let trailers = http::HeaderMap::from_iter([(
        http::HeaderName::from_static("grpc-status"),
        http::HeaderValue::from_static("0"),
    )]);
    let body = body.with_trailers(async move { Some(Ok(trailers)) });
    http::Response::builder().header("content-type", "application/grpc").body(body.boxed()).unwrap()
}

fn ports(assigned_port: u16) -> Vec<PortState> {
    vec![PortState { container: "a".to_owned(), name: Some("web".to_owned()), container_port: 80, assigned_port }]
}

fn probed(field: &str, probe: Value) -> Value {
    let mut probe = probe;
    probe["periodSeconds"] = json!(1);
    probe["failureThreshold"] = json!(1);
    let command = ["sh", "-c", "while :; do sleep 1; done"];
    json!({"containers": [{"name": "a", "command": command, field: probe}]})
}

/// Ready, not ready, and ready again.
fn assert_flips(what: &str, mut instance: Instance, set: impl Fn(&Instance, bool)) {
    for is_ready in [true, false, true] {
        set(&instance, is_ready);
        instance.wait(&format!("{what}: ready is {is_ready}"), "a", |state| state.is_ready == is_ready);
    }
    let notices = instance.state().notices;
    let told = notices
        .iter()
        .any(|notice| notice.reason == "Unhealthy" && notice.message.starts_with("Readiness probe failed: "));
    assert!(told, "{what}: {notices:?}");
    instance.stop(Duration::ZERO);
    instance.ended();
}

#[test]
fn readiness_follows_http() {
    let server = Server::start(false);
    let spec = probed("readinessProbe", json!({"httpGet": {"port": "web", "path": "/ready"}}));
    let instance = Instance::start_with(spec, ports(server.port), LogLimits::default());
    assert_flips("http", instance, |_, is_well| server.is_well.store(is_well, Ordering::SeqCst));
}

#[test]
fn readiness_follows_grpc() {
    let server = Server::start(true);
    let spec = probed("readinessProbe", json!({"grpc": {"port": 80, "service": "x"}}));
    let instance = Instance::start_with(spec, ports(server.port), LogLimits::default());
    assert_flips("grpc", instance, |_, is_well| server.is_well.store(is_well, Ordering::SeqCst));
}

#[test]
fn readiness_follows_a_command() {
    let instance = Instance::start(probed("readinessProbe", json!({"exec": {"command": ["cat", "ready"]}})));
    assert_flips("exec", instance, |instance, is_well| {
        let file = instance.root("a").join("ready");
        if is_well {
            fs::write(file, "").unwrap();
        } else {
            fs::remove_file(file).unwrap();
        }
    });
}

#[test]
fn a_container_that_nobody_can_connect_to_is_restarted() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let spec = probed("livenessProbe", json!({"tcpSocket": {"port": 80}, "terminationGracePeriodSeconds": 1}));
    let mut instance = Instance::start_with(spec, ports(free), LogLimits::default());
    let state = instance.wait("restarted", "a", |state| state.restarts >= 1);
    assert_eq!(state.last_exit.unwrap().code, 143);
    let messages: Vec<String> = instance.state().notices.into_iter().map(|notice| notice.message).collect();
    let refused = format!("Liveness probe failed: dial tcp 127.0.0.1:{free}: connect: connection refused");
    assert!(messages.contains(&refused), "{messages:?}");
    assert!(messages.contains(&"Container a failed liveness probe, will be restarted".to_owned()), "{messages:?}");
    instance.stop(Duration::ZERO);
    instance.ended();
}

#[test]
fn a_container_is_reached_by_tcp() {
    let server = Server::start(false);
    let spec = probed("startupProbe", json!({"tcpSocket": {"port": "web"}}));
    let mut instance = Instance::start_with(spec, ports(server.port), LogLimits::default());
    instance.wait("started", "a", |state| state.is_started && state.is_ready);
    instance.stop(Duration::ZERO);
    instance.ended();
}

#[test]
fn a_command_that_takes_too_long_has_failed_and_is_gone() {
    let probe = json!({"exec": {"command": ["sh", "-c", "sleep 1000"]}, "timeoutSeconds": 1});
    let mut instance = Instance::start(probed("readinessProbe", probe));
    let is_timeout = |notice: &setpoint_core::pod::Notice| notice.message.contains("timed out after 1s");
    wait_for("a timeout", || instance.record()?.state.notices.iter().any(is_timeout).then_some(()));
    instance.stop(Duration::ZERO);
    instance.ended();
}
