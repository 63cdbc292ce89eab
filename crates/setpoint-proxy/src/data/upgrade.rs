//! Another protocol on a connection: WebSocket and the like, carried both ways until either side ends.

use std::rc::Rc;
use std::sync::Arc;

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Response, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;

use super::answer::Problem;
use super::body::ResponseBody;
use super::connection::Connection;
use super::exchange::Exchange;
use super::upstream::Lease;
use crate::hop_by_hop;

/// Passes the backend's agreement on to the client, and then everything that either says.
pub(crate) fn switch(
    connection: &Rc<Connection>,
    mut response: Response<Incoming>,
    lease: Lease,
    client: Option<OnUpgrade>,
    exchange: &mut Exchange,
) -> Result<Response<ResponseBody>, Problem> {
    let (Some(client), Some(protocol)) = (client, response.headers().get(UPGRADE).cloned()) else {
        let what = "The endpoint changes the protocol without being asked to.";
        return Err(Problem::new(StatusCode::BAD_GATEWAY, "unwanted-upgrade", what).closing());
    };
    let backend = hyper::upgrade::on(&mut response);
    hop_by_hop::remove(response.headers_mut());
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(UPGRADE, protocol);
    connection.watch.decide_upgrade(true);
    // The exchange that carries the other protocol; the one that asked for it ends with the answer.
    let mut carried = Exchange::begin(
        connection,
        Arc::clone(exchange.live()),
        exchange.method.clone(),
        exchange.uri.clone(),
        exchange.version,
    );
    carried.host = Rc::clone(&exchange.host);
    carried.request_id = exchange.request_id.clone();
    carried.endpoint = exchange.endpoint;
    carried.attempts = exchange.attempts;
    carried.status = Some(101);
    carried.reason = Some("upgraded-connection-ended");
    tokio::task::spawn_local(async move {
        let _lease = lease;
        let (Ok(client), Ok(backend)) = (client.await, backend.await) else { return };
        let (mut client, mut backend) = (TokioIo::new(client), TokioIo::new(backend));
        if let Ok((_up, down)) = copy_bidirectional(&mut client, &mut backend).await {
            carried.response_bytes = down;
            carried.is_whole = true;
        }
    });
    Ok(response.map(|_| ResponseBody::own("")))
}
