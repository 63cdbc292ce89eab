//! `setpoint audit`: who approved and who did what, when, also of what is deleted.
//!
//! It reads the decision log of a data folder, the newest entry first, and writes nothing there.

mod filter;
mod sentence;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};
use serde_json::Value;
use setpoint_apiserver::audit::decisions::{Entry, Reader};

use self::filter::{Filter, Kind, ObjectName};
use crate::data_dir::DataDir;
use crate::decision_log::DECISIONS;
use crate::table::GAP;
use crate::terminal::{aligned, inert, inert_lines, print, remark, yaml};

/// How many rows of a table have their columns in line with each other.
const PAGE: usize = 1000;

#[derive(Debug, Args)]
pub(crate) struct Audit {
    /// Only what concerns this object, which may be deleted: KIND/NAME, such as machine/web or guest/101
    #[arg(long, value_name = "KIND/NAME", value_parser = ObjectName::parse)]
    object: Option<ObjectName>,
    /// Only what concerns objects of this namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Only what this user decided, asked for, or did
    #[arg(long, value_name = "USER")]
    by: Option<String>,
    /// Only what happened since: a time such as 2026-01-31T12:00:00Z, or how long ago, such as 24h or 30d
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Since>,
    /// Only decisions of this kind; may be given several times
    #[arg(long = "decision", value_name = "KIND", value_enum)]
    kinds: Vec<Kind>,
    /// Show no more than so many entries
    #[arg(long, value_name = "NUMBER", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// The form to print it in
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// The data folder of the server, which may be running [default: setpoint under the user's data home]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A sentence for each entry
    Text,
    /// Columns
    Table,
    /// Columns, with digests, guests and keys
    Wide,
    Json,
    Yaml,
}

/// From when on entries are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Since {
    Time(Timestamp),
    Ago(SignedDuration),
}

impl Audit {
    pub(crate) fn run(&self) -> Result<()> {
        let folder = self.data_dir.clone().map_or_else(DataDir::default_path, Ok)?;
        let (shown, log) = (folder.display(), folder.join(DECISIONS));
        if !folder.is_dir() {
            bail!(
                "there is no data folder {shown}; name that of the server with --data-dir, on the machine where it runs"
            );
        }
        let since = match self.since {
            Some(Since::Ago(ago)) => Some(Timestamp::now().checked_sub(ago).unwrap_or(Timestamp::MIN)),
            Some(Since::Time(time)) => Some(time),
            None => None,
        };
        let reader = Reader::open(&log, since).with_context(|| format!("cannot read {}", log.display()))?;
        let Some(mut reader) = reader else {
            bail!(
                "{shown} has no decision log; `setpoint up` writes it in its own data folder, on the machine where it runs"
            );
        };
        let filter = Filter {
            object: self.object.as_ref(),
            namespace: self.namespace.as_deref(),
            by: self.by.as_deref(),
            kinds: &self.kinds,
        };
        let (mut printer, mut count) = (Printer::new(self.output), 0);
        let mut has_more = false;
        while let Some(entry) = reader.next_entry().with_context(|| format!("cannot read {}", log.display()))? {
            if !filter.matches(&entry) {
                continue;
            }
            if count == self.limit {
                has_more = true;
                break;
            }
            count += 1;
            printer.entry(&entry)?;
        }
        printer.end()?;
        if count == 0 {
            remark(&format!("nothing of that is in the decision log of {shown}"));
        }
        if has_more {
            remark(&format!("these are the newest {count}; --limit shows more"));
        }
        if reader.unreadable() > 0 {
            remark(&format!("{} damaged lines of the log could not be read", reader.unreadable()));
        }
        Ok(())
    }
}

/// Prints entries as they come, so that however many there are, few are in memory.
struct Printer {
    output: Output,
    is_first: bool,
    rows: Vec<Vec<String>>,
}

impl Printer {
    fn new(output: Output) -> Printer {
        Printer { output, is_first: true, rows: Vec::new() }
    }

    fn entry(&mut self, entry: &Entry) -> Result<()> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        match self.output {
            Output::Text => print(&format!("{}\n", inert(&sentence::sentence(entry)))),
            Output::Json => {
                let text = serde_json::to_string_pretty(entry)?;
                let before = if is_first { "[\n" } else { ",\n" };
                print(&format!("{before}{}", inert_lines(&text)))
            }
            Output::Yaml => print(&yaml(&Value::Array(vec![serde_json::to_value(entry)?]))?),
            Output::Table | Output::Wide => {
                let is_wide = self.output == Output::Wide;
                if is_first {
                    self.rows.push(sentence::head(is_wide));
                }
                self.rows.push(sentence::row(entry, is_wide).iter().map(|cell| inert(cell)).collect());
                if self.rows.len() >= PAGE { self.flush() } else { Ok(()) }
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        let lines = aligned(&std::mem::take(&mut self.rows), GAP);
        print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())
    }

    fn end(&mut self) -> Result<()> {
        match self.output {
            Output::Json => print(if self.is_first { "[]\n" } else { "\n]\n" }),
            Output::Yaml if self.is_first => print("[]\n"),
            Output::Text | Output::Yaml => Ok(()),
            Output::Table | Output::Wide => self.flush(),
        }
    }
}

fn since(text: &str) -> Result<Since, String> {
    let wrong = || "a time is like 2026-01-31T12:00:00Z, or how long ago, such as 24h or 30d".to_owned();
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(Since::Time(time));
    }
    let span: Span = text.parse().map_err(|_| wrong())?;
    let ago = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| wrong())?;
    if ago.is_negative() { Err(wrong()) } else { Ok(Since::Ago(ago)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_time_or_how_long_ago() {
        let hours = |hours: i64| Some(Since::Ago(SignedDuration::from_hours(hours)));
        let rows = [
            ("24h", hours(24)),
            ("30d", hours(30 * 24)),
            ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z".parse().ok().map(Since::Time)),
            ("-1h", None),
            ("yesterday", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(since(text).ok(), expected, "{text:?}");
        }
    }
}
