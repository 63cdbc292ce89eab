//! What the embedded store's records look like on disk. Numbers are big-endian.
//!
//! | table | key | value |
//! | --- | --- | --- |
//! | objects | the key | revision (8), value |
//! | history | revision (8) | time in seconds (8), revision of the previous value or 0 (8), key length (4), key, previous value |
//! | history | 0 (8) | the oldest readable revision (8) |
//!
//! History holds what each commit replaced, not what it wrote: that is in the objects, or in the history of the commit
//! that replaced it. So every value lies on disk once, and a part of history can go without a look at the rest.

use bytes::Bytes;

use crate::state::Change;
use crate::store::Revision;

/// The key of the record that says where history begins; no commit has revision 0.
pub(crate) const HORIZON: [u8; 8] = [0; 8];

pub(crate) fn encode_object(revision: Revision, value: &[u8]) -> Vec<u8> {
    [&revision.to_be_bytes(), value].concat()
}

pub(crate) fn decode_object(record: &[u8]) -> Option<(Bytes, Revision)> {
    let (revision, value) = number(record)?;
    Some((Bytes::copy_from_slice(value), revision))
}

pub(crate) fn encode_replaced(change: &Change) -> Vec<u8> {
    let (value, written) = change.previous.as_ref().map_or((&[][..], 0), |(value, written)| (value, *written));
    let key = change.key.as_bytes();
    let length = (key.len() as u32).to_be_bytes();
    [&change.time_s.to_be_bytes()[..], &written.to_be_bytes(), &length, key, value].concat()
}

/// What a commit replaced.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Replaced<'a> {
    pub time_s: u64,
    pub key: &'a str,
    pub previous: Option<(Bytes, Revision)>,
}

pub(crate) fn decode_replaced(record: &[u8]) -> Option<Replaced<'_>> {
    let (time_s, record) = number(record)?;
    let (written, record) = number(record)?;
    let (length, record) = record.split_first_chunk::<4>()?;
    let (key, value) = record.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    let previous = (written != 0).then(|| (Bytes::copy_from_slice(value), written));
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

    #[test]
    fn records_read_back_as_written() {
        assert_eq!(decode_object(&encode_object(7, b"value")), Some((Bytes::from_static(b"value"), 7)));
        for (name, previous) in
            [("created", None), ("replaced", Some((Bytes::from_static(b"old"), 3))), ("empty", Some((Bytes::new(), 3)))]
        {
            let change = Change { revision: 9, key: "/a/b".into(), value: None, previous: previous.clone(), time_s: 5 };
            let record = encode_replaced(&change);
            assert_eq!(decode_replaced(&record), Some(Replaced { time_s: 5, key: "/a/b", previous }), "{name}");
        }
    }

    #[test]
    fn a_short_record_is_no_record() {
        let change = Change { revision: 9, key: "/a/b".into(), value: None, previous: None, time_s: 5 };
        let record = encode_replaced(&change);
        for length in 0..record.len() {
            assert_eq!(decode_replaced(&record[..length]), None, "{length} bytes");
        }
    }
}
