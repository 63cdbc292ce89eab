//! Turns entries of a log into what its reader wants to see of it.

use crate::session::LogOptions;

use super::entry::Entry;

/// Collects the text of entries, one after the other. Entries that belong to one line are joined.
#[derive(Debug)]
pub(super) struct Printer {
    options: LogOptions,
    is_within_line: bool,
    left_bytes: u64,
    text: Vec<u8>,
}

impl Printer {
    pub(super) fn new(options: LogOptions) -> Printer {
        let left_bytes = options.limit_bytes.unwrap_or(u64::MAX);
        Printer { options, is_within_line: false, left_bytes, text: Vec::new() }
    }

    pub(super) fn print(&mut self, entry: &Entry<'_>) {
        if !entry.is_from(self.options.source) || !entry.is_since(self.options.since) {
            return;
        }
        if self.options.timestamps && !self.is_within_line {
            self.add(entry.stamp.as_bytes());
            self.add(b" ");
        }
        self.add(entry.text);
        if entry.ends_line {
            self.add(b"\n");
        }
        self.is_within_line = !entry.ends_line;
    }

    /// Whether no more may be printed.
    pub(super) fn is_full(&self) -> bool {
        self.left_bytes == 0
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// What was printed since it was last taken.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.text)
    }

    fn add(&mut self, text: &[u8]) {
        let fitting = usize::try_from(self.left_bytes).unwrap_or(usize::MAX).min(text.len());
        self.text.extend_from_slice(&text[..fitting]);
        self.left_bytes -= fitting as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::LogSource;

    const LOG: &str = "2026-01-01T00:00:01Z stdout F one
2026-01-01T00:00:02Z stderr F two
2026-01-01T00:00:03Z stdout P thr
2026-01-01T00:00:03.5Z stdout F ee
nonsense
2026-01-01T00:00:04Z stdout F
2026-01-01T00:00:05Z stdout P unfinished";

    fn printed(options: LogOptions) -> String {
        let mut printer = Printer::new(options);
        LOG.lines().filter_map(|line| Entry::parse(line.as_bytes())).for_each(|entry| printer.print(&entry));
        String::from_utf8(printer.take()).unwrap()
    }

    #[test]
    fn a_reader_sees_what_it_asked_for() {
        let all = LogOptions::default();
        let since = Some("2026-01-01T00:00:03Z".parse().unwrap());
        let rows = [
            ("everything", all.clone(), "one\ntwo\nthree\n\nunfinished"),
            ("only output", LogOptions { source: LogSource::Output, ..all.clone() }, "one\nthree\n\nunfinished"),
            ("only errors", LogOptions { source: LogSource::Errors, ..all.clone() }, "two\n"),
            ("since a time", LogOptions { since, ..all.clone() }, "three\n\nunfinished"),
            ("so many bytes", LogOptions { limit_bytes: Some(5), ..all.clone() }, "one\nt"),
            ("no bytes", LogOptions { limit_bytes: Some(0), ..all.clone() }, ""),
            (
                "with times, one for each line",
                LogOptions { timestamps: true, since, ..all },
                "2026-01-01T00:00:03Z three\n2026-01-01T00:00:04Z \n2026-01-01T00:00:05Z unfinished",
            ),
        ];
        for (name, options, expected) in rows {
            assert_eq!(printed(options), expected, "{name}");
        }
    }
}
