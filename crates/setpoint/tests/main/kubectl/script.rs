//! A golden script as text and as data.

use std::fmt;

use anyhow::{Context, Result};
use setpoint_testkit::kubectl::Version;

#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) parts: Vec<Part>,
}

#[derive(Debug)]
pub(crate) enum Part {
    Prose(String),
    Step { since: Option<Version>, command: String, transcript: Transcript },
}

/// What a command printed and how it ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Transcript {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i32,
}

impl Script {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (mut parts, mut next_since) = (Vec::new(), None);
        for line in text.lines() {
            let (mark, rest) = (line.chars().next(), line.get(2..).unwrap_or_default());
            match (mark, parts.last_mut()) {
                (Some('$'), _) => {
                    let (since, command) = (next_since.take(), rest.to_owned());
                    parts.push(Part::Step { since, command, transcript: Transcript::default() });
                }
                (Some('@'), _) => next_since = Some(version(rest).context("after @")?),
                (Some('|'), Some(Part::Step { transcript, .. })) => transcript.stdout += &format!("{rest}\n"),
                (Some('!'), Some(Part::Step { transcript, .. })) => transcript.stderr += &format!("{rest}\n"),
                (Some('='), Some(Part::Step { transcript, .. })) => transcript.code = rest.parse()?,
                _ => parts.push(Part::Prose(line.to_owned())),
            }
        }
        Ok(Self { parts })
    }
}

fn version(text: &str) -> Option<Version> {
    let (major, minor) = text.trim().split_once('.')?;
    Some(Version { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            match part {
                Part::Prose(line) => writeln!(f, "{line}")?,
                Part::Step { since, command, transcript } => {
                    if let Some(since) = since {
                        writeln!(f, "@ {since}")?;
                    }
                    write!(f, "$ {command}\n{transcript}")?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (mark, text) in [('|', &self.stdout), ('!', &self.stderr)] {
            for line in text.lines() {
                writeln!(f, "{}", format!("{mark} {line}").trim_end())?;
            }
        }
        if self.code != 0 {
            writeln!(f, "= {}", self.code)?;
        }
        Ok(())
    }
}

#[test]
fn a_script_prints_as_it_was_read() -> Result<()> {
    let text = "# Names\n\n@ 1.27\n$ kubectl get x\n| a\n|\n|   b\n! no\n= 1\n$ true\nend\n";
    let script = Script::parse(text)?;
    assert_eq!(script.to_string(), text);
    let Part::Step { transcript, .. } = &script.parts[2] else { panic!("not a step") };
    assert_eq!((transcript.stdout.as_str(), transcript.code), ("a\n\n  b\n", 1));
    Ok(())
}
