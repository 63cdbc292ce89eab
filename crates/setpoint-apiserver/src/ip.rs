//! IP addresses and ranges as fields of an object: what may stand there, and what is said about the rest.

use std::net::IpAddr;

use serde_json::json;

use setpoint_api::field::{Errors, Node, Path};

/// The family of an address, as Services and EndpointSlices name it.
pub fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// Reads an address the way Kubernetes always has: leading zeros in an IPv4 address mean nothing.
pub fn parse(text: &str) -> Option<IpAddr> {
    text.parse().ok().or_else(|| strip_zeros(text)?.parse().ok()).map(|address: IpAddr| address.to_canonical())
}

/// Checks an address.
pub fn validate(address: Node<'_, '_>, errors: &mut Errors) {
    validate_text(address.str(), &address.path, errors);
}

/// Checks an address that stands at `path`.
pub fn validate_text(text: &str, path: &Path<'_>, errors: &mut Errors) {
    if parse(text).is_none() {
        errors.invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    } else {
        match text.parse::<IpAddr>() {
            Err(_) => errors.invalid(path, text, "must not have leading 0s"),
            Ok(address) if is_mapped(address) => {
                errors.invalid(path, text, "must not be an IPv4-mapped IPv6 address");
            }
            Ok(_) => {}
        }
    }
}

/// Checks an IPv6 address that must also be written in the one canonical way.
pub fn validate_canonical(address: Node<'_, '_>, errors: &mut Errors) {
    let before = errors.len();
    validate(address, errors);
    if let (true, Some(parsed)) = (errors.len() == before, parse(address.str())) {
        let canonical = parsed.to_string();
        if canonical != address.str() {
            let detail = format!("must be in canonical form ({})", json!(canonical));
            errors.invalid(&address.path, address.str(), &detail);
        }
    }
}

