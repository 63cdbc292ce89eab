//! Host names: how a request's is read, and which names a wildcard covers.

use std::borrow::Cow;

/// The host of an authority: without port, brackets and final dot, in lower case.
pub fn host_of(authority: &str) -> Cow<'_, str> {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    match host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(host.to_ascii_lowercase()),
        false => Cow::Borrowed(host),
    }
}

/// The port of an authority, where it names one.
pub fn port_of(authority: &str) -> Option<u16> {
    let rest = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.1,
        None => authority,
    };
    rest.rsplit_once(':')?.1.parse().ok()
}

/// The names that a wildcard could stand before, the longest first: of `a.b.c`, `b.c` and `c`.
pub(crate) fn parents(host: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(host), |name| name.split_once('.').map(|(_, parent)| parent)).skip(1)
}

/// Whether a host is one label below a name that is known to be one of its parents.
pub(crate) fn is_one_label_below(host: &str, parent: &str) -> bool {
    host.find('.').is_some_and(|dot| host.len() - dot - 1 == parent.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_from_authorities() {
        let rows = [
            ("a name", "example.com", "example.com", None),
            ("a port", "example.com:8080", "example.com", Some(8080)),
            ("upper case", "Example.COM", "example.com", None),
            ("a final dot", "example.com.", "example.com", None),
            ("a final dot and a port", "example.com.:80", "example.com", Some(80)),
            ("an IPv4 address", "127.0.0.1:80", "127.0.0.1", Some(80)),
            ("an IPv6 address", "[::1]", "::1", None),
            ("an IPv6 address and a port", "[::1]:8443", "::1", Some(8443)),
            ("an empty port", "example.com:", "example.com", None),
        ];
        for (what, authority, host, port) in rows {
            assert_eq!(host_of(authority), host, "{what}");
            assert_eq!(port_of(authority), port, "{what}");
        }
    }

    #[test]
    fn parents_are_found_longest_first() {
        assert_eq!(parents("a.b.c").collect::<Vec<_>>(), ["b.c", "c"]);
        assert!(is_one_label_below("a.b.c", "b.c"));
        assert!(!is_one_label_below("a.b.c", "c"));
        assert_eq!(parents("localhost").count(), 0);
    }
}
