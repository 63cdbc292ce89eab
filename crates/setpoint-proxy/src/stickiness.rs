//! The point of a request: from its sticky cookie, its sticky header, or the route's counter.

use http::{HeaderMap, HeaderValue};

use crate::assignment::POINTS;
use crate::table::Sticky;

/// Where a point comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointSource {
    Cookie,
    Header,
    Counter,
}

/// The point of a request, and where it comes from.
pub fn point(sticky: Option<&Sticky>, headers: &HeaderMap, count: impl FnOnce() -> u16) -> (u16, PointSource) {
    let own = match sticky {
        None => None,
        Some(Sticky::Cookie { name, .. }) => cookie_point(headers, name).map(|point| (point, PointSource::Cookie)),
        Some(Sticky::Header { name }) => {
            headers.get(name).map(|value| (hash_point(value.as_bytes()), PointSource::Header))
        }
    };
    own.unwrap_or_else(|| (count(), PointSource::Counter))
}

/// The cookie that a response carries so that its client keeps its point; only for one that had none.
pub fn cookie(sticky: Option<&Sticky>, point: u16, source: PointSource, is_https: bool) -> Option<HeaderValue> {
    let Some(Sticky::Cookie { name, max_age_s }) = sticky else { return None };
    if source != PointSource::Counter {
        return None;
    }
    let mut text = format!("{name}={point}; Path=/; HttpOnly; SameSite=Lax");
    if let Some(age) = max_age_s {
        text.push_str(&format!("; Max-Age={age}"));
    }
    if is_https {
        text.push_str("; Secure");
    }
    HeaderValue::try_from(text).ok()
}

/// The first cookie of this name that holds a point.
fn cookie_point(headers: &HeaderMap, name: &str) -> Option<u16> {
    let lines = headers.get_all(http::header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find_map(|(found, value)| (found == name).then(|| point_in(value)).flatten())
}

fn point_in(text: &str) -> Option<u16> {
    let is_digits = !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_digits.then(|| text.parse().ok()).flatten().filter(|point| *point < POINTS)
}

/// The same on every machine and in every version: FNV-1a, mixed so that similar values do not get neighbouring points.
fn hash_point(value: &[u8]) -> u16 {
    let hash = value
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    (crate::pick::mix(hash) % u64::from(POINTS)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().expect("a value"));
        }
        headers
    }

    #[test]
    fn the_point_is_the_clients_own_where_it_has_one() {
        let cookie = Sticky::Cookie { name: "side".to_owned(), max_age_s: None };
        let rows = [
            ("no cookie", vec![], (7, PointSource::Counter)),
            ("its cookie", vec![("cookie", "side=4711")], (4711, PointSource::Cookie)),
            ("among others", vec![("cookie", "a=b; side=0; c=d")], (0, PointSource::Cookie)),
            ("in a second line", vec![("cookie", "a=b"), ("cookie", "side=9999")], (9999, PointSource::Cookie)),
            ("a point that there is not", vec![("cookie", "side=10000")], (7, PointSource::Counter)),
            ("no number", vec![("cookie", "side=+12")], (7, PointSource::Counter)),
            ("a cookie whose name ends alike", vec![("cookie", "inside=12")], (7, PointSource::Counter)),
            ("a bad one before a good one", vec![("cookie", "side=x; side=12")], (12, PointSource::Cookie)),
        ];
        for (what, pairs, expected) in rows {
            assert_eq!(point(Some(&cookie), &headers(&pairs), || 7), expected, "{what}");
        }
    }

    #[test]
    fn a_header_always_gives_the_same_point() {
        let sticky = Sticky::Header { name: "x-user".to_owned() };
        let of = |user| point(Some(&sticky), &headers(&[("x-user", user)]), || 7);
        assert_eq!(of("alice"), of("alice"));
        assert_eq!(of("alice"), (hash_point(b"alice"), PointSource::Header));
        // Other proxies and later versions must agree.
        assert_eq!([hash_point(b""), hash_point(b"alice"), hash_point(b"bob")], HASHES);
    }

    #[test]
    fn hashes_are_spread_evenly() {
        let mut tenths = [0_u32; 10];
        for user in 0..10_000 {
            tenths[usize::from(hash_point(format!("user-{user}").as_bytes()) / 1_000)] += 1;
        }
        assert!(tenths.iter().all(|count| (850..1_150).contains(count)), "{tenths:?}");
    }

    #[test]
    fn a_new_client_gets_the_cookie() {
        let sticky = Sticky::Cookie { name: "side".to_owned(), max_age_s: Some(60) };
        let set = cookie(Some(&sticky), 12, PointSource::Counter, true).expect("a cookie");
        assert_eq!(set, "side=12; Path=/; HttpOnly; SameSite=Lax; Max-Age=60; Secure");
        assert_eq!(cookie(Some(&sticky), 12, PointSource::Cookie, true), None);
        assert_eq!(cookie(None, 12, PointSource::Counter, true), None);
    }

    const HASHES: [u16; 3] = [9008, 1941, 8156];
}
