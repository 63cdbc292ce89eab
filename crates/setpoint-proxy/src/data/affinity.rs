//! `sessionAffinity: ClientIP`: a client stays with its endpoint as long as it keeps coming and the endpoint is usable.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

use crate::pick::pick_for_client;

/// No more clients are remembered; others get the endpoint that follows from their address.
const MAX_CLIENTS: usize = 65_536;

/// Which client has which endpoint.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    known: HashMap<IpAddr, Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    endpoint: SocketAddr,
    seen_ms: u64,
}

impl Clients {
    /// The endpoint of a client, by its place among those given.
    pub(crate) fn choose(
        &mut self,
        client: IpAddr,
        timeout_ms: u64,
        now_ms: u64,
        endpoints: &[SocketAddr],
        is_usable: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        if let Some(known) = self.known.get_mut(&client)
            && now_ms.saturating_sub(known.seen_ms) <= timeout_ms
            && let Some(place) = endpoints.iter().position(|endpoint| *endpoint == known.endpoint)
            && is_usable(place)
        {
            known.seen_ms = now_ms;
            return Some(place);
        }
        let place = pick_for_client(hash(&client), endpoints.len(), |place| hash(&endpoints[place]), is_usable)?;
        if self.known.len() >= MAX_CLIENTS {
            self.known.retain(|_, known| now_ms.saturating_sub(known.seen_ms) <= timeout_ms);
        }
        if self.known.len() < MAX_CLIENTS || self.known.contains_key(&client) {
            self.known.insert(client, Known { endpoint: endpoints[place], seen_ms: now_ms });
        }
        Some(place)
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(ports: &[u16]) -> Vec<SocketAddr> {
        ports.iter().map(|port| ([127, 0, 0, 1], *port).into()).collect()
    }

    #[test]
    fn a_client_stays_where_it_is() {
        let mut clients = Clients::default();
        let client = |n: u8| IpAddr::from([192, 0, 2, n]);
        let mut choose = |n, now_ms, ports: &[u16]| {
            let endpoints = endpoints(ports);
            clients.choose(client(n), 1_000, now_ms, &endpoints, |_| true).map(|place| endpoints[place].port())
        };
        let first: Vec<_> = (0..50).map(|n| choose(n, 0, &[1, 2, 3])).collect();
        for port in 1..=3 {
            assert!(first.contains(&Some(port)), "no client was given endpoint {port}");
        }
        let grown: Vec<_> = (0..50).map(|n| choose(n, 900, &[9, 1, 2, 3, 4, 5])).collect();
        assert_eq!(first, grown, "more endpoints move nobody");
        let shrunk: Vec<_> = (0..50).map(|n| choose(n, 950, &[1, 2])).collect();
        for (before, after) in first.iter().zip(&shrunk) {
            assert!(before == after || *before == Some(3), "only clients of the endpoint that went are moved");
        }
        assert_eq!(choose(1, 950, &[]), None);
    }
}
