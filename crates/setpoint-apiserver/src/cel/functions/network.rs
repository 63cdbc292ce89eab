//! Addresses and ranges of addresses.

use std::fmt;
use std::net::IpAddr;

use crate::cel::evaluate::Context;
use crate::cel::function::{Function, global, member};
use crate::cel::value::{Fault, Value};

/// A range of addresses, with the address it was written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cel) struct Cidr {
    address: IpAddr,
    prefix: u8,
}

impl Cidr {
    fn parse(text: &str) -> Result<Cidr, String> {
        let problem = |what: &str| format!("netip.ParsePrefix({text:?}): {what}");
        let (address, bits) = text.rsplit_once('/').ok_or_else(|| problem("no '/'"))?;
        if address.contains('%') {
            return Err(problem("IPv6 zones cannot be present in a prefix"));
        }
        let address: IpAddr =
            address.parse().map_err(|_| problem(&format!("ParseAddr({address:?}): unable to parse IP")))?;
        let plain = bits.bytes().all(|b| b.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
        let prefix: u8 =
            bits.parse().ok().filter(|_| plain).ok_or_else(|| problem(&format!("bad bits after slash: {bits:?}")))?;
        if prefix > width(address) {
            return Err(problem("prefix length out of range"));
        }
        if is_mapped(address) {
            return Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"));
        }
        Ok(Cidr { address, prefix })
    }

    fn masked(self) -> Cidr {
        Cidr { address: mask(self.address, self.prefix), prefix: self.prefix }
    }

    fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && mask(address, self.prefix) == self.masked().address
    }

