//! The forms of a command's output: text for people, JSON and YAML for programs.

use anyhow::Result;
use clap::ValueEnum;
use serde_json::Value;

use crate::style::Style;
use crate::terminal::{self, print, remark};

/// A form of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
    Yaml,
}

impl Output {
    /// Prints what came of a command.
    pub(crate) fn print(self, text: impl FnOnce() -> String, data: impl FnOnce() -> Result<Value>) -> Result<()> {
        print(&match self {
            Output::Text => text(),
            Output::Json => terminal::json(&data()?),
            Output::Yaml => terminal::yaml(&data()?)?,
        })
    }

    /// How words are coloured: for people, if they have a terminal.
    pub(crate) fn style(self) -> Style {
        if self == Output::Text { Style::of_stdout() } else { Style::Plain }
    }

    /// Shows what a person reads before it is done. Programs read what was done, so for them it is no output.
    pub(crate) fn show(self, text: &str) -> Result<()> {
        match self {
            Output::Text => print(text),
            Output::Json | Output::Yaml => {
                text.lines().for_each(remark);
                Ok(())
            }
        }
    }
}
