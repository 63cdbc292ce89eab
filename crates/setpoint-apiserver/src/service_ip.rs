//! Which cluster addresses and node ports Services hold, and which come next.
//!
//! An [`Allocator`] is plain data: it is filled from the stored Services at start, and what chance decides comes in as
//! an argument. What a write takes and frees is a [`Claim`]: taken at once, so that no other write gets the same, and
//! freed only when the write is done.

use std::collections::BTreeSet;
use std::fmt;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use thiserror::Error;

/// The addresses Services get, such as `10.96.0.0/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceRange {
    network: Ipv4Addr,
    prefix: u32,
}

/// Why an address is not given out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddressRefusal {
    #[error("range is full")]
    Full,
    #[error("the provided network does not match the current range")]
    OutsideRange,
    /// The network's own address and its broadcast address are nobody's.
    #[error("the provided IP ({0}) is not in the valid range. The range of valid IPs is {1}")]
    Unusable(Ipv4Addr, ServiceRange),
    #[error("provided IP is already allocated")]
    InUse,
}

/// Why a port is not given out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PortRefusal {
    #[error("range is full")]
    Full,
    #[error("provided port is not in the valid range. The range of valid ports is {0}-{1}")]
    OutsideRange(u16, u16),
    #[error("provided port is already allocated")]
    InUse,
}

/// The addresses and ports in use.
#[derive(Debug, Clone)]
pub struct Allocator {
    range: ServiceRange,
    addresses: Pool,
    ports: Pool,
}

/// What a write has taken, and what it will have freed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "a claim is committed or reverted"]
pub struct Claim {
    taken: Vec<Held>,
    freed: Vec<Held>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Address(Ipv4Addr),
    Port(u16),
}

impl Allocator {
    pub const DEFAULT_RANGE: ServiceRange = ServiceRange::new(Ipv4Addr::new(10, 96, 0, 0), 16);
    pub const DEFAULT_PORTS: RangeInclusive<u16> = 30000..=32767;

    pub fn new(range: ServiceRange, ports: RangeInclusive<u16>) -> Allocator {
        let usable = (1u32 << (32 - range.prefix)) - 2;
        let first_port = u32::from(*ports.start());
        Allocator {
            range,
            addresses: Pool::new(range.network.to_bits() + 1, usable),
            ports: Pool::new(first_port, u32::from(*ports.end()) + 1 - first_port),
        }
    }

    /// Takes a free address.
    pub fn allocate_address(&mut self, random: u64, claim: &mut Claim) -> Result<Ipv4Addr, AddressRefusal> {
        let address = Ipv4Addr::from_bits(self.addresses.allocate(random).ok_or(AddressRefusal::Full)?);
        claim.taken.push(Held::Address(address));
        Ok(address)
    }

    /// Takes the address that was asked for.
    pub fn reserve_address(&mut self, address: Ipv4Addr, claim: &mut Claim) -> Result<(), AddressRefusal> {
        if !self.range.contains(address) {
            return Err(AddressRefusal::OutsideRange);
        }
        if !self.addresses.contains(address.to_bits()) {
            return Err(AddressRefusal::Unusable(address, self.range));
        }
        if !self.addresses.reserve(address.to_bits()) {
            return Err(AddressRefusal::InUse);
        }
        claim.taken.push(Held::Address(address));
        Ok(())
    }

    /// Takes a free port.
    pub fn allocate_port(&mut self, random: u64, claim: &mut Claim) -> Result<u16, PortRefusal> {
        let number = self.ports.allocate(random).ok_or(PortRefusal::Full)?;
        let port = u16::try_from(number).expect("the pool of ports holds ports");
        claim.taken.push(Held::Port(port));
        Ok(port)
    }

    /// Takes the port that was asked for.
    pub fn reserve_port(&mut self, port: i64, claim: &mut Claim) -> Result<(), PortRefusal> {
        let wanted = u16::try_from(port).ok().filter(|port| self.ports.contains(u32::from(*port)));
        let Some(port) = wanted else { return Err(self.outside_ports()) };
        if !self.ports.reserve(u32::from(port)) {
            return Err(PortRefusal::InUse);
        }
        claim.taken.push(Held::Port(port));
        Ok(())
    }

    /// Makes a claim final: what it freed can be given out again.
    pub fn commit(&mut self, claim: Claim) {
        claim.freed.into_iter().for_each(|held| self.release(held));
    }

    /// Undoes a claim: what it took can be given out again.
    pub fn revert(&mut self, claim: Claim) {
        claim.taken.into_iter().for_each(|held| self.release(held));
    }

    fn release(&mut self, held: Held) {
        match held {
            Held::Address(address) => self.addresses.used.remove(&address.to_bits()),
            Held::Port(port) => self.ports.used.remove(&u32::from(port)),
        };
    }

    fn outside_ports(&self) -> PortRefusal {
        let port = |number: u32| u16::try_from(number).expect("the pool of ports holds ports");
        PortRefusal::OutsideRange(port(self.ports.first), port(self.ports.first + self.ports.count - 1))
    }
}

