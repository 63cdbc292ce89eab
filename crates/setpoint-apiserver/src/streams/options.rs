//! What a request for a log or a session says it wants.

use jiff::{SignedDuration, Timestamp};

use super::{AttachOptions, ExecOptions, LogOptions, LogStreams};
use crate::failure::{Failure, Result};
use crate::query::Query;
use setpoint_api::field::{Errors, Path};

const NOT_POSITIVE: &str = "must be greater than 0";
const NEGATIVE: &str = "must be greater than or equal to 0";

/// What is wanted of the log of this Pod.
pub fn log(query: &Query, pod: &str, now: Timestamp) -> Result<LogOptions> {
    let mut errors = Errors::default();
    let tail_lines = number(query, "tailLines", 0, NEGATIVE, &mut errors)?;
    let limit_bytes = number(query, "limitBytes", 1, NOT_POSITIVE, &mut errors)?;
    let since = since(query, now, &mut errors)?;
    let streams = match query.text("stream") {
        "" | "All" => LogStreams::All,
        "Stdout" => LogStreams::Stdout,
        "Stderr" => LogStreams::Stderr,
        other => {
            errors.unsupported(&Path::of("stream"), other, &["All", "Stderr", "Stdout"]);
            LogStreams::All
        }
    };
    if streams != LogStreams::All && query.get("tailLines").is_some() {
        errors.forbidden(&Path::of(""), "`tailLines` and specific `stream` are mutually exclusive for now");
    }
    if !errors.is_empty() {
        return Err(Failure::invalid_kind("", "PodLogOptions", pod, errors));
    }
    let flag = |key| query.flag(key).unwrap_or(false);
    let (follow, previous, timestamps) = (flag("follow"), flag("previous"), flag("timestamps"));
    Ok(LogOptions { follow, previous, since, tail_lines, limit_bytes, timestamps, streams })
}

/// A number that may be left out, and is at least this.
fn number(query: &Query, key: &str, least: i64, why: &str, errors: &mut Errors) -> Result<Option<u64>> {
    let Some(number) = query.number(key)? else { return Ok(None) };
    if number < least {
        errors.invalid(&Path::of(key), number, why);
    }
    Ok(u64::try_from(number).ok())
}

/// The time that is meant, by how long ago it was or by itself.
fn since(query: &Query, now: Timestamp, errors: &mut Errors) -> Result<Option<Timestamp>> {
    let time = match query.text("sinceTime") {
        "" | "null" => None,
        text => Some(text.parse::<Timestamp>().map_err(|_| {
            Failure::bad_request(format!("parsing time {text:?}: sinceTime is a time such as 2006-01-02T15:04:05Z"))
        })?),
    };
    if time.is_some() && query.number("sinceSeconds")?.is_some() {
        errors.forbidden(&Path::of(""), "at most one of `sinceTime` or `sinceSeconds` may be specified");
        return Ok(None);
    }
    let seconds = number(query, "sinceSeconds", 1, NOT_POSITIVE, errors)?;
    let ago = seconds.and_then(|seconds| i64::try_from(seconds).ok()).map(SignedDuration::from_secs);
    // Longer ago than time is: everything.
    Ok(time.or(ago.and_then(|ago| now.checked_sub(ago).ok())))
}

/// The command that is to be run.
pub fn exec(query: &Query) -> Result<ExecOptions> {
    let command: Vec<String> = query.values("command").map(str::to_owned).collect();
    if command.first().is_none_or(String::is_empty) {
        return Err(Failure::bad_request("you must specify the command to run, as one or more 'command'"));
    }
    let AttachOptions { stdin, stdout, stderr, tty } = attach(query)?;
    Ok(ExecOptions { command, stdin, stdout, stderr, tty })
}

