//! Which endpoints may get new requests, and when one that may not is done with.
//!
//! An endpoint that is not ready or terminating gets no new requests and no new connections. What it is working on goes on to
//! its end, and idle connections to it are closed. Once nothing is in flight it has been released: whoever stops it then
//! interrupts nobody.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::table::Endpoint;

/// Whether an endpoint may get new requests.
pub fn takes_new_requests(endpoint: &Endpoint) -> bool {
    endpoint.ready && !endpoint.terminating
}

/// What requests are in flight to which endpoints, and which of these still take new ones.
#[derive(Clone, Debug, Default)]
pub struct Drain {
    endpoints: BTreeMap<SocketAddr, State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    in_flight: u64,
    takes_new: bool,
}

/// Where an endpoint stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It takes new requests.
    Serving,
    /// It takes none, and works on some.
    Draining { in_flight: u64 },
    /// It takes none, and works on none.
    Released,
}

impl Drain {
    /// The endpoints are now these. One that is not among them takes no new requests.
    pub fn update(&mut self, endpoints: &[Endpoint]) {
        for state in self.endpoints.values_mut() {
            state.takes_new = false;
        }
        for endpoint in endpoints {
            self.endpoints.entry(endpoint.address).or_default().takes_new = takes_new_requests(endpoint);
        }
        self.endpoints.retain(|_, state| state.takes_new || state.in_flight > 0);
    }

    /// Begins a request, unless the endpoint takes none.
    pub fn begin(&mut self, endpoint: SocketAddr) -> bool {
        match self.endpoints.get_mut(&endpoint) {
            Some(state) if state.takes_new => {
                state.in_flight += 1;
                true
            }
            _ => false,
        }
    }

    pub fn end(&mut self, endpoint: SocketAddr) {
        if let Some(state) = self.endpoints.get_mut(&endpoint) {
            state.in_flight = state.in_flight.saturating_sub(1);
        }
        self.endpoints.retain(|_, state| state.takes_new || state.in_flight > 0);
    }

    pub fn stage(&self, endpoint: SocketAddr) -> Stage {
        match self.endpoints.get(&endpoint) {
            Some(State { takes_new: true, .. }) => Stage::Serving,
            Some(State { in_flight: in_flight @ 1.., .. }) => Stage::Draining { in_flight: *in_flight },
            _ => Stage::Released,
        }
    }

    /// What is in flight somewhere or may begin: what has been released is forgotten.
    pub fn len(&self) -> usize {
        self.endpoints.len()
    }

    pub fn is_empty(&self) -> bool {
        self.endpoints.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn endpoint(port: u16, ready: bool, terminating: bool) -> Endpoint {
        Endpoint { address: ([127, 0, 0, 1], port).into(), ready, terminating }
    }

    #[test]
    fn an_endpoint_finishes_what_it_began() {
        let mut drain = Drain::default();
        let address = ([127, 0, 0, 1], 1).into();
        drain.update(&[endpoint(1, true, false)]);
        assert!(drain.begin(address));
        drain.update(&[endpoint(1, true, true)]);
        assert!(!drain.begin(address), "a terminating endpoint gets nothing new");
        assert_eq!(drain.stage(address), Stage::Draining { in_flight: 1 });
        drain.end(address);
        assert_eq!(drain.stage(address), Stage::Released);
        drain.update(&[endpoint(1, true, false)]);
        assert!(drain.begin(address), "it comes back");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Update(Vec<(u16, bool, bool)>),
        Begin(u16),
        End(u16),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let endpoints = proptest::collection::vec((1..6_u16, any::<bool>(), any::<bool>()), 0..6);
        let step = prop_oneof![
            1 => endpoints.prop_map(Step::Update),
            3 => (1..6_u16).prop_map(Step::Begin),
            3 => (1..6_u16).prop_map(Step::End),
        ];
        proptest::collection::vec(step, 0..100)
    }

    proptest! {
        /// Against a model that keeps every request by itself.
        #[test]
        fn nothing_new_reaches_a_drained_endpoint_and_nothing_is_lost(steps in steps()) {
            let mut drain = Drain::default();
            let mut open: Vec<u16> = Vec::new();
            let mut ready: BTreeMap<u16, bool> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Update(endpoints) => {
                        ready = endpoints.iter().map(|(port, ready, ends)| (*port, *ready && !ends)).collect();
                        let endpoints: Vec<_> =
                            endpoints.iter().map(|(port, ready, ends)| endpoint(*port, *ready, *ends)).collect();
                        drain.update(&endpoints);
                    }
                    Step::Begin(port) => {
                        let began = drain.begin(([127, 0, 0, 1], port).into());
                        prop_assert_eq!(began, ready.get(&port) == Some(&true));
                        if began {
                            open.push(port);
                        }
                    }
                    Step::End(port) => {
                        if let Some(place) = open.iter().position(|it| *it == port) {
                            open.remove(place);
                            drain.end(([127, 0, 0, 1], port).into());
                        }
                    }
                }
                for port in 1..6 {
                    let in_flight = open.iter().filter(|it| **it == port).count() as u64;
                    let expected = match (ready.get(&port) == Some(&true), in_flight) {
                        (true, _) => Stage::Serving,
                        (false, 0) => Stage::Released,
                        (false, in_flight) => Stage::Draining { in_flight },
                    };
                    prop_assert_eq!(drain.stage(([127, 0, 0, 1], port).into()), expected);
                }
            }
        }
    }
}
