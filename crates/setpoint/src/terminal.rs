//! What is written to a terminal: text that cannot command it, and output whose reader may have seen enough.

use std::fmt::Write as _;
use std::io;

use anyhow::{Context as _, Result};
use serde_json::Value;
use setpoint_core::value::is_active;

/// The text with all that a terminal could take for a command, that would reorder what it shows, or that nobody would see,
/// written as escapes.
pub(crate) fn inert(text: &str) -> String {
    let mut inert = String::with_capacity(text.len());
    for character in text.chars() {
        if is_active(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(inert, "\\u{unit:04x}");
            }
        } else {
            inert.push(character);
        }
    }
    inert
}

/// The same for a text of several lines, which stay lines.
pub(crate) fn inert_lines(text: &str) -> String {
    text.split('\n').map(inert).collect::<Vec<_>>().join("\n")
}

/// A value as JSON that people can read. What is active stands within quotes there, where its escape means the same.
pub(crate) fn json(value: &Value) -> String {
    inert_lines(&format!("{value:#}\n"))
}

/// A value as YAML. JSON is YAML too, and stands in where a character could not be left as it is.
pub(crate) fn yaml(value: &Value) -> Result<String> {
    let text = serde_saphyr::to_string(value).context("cannot write an object as YAML")?;
    let is_inert = text.chars().all(|character| matches!(character, '\n' | '\t') || !is_active(character));
    Ok(if is_inert { text } else { json(value) })
}

/// Prints a command's output.
pub(crate) fn print(text: &str) -> Result<()> {
    match io::Write::write_all(&mut io::stdout().lock(), text.as_bytes()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

/// Says something that is not output, such as that there is none.
#[expect(clippy::print_stderr, reason = "what is no output must not be among it")]
pub(crate) fn remark(text: &str) {
    eprintln!("{}", inert(text));
}

/// Rows of cells with every column but the last padded to its widest cell.
pub(crate) fn aligned(rows: &[Vec<String>], gap: usize) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default() + gap).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<String>().trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_commands_the_terminal() {
        for (name, text, expected) in [
            ("plain", "grün → 3 \"x\"", "grün → 3 \"x\""),
            ("a colour", "\u{1b}[31mred", "\\u001b[31mred"),
            ("a new line", "a\nb\rc\td", "a\\u000ab\\u000dc\\u0009d"),
            ("eight-bit controls", "\u{9b}2J\u{7f}", "\\u009b2J\\u007f"),
            ("text that runs backwards", "a\u{202e}b\u{2066}c\u{2028}", "a\\u202eb\\u2066c\\u2028"),
            ("what nobody sees", "a\u{200b}b\u{e0041}", "a\\u200bb\\udb40\\udc41"),
        ] {
            assert_eq!(inert(text), expected, "{name}");
            assert_eq!(inert(expected), expected, "{name}, twice");
        }
        assert_eq!(inert_lines("error: a\u{1b}[2J\n  b\rc"), "error: a\\u001b[2J\n  b\\u000dc");
    }

    #[test]
    fn data_stays_what_it_is_and_commands_nothing() {
        let rows = [
            ("plain", "green"),
            ("a script", "#!/bin/sh\n\tls\n\n  # \"x\": 1\n"),
            ("a colour", "\u{1b}[31mred"),
            ("eight-bit controls", "a\u{9b}2J\u{7f}b"),
            ("text that runs backwards", "a\u{202e}b"),
            ("what nobody sees", "a\u{200b}b\u{e0041}"),
            ("what looks like an escape", "\\u001b"),
        ];
        for (row, text) in rows {
            let value = serde_json::json!({ "key": text, "list": [text] });
            let (json, yaml) = (json(&value), yaml(&value).expect("a value is YAML"));
            assert_eq!(serde_json::from_str::<Value>(&json).expect("JSON"), value, "{row}");
            assert_eq!(serde_saphyr::from_str::<Value>(&yaml).expect("YAML"), value, "{row}");
            let active = |text: &str| text.chars().any(|c| is_active(c) && !matches!(c, '\n' | '\t'));
            assert!(!active(&json) && !active(&yaml), "{row}: {json}{yaml}");
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["NAME".to_owned(), "AGE".to_owned()], vec!["wörld".to_owned(), "3s".to_owned()]];
        assert_eq!(aligned(&rows, 3), ["NAME    AGE", "wörld   3s"]);
        assert!(aligned(&[], 3).is_empty());
    }
}
