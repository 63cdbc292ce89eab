//! What is under way, live on a terminal and line by line elsewhere; on standard error.

use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal::{inert, remark};

/// How often a live line moves.
const TICK: Duration = Duration::from_millis(120);

/// What is said of each thing that is followed.
#[derive(Debug)]
pub(crate) struct Progress {
    live: Option<MultiProgress>,
    lines: BTreeMap<String, Line>,
}

#[derive(Debug)]
struct Line {
    text: String,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        let live = is_terminal.then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr()));
        Progress { live, lines: BTreeMap::new() }
    }

    /// Says how far something is, if that is news.
    pub(crate) fn tell(&mut self, name: &str, text: &str, is_over: bool) {
        let (name, text) = (inert(name), inert(text));
        if self.lines.get(&name).is_some_and(|line| line.text == text) {
            return;
        }
        let Some(live) = &self.live else {
            remark(&format!("{name}: {text}"));
            self.lines.insert(name, Line { text, bar: None });
            return;
        };
        let line = self.lines.entry(name.clone()).or_insert_with(|| {
            let bar = live.add(ProgressBar::new_spinner());
            bar.set_style(style("{spinner} {prefix}: {msg} {elapsed}"));
            bar.set_prefix(name);
            bar.enable_steady_tick(TICK);
            Line { text: String::new(), bar: Some(bar) }
        });
        line.text = text.clone();
        if let Some(bar) = &line.bar {
            if is_over {
                bar.set_style(style("  {prefix}: {msg}"));
                bar.finish_with_message(text);
            } else {
                bar.set_message(text);
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        for bar in self.lines.values().filter_map(|line| line.bar.as_ref()).filter(|bar| !bar.is_finished()) {
            bar.abandon();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
