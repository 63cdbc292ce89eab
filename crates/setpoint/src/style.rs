//! Colours, for a terminal alone.

use std::io::{IsTerminal, stdout};

/// Whether and how words are coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Coloured,
}

/// What a colour says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Something comes.
    Good,
    /// Something changes.
    Change,
    /// Something goes, or is wrong.
    Bad,
    /// What is said beside.
    Quiet,
    /// What is looked for first.
    Strong,
}

impl Style {
    /// Colours where standard output is a terminal, unless `NO_COLOR` is set to something or the terminal has none.
    pub(crate) fn of_stdout() -> Style {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let coloured = stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb;
        if coloured { Style::Coloured } else { Style::Plain }
    }

    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Good => "32",
            Tone::Change => "33",
            Tone::Bad => "31",
            Tone::Quiet => "2",
            Tone::Strong => "1",
        };
        match self {
            Style::Coloured if !text.is_empty() => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            _ => text.to_owned(),
        }
    }
}
