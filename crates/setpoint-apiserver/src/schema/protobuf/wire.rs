//! The protobuf wire format: a message is a row of numbered fields, each with its length or an end of its own.

use std::{iter, str};

use thiserror::Error;

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Content<'b> {
    Varint(u64),
    Fixed64([u8; 8]),
    /// A text, bytes, a message or packed numbers.
    Bytes(&'b [u8]),
    /// 32 fixed bits or a group: no type of Kubernetes has them.
    Unread,
}

/// Why bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum Malformed {
    #[error("the message ends within a field")]
    Truncated,
    #[error("a varint has more than 64 bits")]
    Overlong,
    #[error("{0} is no field number")]
    Number(u64),
    #[error("there is no wire type {0} here")]
    WireType(u64),
    #[error("the wire type is not the field's")]
    OtherWireType,
    #[error("the text is not UTF-8")]
    NotText,
    #[error("the raw value is no JSON")]
    NotJson,
    #[error("the time is out of range")]
    NoTime,
}

impl<'b> Content<'b> {
    pub(super) fn varint(self) -> Result<u64, Malformed> {
        match self {
            Content::Varint(value) => Ok(value),
            _ => Err(Malformed::OtherWireType),
        }
    }

    pub(super) fn bytes(self) -> Result<&'b [u8], Malformed> {
        match self {
            Content::Bytes(bytes) => Ok(bytes),
            _ => Err(Malformed::OtherWireType),
        }
    }

    pub(super) fn text(self) -> Result<&'b str, Malformed> {
        str::from_utf8(self.bytes()?).map_err(|_| Malformed::NotText)
    }
}

/// The last field of this number in a small message, which is the one that counts.
pub(super) fn last(message: &[u8], number: u64) -> Result<Option<Content<'_>>, Malformed> {
    let mut last = None;
    for field in Fields::of(message) {
        let (found, content) = field?;
        if found == number {
            last = Some(content);
        }
    }
    Ok(last)
}

/// The integer in this field; zero if it is not there.
pub(super) fn varint(message: &[u8], number: u64) -> Result<u64, Malformed> {
    last(message, number)?.map_or(Ok(0), Content::varint)
}

/// The bytes in this field; none if it is not there.
pub(super) fn bytes(message: &[u8], number: u64) -> Result<&[u8], Malformed> {
    last(message, number)?.map_or(Ok(&[]), Content::bytes)
}

/// The text in this field; empty if it is not there.
pub(super) fn text(message: &[u8], number: u64) -> Result<&str, Malformed> {
    last(message, number)?.map_or(Ok(""), Content::text)
}

/// The fields of a message in the order they stand, each with its number.
#[derive(Debug)]
pub(super) struct Fields<'b> {
    rest: &'b [u8],
}

impl<'b> Iterator for Fields<'b> {
    type Item = Result<(u64, Content<'b>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.rest.is_empty()).then(|| self.field())
    }
}

const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const BYTES: u64 = 2;
const GROUP_START: u64 = 3;
const GROUP_END: u64 = 4;
const FIXED_32: u64 = 5;

impl<'b> Fields<'b> {
    pub(super) fn of(message: &'b [u8]) -> Fields<'b> {
        Fields { rest: message }
    }

    fn field(&mut self) -> Result<(u64, Content<'b>), Malformed> {
        let (number, wire_type) = self.tag()?;
        let content = match wire_type {
            GROUP_START => self.skip_group()?,
            _ => self.content(wire_type)?,
        };
        Ok((number, content))
    }

    fn tag(&mut self) -> Result<(u64, u64), Malformed> {
        let tag = self.varint()?;
        match tag >> 3 {
            number @ 1..=0x1fff_ffff => Ok((number, tag & 7)),
            number => Err(Malformed::Number(number)),
        }
    }

    fn content(&mut self, wire_type: u64) -> Result<Content<'b>, Malformed> {
        match wire_type {
            VARINT => self.varint().map(Content::Varint),
            FIXED_64 => {
                let (bytes, rest) = self.rest.split_first_chunk().ok_or(Malformed::Truncated)?;
                self.rest = rest;
                Ok(Content::Fixed64(*bytes))
            }
            BYTES => {
                let length = self.varint()?;
                self.take(length).map(Content::Bytes)
            }
            FIXED_32 => self.take(4).map(|_| Content::Unread),
            other => Err(Malformed::WireType(other)),
        }
    }

