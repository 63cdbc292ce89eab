//! The chunks of a body, byte for byte: sizes, extensions, ends and trailers, by the strictest reading.

use super::Refusal;
use super::rules::field;

/// A chunk's line of size and extensions is no longer.
const MAX_EXTENSION: usize = 256;
/// All trailer fields together.
const MAX_TRAILERS: usize = 8 * 1024;

/// Where in a chunked body the next byte is.
#[derive(Debug)]
pub(super) enum Chunked {
    Size {
        digits: u8,
        size: u64,
    },
    Extension {
        size: u64,
        bytes: usize,
    },
    SizeLf {
        size: u64,
    },
    Data {
        left: u64,
    },
    DataCr,
    DataLf,
    /// A trailer line, or the empty line that ends the body.
    Trailer {
        line: Vec<u8>,
        bytes: usize,
    },
    End,
}

impl Chunked {
    pub(super) fn start() -> Self {
        Self::Size { digits: 0, size: 0 }
    }

    /// Follows the body; returns how many bytes belong to it. It is over if the state is [`Chunked::End`] then.
    pub(super) fn follow(&mut self, input: &[u8]) -> Result<usize, Refusal> {
        let mut at = 0;
        while at < input.len() && !matches!(self, Self::End) {
            if let Self::Data { left } = self {
                let here = (*left).min((input.len() - at) as u64);
                *left -= here;
                at += here as usize;
                if *left == 0 {
                    *self = Self::DataCr;
                }
                continue;
            }
            self.step(input[at])?;
            at += 1;
        }
        Ok(at)
    }

    fn step(&mut self, byte: u8) -> Result<(), Refusal> {
        let next = match self {
            Self::Size { digits, size } => match (byte, char::from(byte).to_digit(16)) {
                (_, Some(_)) if *digits == 15 => return Err(Refusal::ChunkSize),
                (_, Some(digit)) => Self::Size { digits: *digits + 1, size: *size * 16 + u64::from(digit) },
                (b'\r', _) if *digits > 0 => Self::SizeLf { size: *size },
                (b';', _) if *digits > 0 => Self::Extension { size: *size, bytes: 0 },
                _ => return Err(Refusal::ChunkSize),
            },
            Self::Extension { size, bytes } => match byte {
                b'\r' => Self::SizeLf { size: *size },
                b'\t' | 0x20..=0x7e if *bytes < MAX_EXTENSION => Self::Extension { size: *size, bytes: *bytes + 1 },
                _ => return Err(Refusal::ChunkExtension),
            },
            Self::SizeLf { size } => match (byte, *size) {
                (b'\n', 0) => Self::Trailer { line: Vec::new(), bytes: 0 },
                (b'\n', left) => Self::Data { left },
                _ => return Err(Refusal::BareCr),
            },
            Self::DataCr if byte == b'\r' => Self::DataLf,
            Self::DataLf if byte == b'\n' => Self::start(),
            Self::DataCr | Self::DataLf => return Err(Refusal::ChunkEnd),
            Self::Trailer { line, bytes } => {
                line.push(byte);
                *bytes += 1;
                if *bytes > MAX_TRAILERS {
                    return Err(Refusal::Trailer);
                }
                match (byte, line.strip_suffix(b"\r\n")) {
                    (b'\n', None) => return Err(Refusal::BareLf),
                    (_, None) => return Ok(()),
                    (_, Some([])) => Self::End,
                    (_, Some(text)) => {
                        trailer(text)?;
                        line.clear();
                        return Ok(());
                    }
                }
            }
            Self::Data { .. } | Self::End => return Ok(()),
        };
        *self = next;
        Ok(())
    }
}

/// A trailer may not say anything that had to be known before the body.
fn trailer(line: &[u8]) -> Result<(), Refusal> {
    let (name, _) = field(line).map_err(|_| Refusal::Trailer)?;
    let forbidden = [
        "content-length",
        "transfer-encoding",
        "host",
        "connection",
        "upgrade",
        "te",
        "trailer",
        "content-encoding",
        "content-type",
        "content-range",
        "authorization",
        "cookie",
        "expect",
    ];
    match forbidden.iter().any(|it| name.eq_ignore_ascii_case(it.as_bytes())) {
        true => Err(Refusal::Trailer),
        false => Ok(()),
    }
}
