//! One entry of a log file: `2026-01-02T03:04:05.678901234Z stdout F text`.

use jiff::Timestamp;

use crate::session::LogSource;

/// No entry is longer: a shim splits what is. What is longer all the same is none of its making and passed over.
pub(super) const MAX_ENTRY_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry<'t> {
    /// When it was written, as it stands in the file.
    pub(super) stamp: &'t str,
    pub(super) source: LogSource,
    /// Whether the line ends here; otherwise the next entry goes on with it.
    pub(super) ends_line: bool,
    pub(super) text: &'t [u8],
}

impl<'t> Entry<'t> {
    /// Reads an entry, without the end of its line. What is none is `None`.
    pub(super) fn parse(line: &'t [u8]) -> Option<Entry<'t>> {
        let (stamp, rest) = split(line)?;
        let (source, rest) = split(rest)?;
        let (tags, text) = split(rest).unwrap_or((rest, &[]));
        let source = match source {
            b"stdout" => LogSource::Output,
            b"stderr" => LogSource::Errors,
            _ => return None,
        };
        let ends_line = match tags.split(|byte| *byte == b':').next()? {
            b"F" => true,
            b"P" => false,
            _ => return None,
        };
        Some(Entry { stamp: std::str::from_utf8(stamp).ok()?, source, ends_line, text })
    }

    pub(super) fn is_from(&self, source: LogSource) -> bool {
        source == LogSource::All || source == self.source
    }

    pub(super) fn is_since(&self, since: Option<Timestamp>) -> bool {
        since.is_none_or(|since| self.stamp.parse::<Timestamp>().is_ok_and(|at| at >= since))
    }
}

fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|byte| *byte == b' ')?;
    Some((&text[..at], &text[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_and_all_else_is_not() {
        let entry = |source, ends_line, text| Entry { stamp: "2026-01-02T03:04:05Z", source, ends_line, text };
        let rows: [(&[u8], Option<Entry<'_>>); 9] = [
            (b"2026-01-02T03:04:05Z stdout F hello world", Some(entry(LogSource::Output, true, b"hello world"))),
            (b"2026-01-02T03:04:05Z stderr P part", Some(entry(LogSource::Errors, false, b"part"))),
            (b"2026-01-02T03:04:05Z stdout F ", Some(entry(LogSource::Output, true, b""))),
            (b"2026-01-02T03:04:05Z stdout F", Some(entry(LogSource::Output, true, b""))),
            (b"2026-01-02T03:04:05Z stdout F \xff\0", Some(entry(LogSource::Output, true, b"\xff\0"))),
            (b"2026-01-02T03:04:05Z stdin F x", None),
            (b"2026-01-02T03:04:05Z stdout Q x", None),
            (b"\xff stdout F x", None),
            (b"", None),
        ];
        for (line, expected) in rows {
            assert_eq!(Entry::parse(line), expected, "{}", String::from_utf8_lossy(line));
        }
    }
}
