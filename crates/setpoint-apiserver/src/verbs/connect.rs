//! Sessions in a container: a command of its own, or what runs there anyway.

use std::sync::Arc;

use http::StatusCode;

use super::leave::Leave;
use super::read;
use crate::failure::{Failure, Result};
use crate::fairness::Holding;
use crate::registry::Subresource;
use crate::response::{self, Response};
use crate::server::{Call, Shared};
use crate::streams::channels::Streams;
use crate::streams::handshake::Handshake;
use crate::streams::{AttachOptions, ExecOptions, Exit, PodAccess, PodRef, Session, Upgrade, converse, options, place};

/// What is done in a container.
enum Wanted {
    Exec(ExecOptions),
    Attach(AttachOptions),
}

impl Wanted {
    fn read(subresource: Subresource, call: &Call) -> Result<Wanted> {
        Ok(match subresource {
            Subresource::Attach => Wanted::Attach(options::attach(&call.query)?),
            _ => Wanted::Exec(options::exec(&call.query)?),
        })
    }

    fn streams(&self) -> Streams {
        let (stdin, stdout, stderr) = match self {
            Wanted::Exec(options) => (options.stdin, options.stdout, options.stderr),
            Wanted::Attach(options) => (options.stdin, options.stdout, options.stderr),
        };
        Streams { stdin, stdout, stderr }
    }

    async fn run(self, access: Arc<dyn PodAccess>, pod: PodRef, session: Session) -> Result<Exit> {
        Ok(match self {
            Wanted::Exec(options) => access.exec(&pod, options, session).await?,
            Wanted::Attach(options) => access.attach(&pod, options, session).await?,
        })
    }
}

/// Makes the connection a WebSocket, and begins a session on it. What can be refused is refused before.
pub(crate) async fn connect(
    server: &Arc<Shared>,
    call: Call,
    subresource: Subresource,
    upgrade: Option<Upgrade>,
) -> Result<Response> {
    let wanted = Wanted::read(subresource, &call)?;
    let pod = read(server, &call.resource, call.namespace(), call.name()).await?;
    let homeless = || Failure::bad_request(format!("pod {} does not have a host assigned", call.name()));
    let pod = place::find(&call.resource.value(&pod), call.query.text("container"))?.ok_or_else(homeless)?;
    let access = server.pods.get()?;
    let handshake = Handshake::read(call.verb, &call.headers)?;
    let upgrade = upgrade.ok_or_else(|| Failure::bad_request("a WebSocket needs a connection of HTTP/1.1"))?;
    let leave = Leave::ask(server.clone(), &call, &["get", "create"])?;
    let held = server.fairness.hold(&call.caller.real().user, Holding::Stream, 1)?;
    let (protocol, streams) = (handshake.protocol, wanted.streams());
    tokio::spawn(async move {
        let Some((socket, _taken)) = upgrade.finish().await else { return };
        let command = |session| wanted.run(access, pod, session);
        converse(socket, protocol, streams, command, leave.lost()).await;
        drop(held);
    });
    let mut response = response::text(StatusCode::SWITCHING_PROTOCOLS, "");
    *response.headers_mut() = handshake.headers();
    Ok(response)
}
