//! What the embedded store's records look like on disk. Numbers are big-endian.
//!
//! | table | key | value |
//! | --- | --- | --- |
//! | objects | the key | revision (8), value |
//! | history | revision (8) | time in seconds (8), revision of the previous value or 0 (8), key length (4), key, previous value |
//! | history | 0 (8) | the oldest readable revision (8) |
//!
//! The highest bit of a value's revision says that the value is sealed, so no plain value can be taken for a sealed one.
//!
//! History holds what each commit replaced, not what it wrote: that is in the objects, or in the history of the commit
//! that replaced it. So every value lies on disk once, and a part of history can go without a look at the rest.

use std::borrow::Cow;

use crate::store::Revision;

/// The key of the record that says where history begins; no commit has revision 0.
pub(crate) const HORIZON: [u8; 8] = [0; 8];

/// No store counts so far; a larger revision is damage, and counting on from it could overflow.
pub(crate) const LARGEST_REVISION: Revision = !SEALED;

const SEALED: u64 = 1 << 63;

/// A value as it lies on disk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kept<'a> {
    /// The commit that wrote it.
    pub written: Revision,
    pub sealed: bool,
    /// The value, or what it was sealed to.
    pub bytes: Cow<'a, [u8]>,
}

impl Kept<'_> {
    fn head(&self) -> [u8; 8] {
        let sealed = if self.sealed { SEALED } else { 0 };
        (self.written | sealed).to_be_bytes()
    }
}

impl<'a> Kept<'a> {
    fn new(head: u64, bytes: &'a [u8]) -> Self {
        Self { written: head & LARGEST_REVISION, sealed: head & SEALED != 0, bytes: bytes.into() }
    }
}

pub(crate) fn encode_object(kept: &Kept<'_>) -> Vec<u8> {
    [&kept.head(), &*kept.bytes].concat()
}

pub(crate) fn decode_object(record: &[u8]) -> Option<Kept<'_>> {
    number(record).map(|(head, value)| Kept::new(head, value))
}

/// What a commit replaced.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Replaced<'a> {
    pub time_s: u64,
    pub key: &'a str,
    pub previous: Option<Kept<'a>>,
}

pub(crate) fn encode_replaced(replaced: &Replaced<'_>) -> Vec<u8> {
    let (head, value) = replaced.previous.as_ref().map_or(([0; 8], &[][..]), |kept| (kept.head(), &*kept.bytes));
    let key = replaced.key.as_bytes();
    let length = (key.len() as u32).to_be_bytes();
    [&replaced.time_s.to_be_bytes()[..], &head, &length, key, value].concat()
}

pub(crate) fn decode_replaced(record: &[u8]) -> Option<Replaced<'_>> {
    let (time_s, record) = number(record)?;
    let (head, record) = number(record)?;
    let (length, record) = record.split_first_chunk::<4>()?;
    let (key, value) = record.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    let previous = (head != 0).then(|| Kept::new(head, value));
    Some(Replaced { time_s, key: std::str::from_utf8(key).ok()?, previous })
}

pub(crate) fn decode_revision(record: &[u8]) -> Option<Revision> {
    number(record).filter(|(_, rest)| rest.is_empty()).map(|(revision, _)| revision)
}

fn number(record: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = record.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(written: Revision, sealed: bool, bytes: &[u8]) -> Kept<'_> {
        Kept { written, sealed, bytes: bytes.into() }
    }

    #[test]
    fn records_read_back_as_written() {
        for (name, kept) in [
            ("plain", kept(7, false, b"value")),
            ("sealed", kept(7, true, b"value")),
            ("empty", kept(7, false, b"")),
            ("the last of all", kept(LARGEST_REVISION, true, b"value")),
        ] {
            assert_eq!(decode_object(&encode_object(&kept)), Some(kept), "{name}");
        }
        for (name, previous) in [
            ("created", None),
            ("replaced", Some(kept(3, false, b"old"))),
            ("replaced when sealed", Some(kept(3, true, b"old"))),
            ("empty", Some(kept(3, false, b""))),
        ] {
            let replaced = Replaced { time_s: 5, key: "/a/b", previous };
            assert_eq!(decode_replaced(&encode_replaced(&replaced)), Some(replaced), "{name}");
        }
    }

    #[test]
    fn a_short_record_is_no_record() {
        let record = encode_replaced(&Replaced { time_s: 5, key: "/a/b", previous: None });
        for length in 0..record.len() {
            assert_eq!(decode_replaced(&record[..length]), None, "{length} bytes");
        }
    }
}
