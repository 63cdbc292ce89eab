//! A client in the same process: who asks is said by whoever connects it, and what they may do is asked like anybody's.

use std::convert::Infallible;
use std::task::{Context, Poll};

use http::Request;
use tower::Service;

use crate::authentication::Identity;
use crate::response::Response;
use crate::server::Server;

/// The server as one identity sees it.
#[derive(Debug, Clone)]
pub struct InProcess {
    server: Server,
    identity: Identity,
}

impl Server {
    /// The server for a client in this process. It needs no socket and no credential, and has no rights but the identity's.
    pub fn acting_as(&self, identity: Identity) -> InProcess {
        InProcess { server: self.clone(), identity }
    }
}

impl<B> Service<Request<B>> for InProcess
where
    Server: Service<Request<B>, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = <Server as Service<Request<B>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.server.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        request.extensions_mut().insert(self.identity.clone());
        self.server.call(request)
    }
}