/// Checks that an address can be reached from elsewhere: not this host, not only this link.
pub fn validate_external(address: Node<'_, '_>, errors: &mut Errors) {
    validate_endpoint(address, errors);
    if parse(address.str()).is_some_and(|parsed| parsed.is_loopback()) {
        errors.invalid(&address.path, address.str(), "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
}

/// Checks that an address can be that of something served: not only this link. It may be this host: Pods that are
/// processes of this machine are reached there, and nobody else is asked to reach them.
pub fn validate_endpoint(address: Node<'_, '_>, errors: &mut Errors) {
    let text = address.str();
    let Some(parsed) = parse(text) else {
        return errors.invalid(&address.path, text, "must be a valid IP address");
    };
    let (link_local, link_multicast) = match parsed {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments()[0] & 0xff0f == 0xff02),
    };
    let mut refuse = |detail: &str| errors.invalid(&address.path, text, detail);
    if parsed.is_unspecified() {
        refuse(&format!("may not be unspecified ({text})"));
    }
    if link_local {
        refuse("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if link_multicast {
        refuse("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

/// Checks a range such as `10.9.8.0/24` that stands at `path`.
pub fn validate_cidr(text: &str, path: &Path<'_>, errors: &mut Errors) {
    match parse_cidr(text) {
        None => errors.invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
        Some(cidr) if !cidr.strict => errors.invalid(path, text, "must not have leading 0s in IP or prefix length"),
        Some(cidr) if is_mapped(cidr.address) => {
            errors.invalid(path, text, "must not have an IPv4-mapped IPv6 address");
        }
        Some(cidr) if cidr.has_host_bits() => {
            errors.invalid(path, text, "must not have bits set beyond the prefix length");
        }
        Some(_) => {}
    }
}

/// The family of a range, if it is one.
pub fn cidr_family(text: &str) -> Option<&'static str> {
    parse_cidr(text).map(|cidr| family(cidr.address))
}

/// Whether a range is a part of another, and not all of it; none if one of them is no range.
pub fn is_strict_subset(inner: &str, outer: &str) -> Option<bool> {
    let (inner, outer) = (parse_cidr(inner)?, parse_cidr(outer)?);
    let difference = match (inner.address, outer.address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => u128::from(a.to_bits() ^ b.to_bits()) << 96,
        (IpAddr::V6(a), IpAddr::V6(b)) => a.to_bits() ^ b.to_bits(),
        _ => return Some(false),
    };
    Some(inner.prefix > outer.prefix && difference.leading_zeros() >= outer.prefix)
}

struct Cidr {
    address: IpAddr,
    prefix: u32,
    /// Whether it was written without superfluous zeros.
    strict: bool,
}

impl Cidr {
    fn has_host_bits(&self) -> bool {
        match self.address {
            IpAddr::V4(v4) => v4.to_bits().checked_shl(self.prefix).unwrap_or_default() != 0,
            IpAddr::V6(v6) => v6.to_bits().checked_shl(self.prefix).unwrap_or_default() != 0,
        }
    }
}

fn parse_cidr(text: &str) -> Option<Cidr> {
    let (address, prefix) = text.split_once('/')?;
    if prefix.is_empty() || !prefix.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let exact = address.parse().ok();
    let strict = exact.is_some() && (prefix == "0" || !prefix.starts_with('0'));
    let address: IpAddr = exact.or_else(|| strip_zeros(address)?.parse().ok())?;
    let prefix = prefix.parse().ok()?;
    (prefix <= if address.is_ipv4() { 32 } else { 128 }).then_some(Cidr { address, prefix, strict })
}

/// An IPv4 address without the leading zeros of its parts.
fn strip_zeros(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split('.').collect();
    let numbers = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    (parts.len() == 4 && parts.iter().all(numbers)).then(|| {
        let stripped = parts.iter().map(|part| match part.trim_start_matches('0') {
            "" => "0",
            digits => digits,
        });
        stripped.collect::<Vec<_>>().join(".")
    })
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn details(check: impl Fn(Node<'_, '_>, &mut Errors), text: &str) -> Vec<String> {
        let mut errors = Errors::default();
        check(Node { value: &Value::from(text), path: Path::of("ip") }, &mut errors);
        let head = format!("ip: Invalid value: {}: ", json!(text));
        errors.iter().map(|error| error.to_string().replacen(&head, "", 1)).collect()
    }

    #[test]
    fn addresses() {
        let rows = [
            ("10.1.2.3", vec![]),
            ("2001:db8::1", vec![]),
            ("2001:DB8:0::1", vec![]),
            ("10.1.2", vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]),
            ("010.1.2.3", vec!["must not have leading 0s"]),
            ("::ffff:10.1.2.3", vec!["must not be an IPv4-mapped IPv6 address"]),
        ];
        for (text, expected) in rows {
            assert_eq!(details(validate, text), expected, "{text}");
        }
        assert_eq!(details(validate_canonical, "2001:DB8::1"), [r#"must be in canonical form ("2001:db8::1")"#]);
    }

    #[test]
    fn endpoints() {
        let rows = [
            ("10.1.2.3", vec![]),
            ("0.0.0.0", vec!["may not be unspecified (0.0.0.0)"]),
            ("127.0.0.1", vec![]),
            ("fe80::1", vec!["may not be in the link-local range (169.254.0.0/16, fe80::/10)"]),
            ("224.0.0.1", vec!["may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"]),
        ];
        for (text, expected) in rows {
            assert_eq!(details(validate_endpoint, text), expected, "{text}");
        }
        let loopback = ["may not be in the loopback range (127.0.0.0/8, ::1/128)"];
        assert_eq!(details(validate_external, "127.0.0.1"), loopback);
        assert_eq!(details(validate_external, "::1"), loopback);
    }

    #[test]
    fn parts_of_ranges() {
        let rows = [
            ("a smaller range", "10.1.0.0/16", "10.0.0.0/8", Some(true)),
            ("the same range", "10.0.0.0/8", "10.0.0.0/8", Some(false)),
            ("a larger range", "10.0.0.0/7", "10.0.0.0/8", Some(false)),
            ("a range elsewhere", "11.1.0.0/16", "10.0.0.0/8", Some(false)),
            ("a part of everything", "10.0.0.0/8", "0.0.0.0/0", Some(true)),
            ("another family", "2001:db8::/64", "0.0.0.0/0", Some(false)),
            ("IPv6", "2001:db8:1::/48", "2001:db8::/32", Some(true)),
            ("no range", "10.1.0.0", "10.0.0.0/8", None),
        ];
        for (name, inner, outer, expected) in rows {
            assert_eq!(is_strict_subset(inner, outer), expected, "{name}");
        }
    }

    #[test]
    fn ranges() {
        let check = |node: Node<'_, '_>, errors: &mut Errors| validate_cidr(node.str(), &node.path, errors);
        let rows = [
            ("10.9.8.0/24", vec![]),
            ("0.0.0.0/0", vec![]),
            ("2001:db8::/64", vec![]),
            ("10.9.8.7/32", vec![]),
            ("10.9.8.0", vec!["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]),
            ("10.9.8.0/33", vec!["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]),
            ("10.9.8.1/24", vec!["must not have bits set beyond the prefix length"]),
            ("10.09.8.0/24", vec!["must not have leading 0s in IP or prefix length"]),
        ];
        for (text, expected) in rows {
            assert_eq!(details(check, text), expected, "{text}");
        }
        assert_eq!(
            (cidr_family("10.0.0.0/8"), cidr_family("::/0"), cidr_family("x")),
            (Some("IPv4"), Some("IPv6"), None)
        );
    }
}
