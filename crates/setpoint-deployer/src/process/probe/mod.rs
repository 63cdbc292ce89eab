//! Asks a container over the network how it is.
//!
//! A port of the container, by number or by name, is asked on the port that it was given.

mod grpc;
mod http;

use std::net::SocketAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::Probe;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use setpoint_core::pod::PortState;
use setpoint_core::pod::supervisor::ProbeOutcome;
use tokio::net::TcpStream;

pub(super) use self::http::HttpTarget;

/// Where a container is to be asked if its probe does not say.
const LOCALHOST: &str = "127.0.0.1";

/// Whom to ask, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Http(HttpTarget),
    Tcp { host: String, port: u16 },
    Grpc { port: u16, service: String },
}

impl Target {
    /// Nothing if the probe names no port that there is.
    pub(super) fn of(probe: &Probe, ports: &[PortState], container: &str) -> Option<Target> {
        let port = |port: &IntOrString| assigned(port, ports, container);
        if let Some(http) = &probe.http_get {
            return Some(Target::Http(HttpTarget::of(http, port(&http.port)?)));
        }
        if let Some(tcp) = &probe.tcp_socket {
            let host = tcp.host.clone().unwrap_or_else(|| LOCALHOST.to_owned());
            return Some(Target::Tcp { host, port: port(&tcp.port)? });
        }
        let grpc = probe.grpc.as_ref()?;
        let service = grpc.service.clone().unwrap_or_default();
        Some(Target::Grpc { port: port(&IntOrString::Int(grpc.port))?, service })
    }
}

/// Asks once, and waits no longer than this for the answer.
pub(super) async fn ask(target: &Target, timeout: Duration) -> ProbeOutcome {
    let answer = async {
        match target {
            Target::Http(target) => http::get(target).await,
            Target::Tcp { host, port } => connect(host, *port).await.map(drop),
            Target::Grpc { port, service } => grpc::check(*port, service).await,
        }
    };
    match tokio::time::timeout(timeout, answer).await {
        Ok(Ok(())) => ProbeOutcome::Success,
        Ok(Err(message)) => ProbeOutcome::Failure(message),
        Err(_) => ProbeOutcome::Failure(format!("no answer within {}s", timeout.as_secs())),
    }
}

async fn connect(host: &str, port: u16) -> Result<TcpStream, String> {
    let stream = match format!("{host}:{port}").parse::<SocketAddr>() {
        Ok(address) => TcpStream::connect(address).await,
        Err(_) => TcpStream::connect((host, port)).await,
    };
    stream.map_err(|error| format!("dial tcp {host}:{port}: connect: {}", cause(&error)))
}

/// What went wrong, without the number that the system gives it.
fn cause(error: &std::io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or_default();
    words.to_lowercase()
}

fn assigned(port: &IntOrString, ports: &[PortState], container: &str) -> Option<u16> {
    let mut own = ports.iter().filter(|port| port.container == container);
    match port {
        IntOrString::Int(number) => {
            let number = u16::try_from(*number).ok().filter(|number| *number > 0)?;
            let known = own.find(|port| port.container_port == number);
            Some(known.map_or(number, |port| port.assigned_port))
        }
        IntOrString::String(name) => match name.parse() {
            Ok(number) => assigned(&IntOrString::Int(number), ports, container),
            Err(_) => own.find(|port| port.name.as_ref() == Some(name)).map(|port| port.assigned_port),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_asked_where_it_was_given() {
        let port = |container: &str, name: Option<&str>, container_port, assigned_port| PortState {
            container: container.to_owned(),
            name: name.map(str::to_owned),
            container_port,
            assigned_port,
        };
        let ports = [port("web", Some("http"), 80, 30001), port("web", None, 81, 30002), port("db", None, 90, 30003)];
        let text = |text: &str| IntOrString::String(text.to_owned());
        let rows = [
            ("a number", IntOrString::Int(80), Some(30001)),
            ("a name", text("http"), Some(30001)),
            ("a number as text", text("81"), Some(30002)),
            ("a port that is not declared is asked as it is", IntOrString::Int(9999), Some(9999)),
            ("another container's port is not ours", IntOrString::Int(90), Some(90)),
            ("an unknown name", text("admin"), None),
            ("no port at all", IntOrString::Int(0), None),
            ("too large", IntOrString::Int(70_000), None),
        ];
        for (what, asked, found) in rows {
            assert_eq!(assigned(&asked, &ports, "web"), found, "{what}");
        }
    }
}