impl Default for Allocator {
    fn default() -> Allocator {
        Allocator::new(Allocator::DEFAULT_RANGE, Allocator::DEFAULT_PORTS)
    }
}

impl Claim {
    /// Notes an address to be freed when the write is done.
    pub fn free_address(&mut self, address: Ipv4Addr) {
        self.freed.push(Held::Address(address));
    }

    /// Notes a port to be freed when the write is done.
    pub fn free_port(&mut self, port: i64) {
        self.freed.extend(u16::try_from(port).map(Held::Port));
    }
}

impl ServiceRange {
    /// The addresses that begin with the first `prefix` bits of `network`, the rest of which are zero.
    pub const fn new(network: Ipv4Addr, prefix: u32) -> ServiceRange {
        ServiceRange { network, prefix }
    }

    fn contains(self, address: Ipv4Addr) -> bool {
        (address.to_bits() ^ self.network.to_bits()) >> (32 - self.prefix) == 0
    }
}

impl fmt::Display for ServiceRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

/// A run of numbers, some of them in use.
#[derive(Debug, Clone)]
struct Pool {
    first: u32,
    count: u32,
    used: BTreeSet<u32>,
}

impl Pool {
    fn new(first: u32, count: u32) -> Pool {
        Pool { first, count, used: BTreeSet::new() }
    }

    fn contains(&self, number: u32) -> bool {
        number.checked_sub(self.first).is_some_and(|offset| offset < self.count)
    }

    fn reserve(&mut self, number: u32) -> bool {
        self.used.insert(number)
    }

    /// The first free number from a random one on, or from the start again.
    fn allocate(&mut self, random: u64) -> Option<u32> {
        let start = u32::try_from(random % u64::from(self.count)).expect("a remainder is less than its divisor");
        let free = |number: &u32| !self.used.contains(number);
        let end = self.first + self.count;
        let number = (self.first + start..end).find(free).or_else(|| (self.first..self.first + start).find(free))?;
        self.used.insert(number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn small() -> Allocator {
        Allocator::new(ServiceRange::new(Ipv4Addr::new(10, 0, 0, 0), 29), 30000..=30002)
    }

    #[test]
    fn asked_for_addresses() {
        let mut allocator = small();
        let mut claim = Claim::default();
        let mut reserve = |text: &str| {
            let address = text.parse().expect("an address");
            allocator.reserve_address(address, &mut claim).map_err(|refusal| refusal.to_string())
        };
        let rows = [
            ("10.0.0.1", Ok(())),
            ("10.0.0.1", Err("provided IP is already allocated")),
            ("10.0.1.1", Err("the provided network does not match the current range")),
            (
                "10.0.0.7",
                Err("the provided IP (10.0.0.7) is not in the valid range. The range of valid IPs is 10.0.0.0/29"),
            ),
        ];
        for (address, expected) in rows {
            assert_eq!(reserve(address), expected.map_err(str::to_owned), "{address}");
        }
    }

    #[test]
    fn asked_for_ports() {
        let mut allocator = small();
        let mut claim = Claim::default();
        let mut reserve = |port| allocator.reserve_port(port, &mut claim).map_err(|refusal| refusal.to_string());
        assert_eq!(reserve(30001), Ok(()));
        assert_eq!(reserve(30001), Err("provided port is already allocated".to_owned()));
        let outside = "provided port is not in the valid range. The range of valid ports is 30000-30002";
        assert_eq!((reserve(80), reserve(-1)), (Err(outside.to_owned()), Err(outside.to_owned())));
    }

    #[test]
    fn a_claim_is_kept_or_given_back() {
        let mut allocator = small();
        let mut first = Claim::default();
        let address = allocator.allocate_address(3, &mut first).expect("a free address");
        let mut second = Claim::default();
        assert_eq!(allocator.reserve_address(address, &mut second), Err(AddressRefusal::InUse));
        allocator.revert(first);
        assert_eq!(allocator.reserve_address(address, &mut second), Ok(()));
        allocator.commit(second);
        let mut third = Claim::default();
        third.free_address(address);
        assert_eq!(allocator.reserve_address(address, &mut Claim::default()), Err(AddressRefusal::InUse));
        allocator.commit(third);
        assert_eq!(allocator.reserve_address(address, &mut Claim::default()), Ok(()));
    }

    proptest! {
        #[test]
        fn every_number_is_given_out_once(random in proptest::collection::vec(any::<u64>(), 7)) {
            let mut allocator = small();
            let mut claim = Claim::default();
            let given: Vec<_> = random.iter().map(|random| allocator.allocate_address(*random, &mut claim)).collect();
            let addresses: BTreeSet<_> = given.iter().flatten().collect();
            prop_assert_eq!(addresses.len(), 6);
            prop_assert_eq!(&given[6], &Err(AddressRefusal::Full));
        }
    }
}