    /// Goes past the end of a group. Counts, rather than descends into, the groups within it.
    fn skip_group(&mut self) -> Result<Content<'b>, Malformed> {
        let mut open = 1_usize;
        while open > 0 {
            match self.tag()?.1 {
                GROUP_START => open += 1,
                GROUP_END => open -= 1,
                wire_type => drop(self.content(wire_type)?),
            }
        }
        Ok(Content::Unread)
    }

    fn take(&mut self, length: u64) -> Result<&'b [u8], Malformed> {
        let length = usize::try_from(length).map_err(|_| Malformed::Truncated)?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let (value, rest) = varint_at_start(self.rest)?;
        self.rest = rest;
        Ok(value)
    }
}

/// The numbers of a list that stand in one field, without tags between them.
pub(super) fn packed(bytes: &[u8]) -> impl Iterator<Item = Result<u64, Malformed>> {
    let mut fields = Fields::of(bytes);
    iter::from_fn(move || (!fields.rest.is_empty()).then(|| fields.varint()))
}

/// Seven bits a byte, the lowest first; the eighth says that more follow.
fn varint_at_start(bytes: &[u8]) -> Result<(u64, &[u8]), Malformed> {
    let mut value = 0;
    for (position, byte) in bytes.iter().enumerate() {
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if position == 10 || position == 9 && bits > 1 {
            return Err(Malformed::Overlong);
        }
        value |= bits << (7 * position);
        if byte & 0x80 == 0 {
            return Ok((value, &bytes[position + 1..]));
        }
    }
    Err(Malformed::Truncated)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: &[u8]) -> Result<Vec<(u64, Content<'_>)>, Malformed> {
        Fields::of(message).collect()
    }

    type Row<'b> = (&'b str, &'b [u8], &'b [(u64, Content<'b>)]);

    #[test]
    fn fields_are_read_by_wire_type() {
        let rows: [Row<'_>; 8] = [
            ("nothing", b"", &[]),
            ("a varint of two bytes", b"\x08\x96\x01", &[(1, Content::Varint(150))]),
            ("minus one", b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", &[(1, Content::Varint(u64::MAX))]),
            ("a text, then a number", b"\x12\x02hi\x18\x00", &[(2, Content::Bytes(b"hi")), (3, Content::Varint(0))]),
            ("64 fixed bits", b"\x0912345678", &[(1, Content::Fixed64(*b"12345678"))]),
            ("32 fixed bits", b"\x0d1234\x10\x01", &[(1, Content::Unread), (2, Content::Varint(1))]),
            (
                "groups in a group",
                b"\x0b\x13\x08\x05\x14\x0c\x10\x01",
                &[(1, Content::Unread), (2, Content::Varint(1))],
            ),
            ("a number of two bytes", b"\x82\x01\x00", &[(16, Content::Bytes(b""))]),
        ];
        for (why, message, fields) in rows {
            assert_eq!(read(message).as_deref(), Ok(fields), "{why}");
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let rows: [(&str, &[u8], Malformed); 10] = [
            ("a tag that goes on", b"\x80", Malformed::Truncated),
            ("no value", b"\x08", Malformed::Truncated),
            ("a length past the end", b"\x12\x05hi", Malformed::Truncated),
            ("a huge length", b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01hi", Malformed::Truncated),
            ("64 bits cut off", b"\x091234", Malformed::Truncated),
            ("an open group", b"\x0b\x08\x05", Malformed::Truncated),
            ("more than 64 bits", b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", Malformed::Overlong),
            ("field zero", b"\x02\x00", Malformed::Number(0)),
            ("an end of no group", b"\x0c", Malformed::WireType(4)),
            ("an unknown wire type", b"\x0f", Malformed::WireType(7)),
        ];
        for (why, message, malformed) in rows {
            assert_eq!(read(message), Err(malformed), "{why}");
        }
    }
}