    fn covers(self, other: Cidr) -> bool {
        self.prefix <= other.prefix && self.contains(other.address)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address with the bits after the prefix cleared.
fn mask(address: IpAddr, prefix: u8) -> IpAddr {
    let prefix = u32::from(prefix);
    match address {
        IpAddr::V4(v4) => IpAddr::V4((v4.to_bits() & u32::MAX.checked_shl(32 - prefix.min(32)).unwrap_or(0)).into()),
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & u128::MAX.checked_shl(128 - prefix.min(128)).unwrap_or(0)).into()),
    }
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

fn parse_ip(context: &mut Context<'_, '_>, text: &str) -> Result<IpAddr, Fault> {
    context.meter.charge_reading(text)?;
    let zone = text
        .split_once('%')
        .is_some_and(|(address, zone)| !zone.is_empty() && matches!(address.parse(), Ok(IpAddr::V6(_))));
    if zone {
        return Err(Fault::failed(format!("IP address {text:?} with zone value is not allowed")));
    }
    let address: IpAddr = text.parse().map_err(|_| {
        Fault::failed(format!(
            "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): unable to parse IP"
        ))
    })?;
    if is_mapped(address) {
        return Err(Fault::failed(format!("IPv4-mapped IPv6 address {text:?} is not allowed")));
    }
    Ok(address)
}

fn parse_cidr(context: &mut Context<'_, '_>, text: &str) -> Result<Cidr, Fault> {
    context.meter.charge_reading(text)?;
    const CONTEXT: &str = "network address parse error during conversion from string";
    Cidr::parse(text).map_err(|problem| Fault::failed(format!("{CONTEXT}: {CONTEXT}: {problem}")))
}

const IS: &[&str] = &["(net.IP) -> bool"];

pub(super) const FUNCTIONS: &[Function] = &[
    global("ip", &["(string) -> net.IP"], |context, arguments| match arguments {
        [Value::String(text)] => parse_ip(context, text).map(Value::Ip),
        _ => Err(Fault::no_such_overload()),
    }),
    global("isIP", &["(string) -> bool"], |context, arguments| match arguments {
        [Value::String(text)] => is(parse_ip(context, text)),
        _ => Err(Fault::no_such_overload()),
    }),
    global("ip.isCanonical", &["(string) -> bool"], |context, arguments| match arguments {
        [Value::String(text)] => Ok(Value::Bool(parse_ip(context, text)?.to_string() == **text)),
        _ => Err(Fault::no_such_overload()),
    }),
    member("family", &["(net.IP) -> int"], |_, arguments| match arguments {
        [Value::Ip(address)] => Ok(Value::Int(if address.is_ipv4() { 4 } else { 6 })),
        _ => Err(Fault::no_such_overload()),
    }),
    member("isUnspecified", IS, |_, arguments| test(arguments, |address| address.is_unspecified())),
    member("isLoopback", IS, |_, arguments| test(arguments, |address| address.is_loopback())),
    member("isLinkLocalMulticast", IS, |_, arguments| test(arguments, is_link_local_multicast)),
    member("isLinkLocalUnicast", IS, |_, arguments| test(arguments, is_link_local_unicast)),
    member("isGlobalUnicast", IS, |_, arguments| {
        test(arguments, |address| {
            let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
            !broadcast
                && !address.is_unspecified()
                && !address.is_loopback()
                && !address.is_multicast()
                && !is_link_local_unicast(address)
        })
    }),
    global("cidr", &["(string) -> net.CIDR"], |context, arguments| match arguments {
        [Value::String(text)] => parse_cidr(context, text).map(Value::Cidr),
        _ => Err(Fault::no_such_overload()),
    }),
    global("isCIDR", &["(string) -> bool"], |context, arguments| match arguments {
        [Value::String(text)] => is(parse_cidr(context, text)),
        _ => Err(Fault::no_such_overload()),
    }),
    member("containsIP", &["(net.CIDR, string) -> bool", "(net.CIDR, net.IP) -> bool"], |context, arguments| {
        match arguments {
            [Value::Cidr(cidr), Value::Ip(address)] => Ok(Value::Bool(cidr.contains(*address))),
            [Value::Cidr(cidr), Value::String(text)] => Ok(Value::Bool(cidr.contains(parse_ip(context, text)?))),
            _ => Err(Fault::no_such_overload()),
        }
    }),
    member("containsCIDR", &["(net.CIDR, string) -> bool", "(net.CIDR, net.CIDR) -> bool"], |context, arguments| {
        match arguments {
            [Value::Cidr(cidr), Value::Cidr(other)] => Ok(Value::Bool(cidr.covers(*other))),
            [Value::Cidr(cidr), Value::String(text)] => Ok(Value::Bool(cidr.covers(parse_cidr(context, text)?))),
            _ => Err(Fault::no_such_overload()),
        }
    }),
    member("ip", &["(net.CIDR) -> net.IP"], |_, arguments| of_cidr(arguments, |cidr| Value::Ip(cidr.address))),
    member("prefixLength", &["(net.CIDR) -> int"], |_, arguments| {
        of_cidr(arguments, |cidr| Value::Int(i64::from(cidr.prefix)))
    }),
    member("masked", &["(net.CIDR) -> net.CIDR"], |_: &mut Context<'_, '_>, arguments| {
        of_cidr(arguments, |cidr| Value::Cidr(cidr.masked()))
    }),
];

/// Whether reading went well.
fn is<'a, T>(read: Result<T, Fault>) -> Result<Value<'a>, Fault> {
    match read {
        Err(Fault::Exhausted) => Err(Fault::Exhausted),
        read => Ok(Value::Bool(read.is_ok())),
    }
}

fn test<'a>(arguments: &[Value<'a>], holds: fn(IpAddr) -> bool) -> Result<Value<'a>, Fault> {
    match arguments {
        [Value::Ip(address)] => Ok(Value::Bool(holds(*address))),
        _ => Err(Fault::no_such_overload()),
    }
}

fn of_cidr<'a>(arguments: &[Value<'a>], part: fn(Cidr) -> Value<'a>) -> Result<Value<'a>, Fault> {
    match arguments {
        [Value::Cidr(cidr)] => Ok(part(*cidr)),
        _ => Err(Fault::no_such_overload()),
    }
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}
