//! The scanner of heads on its own, without sockets.

use proptest::prelude::*;
use setpoint_proxy::head::{HeadLimits, Scan, Scanner};

use crate::attacks::{ATTACKS, BROKEN_BODIES, LEGAL};

/// What came of a stream of bytes.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    heads: Vec<Vec<u8>>,
    passed: Vec<u8>,
    refused: Option<String>,
}

/// Feeds a stream in pieces, as a connection would.
fn scan<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: HeadLimits) -> Seen {
    let mut scanner = Scanner::new(limits);
    let mut seen = Seen::default();
    let mut waiting: Vec<u8> = Vec::new();
    for piece in pieces {
        waiting.extend_from_slice(piece);
        loop {
            match scanner.scan(&waiting) {
                Scan::Skip(bytes) => drop(waiting.drain(..bytes)),
                Scan::Head(bytes) => seen.heads.push(waiting.drain(..bytes).collect()),
                Scan::Pass(bytes) => seen.passed.extend(waiting.drain(..bytes)),
                Scan::More | Scan::Hold => break,
                Scan::RefusedHead(refusal) | Scan::RefusedBody(refusal) => {
                    seen.refused = Some(refusal.to_string());
                    return seen;
                }
            }
        }
    }
    seen
}

fn whole(bytes: &[u8]) -> Seen {
    scan([bytes], HeadLimits::default())
}

#[test]
fn attacks_are_refused() {
    assert!(ATTACKS.len() >= 60);
    for (what, bytes) in ATTACKS {
        let seen = whole(bytes);
        assert!(seen.refused.is_some(), "{what}: {seen:?}");
        assert_eq!(seen.heads.len(), 0, "{what}: a head was passed on");
        let bytewise = scan(bytes.chunks(1), HeadLimits::default());
        assert_eq!((bytewise.refused, bytewise.heads), (seen.refused, seen.heads), "{what}, byte by byte");
    }
}

#[test]
fn legal_requests_pass() {
    assert!(LEGAL.len() >= 30);
    for (what, bytes) in LEGAL {
        let seen = whole(bytes);
        assert_eq!(seen.refused, None, "{what}");
        assert_eq!(seen.heads.len(), 1, "{what}");
        // And the next request on the connection is found where this one ends.
        let again = whole(&[bytes, *bytes].concat());
        assert_eq!((again.heads.len(), again.refused), (2, None), "{what}, twice");
    }
}

#[test]
fn broken_bodies_are_refused() {
    for (what, body) in BROKEN_BODIES {
        let head = b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n";
        let seen = whole(&[&head[..], body].concat());
        assert!(seen.refused.is_some(), "{what}: {seen:?}");
        assert_eq!(seen.heads.len(), 1, "{what}");
    }
}

#[test]
fn heads_have_limits() {
    let limits = HeadLimits { bytes: 1_000, fields: 5, target_bytes: 100 };
    let rows: [(&str, String, Option<&str>); 5] = [
        ("within", "GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), None),
        (
            "a long target",
            format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(100)),
            Some("the target is too long"),
        ),
        (
            "many headers",
            format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(5)),
            Some("the head is too large"),
        ),
        (
            "a long header",
            format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "y".repeat(1_000)),
            Some("the head is too large"),
        ),
        ("an endless header", format!("GET / HTTP/1.1\r\nX: {}", "y".repeat(1_000)), Some("the head is too large")),
    ];
    for (what, text, expected) in rows {
        assert_eq!(scan([text.as_bytes()], limits).refused.as_deref(), expected, "{what}");
        assert_eq!(scan(text.as_bytes().chunks(7), limits).refused.as_deref(), expected, "{what}, in pieces");
    }
}

#[test]
fn nothing_follows_a_wish_to_upgrade_until_it_is_answered() {
    let head = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let frames = b"\x81\x05hello";
    let mut scanner = Scanner::new(HeadLimits::default());
    assert_eq!(scanner.scan(head), Scan::Head(head.len()));
    assert_eq!(scanner.scan(frames), Scan::Hold);
    scanner.decide_upgrade(true);
    assert_eq!(scanner.scan(frames), Scan::Pass(frames.len()));
    let mut scanner = Scanner::new(HeadLimits::default());
    assert_eq!(scanner.scan(head), Scan::Head(head.len()));
    scanner.decide_upgrade(false);
    assert!(matches!(scanner.scan(frames), Scan::RefusedHead(_)), "it is HTTP again, and this is none");
}

proptest! {
    #[test]
    fn it_does_not_matter_how_bytes_are_divided(
        choice in 0..ATTACKS.len() + LEGAL.len(),
        cuts in proptest::collection::vec(0..400_usize, 0..8),
    ) {
        let bytes = match choice.checked_sub(ATTACKS.len()) {
            Some(legal) => [LEGAL[legal].1, LEGAL[(legal + 1) % LEGAL.len()].1].concat(),
            None => [LEGAL[0].1, ATTACKS[choice].1].concat(),
        };
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]);
        let divided = scan(pieces, HeadLimits::default());
        prop_assert_eq!(divided, whole(&bytes));
    }

    #[test]
    fn any_bytes_are_taken_without_panic(bytes: Vec<u8>) {
        let _seen = whole(&bytes);
        let _seen = whole(&[b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", &bytes[..]].concat());
    }
}