/// What of a container is to be joined.
pub fn attach(query: &Query) -> Result<AttachOptions> {
    let [stdin, stdout, stderr, tty] = ["stdin", "stdout", "stderr", "tty"].map(|key| query.flag(key).unwrap_or(false));
    // A terminal has one output.
    let stderr = stderr && !tty;
    if !(stdin || stdout || stderr) {
        return Err(Failure::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
    }
    Ok(AttachOptions { stdin, stdout, stderr, tty })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: LogOptions = LogOptions {
        follow: false,
        previous: false,
        since: None,
        tail_lines: None,
        limit_bytes: None,
        timestamps: false,
        streams: LogStreams::All,
    };

    fn now() -> Timestamp {
        "2026-01-02T03:04:05Z".parse().expect("a time")
    }

    fn log_of(query: &str) -> std::result::Result<LogOptions, (u16, String)> {
        log(&Query::parse(Some(query)), "web", now())
            .map_err(|failure| (failure.code.as_u16(), failure.message().to_owned()))
    }

    #[test]
    fn a_log_is_wanted_in_part() {
        let time = |text: &str| Some(text.parse().expect("a time"));
        let rows = [
            ("", NOTHING),
            (
                "follow=true&previous=1&timestamps",
                LogOptions { follow: true, previous: true, timestamps: true, ..NOTHING },
            ),
            ("follow=false", NOTHING),
            ("tailLines=0", LogOptions { tail_lines: Some(0), ..NOTHING }),
            ("tailLines=20&limitBytes=1", LogOptions { tail_lines: Some(20), limit_bytes: Some(1), ..NOTHING }),
            ("sinceSeconds=5", LogOptions { since: time("2026-01-02T03:04:00Z"), ..NOTHING }),
            ("sinceSeconds=9223372036854775807", NOTHING),
            ("sinceTime=2026-01-01T00:00:00%2B01:00", LogOptions { since: time("2025-12-31T23:00:00Z"), ..NOTHING }),
            ("sinceTime=", NOTHING),
            ("stream=Stderr", LogOptions { streams: LogStreams::Stderr, ..NOTHING }),
            ("stream=All&tailLines=1", LogOptions { tail_lines: Some(1), ..NOTHING }),
        ];
        for (query, expected) in rows {
            assert_eq!(log_of(query), Ok(expected), "{query}");
        }
    }

    #[test]
    fn a_log_is_refused_as_kubernetes_does() {
        let invalid = |why: &str| (422, format!("PodLogOptions \"web\" is invalid: {why}"));
        let rows = [
            ("tailLines=-1", invalid("tailLines: Invalid value: -1: must be greater than or equal to 0")),
            ("limitBytes=0", invalid("limitBytes: Invalid value: 0: must be greater than 0")),
            ("sinceSeconds=0", invalid("sinceSeconds: Invalid value: 0: must be greater than 0")),
            (
                "sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z",
                invalid(": Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"),
            ),
            (
                "stream=Both",
                invalid("stream: Unsupported value: \"Both\": supported values: \"All\", \"Stderr\", \"Stdout\""),
            ),
            (
                "stream=Stdout&tailLines=1",
                invalid(": Forbidden: `tailLines` and specific `stream` are mutually exclusive for now"),
            ),
            (
                "tailLines=-1&limitBytes=-5",
                invalid(
                    "[tailLines: Invalid value: -1: must be greater than or equal to 0, \
                     limitBytes: Invalid value: -5: must be greater than 0]",
                ),
            ),
            (
                "tailLines=x",
                (400, "strconv.ParseInt: parsing \"x\": invalid syntax (tailLines is a number)".to_owned()),
            ),
            (
                "sinceTime=yesterday",
                (400, "parsing time \"yesterday\": sinceTime is a time such as 2006-01-02T15:04:05Z".to_owned()),
            ),
        ];
        for (query, expected) in rows {
            assert_eq!(log_of(query), Err(expected), "{query}");
        }
    }

    #[test]
    fn a_command_is_every_word_of_it() {
        let exec = |query| exec(&Query::parse(Some(query))).map_err(|failure| failure.message().to_owned());
        let options = |command: &[&str], [stdin, stdout, stderr, tty]: [bool; 4]| {
            Ok(ExecOptions {
                command: command.iter().map(|word| (*word).to_owned()).collect(),
                stdin,
                stdout,
                stderr,
                tty,
            })
        };
        let rows = [
            ("command=ls&stdout=true", options(&["ls"], [false, true, false, false])),
            (
                "command=sh&command=-c&command=echo+a%26b&command=&stdout=1&stderr=1",
                options(&["sh", "-c", "echo a&b", ""], [false, true, true, false]),
            ),
            ("command=sh&stdin=1&stdout=1&stderr=1&tty=1", options(&["sh"], [true, true, false, true])),
            ("stdout=1", Err("you must specify the command to run, as one or more 'command'".to_owned())),
            ("command=&stdout=1", Err("you must specify the command to run, as one or more 'command'".to_owned())),
            ("command=ls", Err("you must specify at least 1 of stdin, stdout, stderr".to_owned())),
            ("command=ls&stderr=1&tty=1", Err("you must specify at least 1 of stdin, stdout, stderr".to_owned())),
        ];
        for (query, expected) in rows {
            assert_eq!(exec(query), expected, "{query}");
        }
    }
}
