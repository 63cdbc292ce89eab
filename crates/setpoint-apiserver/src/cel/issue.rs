//! What is wrong with an expression and where, shown as CEL compilers show it.

use std::fmt::Write;

/// At most this many problems of one expression are told.
const MAX_TOLD: usize = 100;

/// A line longer than this is not repeated in the message.
const MAX_SNIPPET_BYTES: usize = 16_384;

/// One problem. The position counts characters from the start of the expression.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Issue {
    pub at: u32,
    pub message: String,
}

impl Issue {
    pub(super) fn new(at: u32, message: impl Into<String>) -> Issue {
        Issue { at, message: message.into() }
    }
}

/// The problems in the order of the text, each with the line it is on and a mark below the place.
pub(super) fn report(source: &str, mut issues: Vec<Issue>) -> String {
    issues.sort();
    let mut text = String::new();
    for issue in issues.iter().take(MAX_TOLD) {
        if !text.is_empty() {
            text.push('\n');
        }
        show(source, issue, &mut text);
    }
    if issues.len() > MAX_TOLD {
        write!(text, "\n{} more errors were truncated", issues.len() - MAX_TOLD).expect("a String takes any text");
    }
    text
}

fn show(source: &str, issue: &Issue, text: &mut String) {
    let mut column = issue.at as usize;
    let mut number = 1;
    let mut snippet = "";
    for line in source.split('\n') {
        let length = line.chars().count();
        snippet = line;
        if column <= length {
            break;
        }
        column -= length + 1;
        number += 1;
    }
    write!(text, "ERROR: <input>:{number}:{}: {}", column + 1, issue.message).expect("a String takes any text");
    if snippet.len() > MAX_SNIPPET_BYTES {
        return;
    }
    text.push_str("\n | ");
    text.extend(snippet.chars().map(|c| if c == '\t' { ' ' } else { c }));
    text.push_str("\n | ");
    let mut characters = snippet.chars();
    text.extend(characters.by_ref().take(column).map(|c| if c.is_ascii() { '.' } else { '．' }));
    text.push(if characters.next().is_none_or(|c| c.is_ascii()) { '^' } else { '＾' });
}
