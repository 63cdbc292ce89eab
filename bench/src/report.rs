//! The table of results, for people and for programs.

use std::fmt;

use serde_json::{Value, json};

/// What a figure must be like.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    AtMost(f64),
    AtLeast(f64),
    RatioAtMost(f64),
    RatioAtLeast(f64),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(limit) => write!(f, "≤ {limit}"),
            Self::AtLeast(limit) => write!(f, "≥ {limit}"),
            Self::RatioAtMost(limit) => write!(f, "≤ {limit} ×"),
            Self::RatioAtLeast(limit) => write!(f, "≥ {limit} ×"),
        }
    }
}

/// What the server is compared with, measured in turn with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) figure: f64,
}

/// One figure of the server's, and a peer's beside it, where there are.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    what: String,
    unit: &'static str,
    server: Option<f64>,
    peer: Option<Peer>,
    target: Option<Target>,
}

impl Row {
    pub(crate) fn new(what: impl Into<String>, unit: &'static str, server: impl Into<Option<f64>>) -> Self {
        Self { what: what.into(), unit, server: server.into(), peer: None, target: None }
    }

    pub(crate) fn peer(mut self, peer: Option<Peer>) -> Self {
        self.peer = peer;
        self
    }

    pub(crate) fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    /// The server's figure as a multiple of its peer's.
    fn ratio(&self) -> Option<f64> {
        Some(self.server? / self.peer?.figure)
    }

    fn met(&self) -> Option<bool> {
        match self.target? {
            Target::AtMost(limit) => Some(self.server? <= limit),
            Target::AtLeast(limit) => Some(self.server? >= limit),
            Target::RatioAtMost(limit) => Some(self.ratio()? <= limit),
            Target::RatioAtLeast(limit) => Some(self.ratio()? >= limit),
        }
    }

    fn cells(&self) -> [String; 6] {
        let verdict = match (self.target, self.met()) {
            (Some(target), Some(true)) => format!("{target}  met"),
            (Some(target), Some(false)) => format!("{target}  MISSED"),
            _ => String::new(),
        };
        [
            self.what.clone(),
            self.server.map(figure).unwrap_or_default(),
            self.peer.map(|peer| format!("{} {}", figure(peer.figure), peer.name)).unwrap_or_default(),
            self.unit.to_owned(),
            self.ratio().map(|ratio| format!("{ratio:.2} ×")).unwrap_or_default(),
            verdict,
        ]
    }

    fn json(&self) -> Value {
        json!({
            "what": self.what,
            "unit": self.unit,
            "server": self.server,
            "peer": self.peer.map(|peer| json!({"name": peer.name, "figure": peer.figure})),
            "ratio": self.ratio(),
            "target": self.target.map(|target| target.to_string()),
            "met": self.met(),
        })
    }
}

/// About three significant digits.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

impl Report {
    pub(crate) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    pub(crate) fn json(&self) -> Value {
        self.rows.iter().map(Row::json).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = vec![["", "server", "peer", "", "ratio", "target"].map(str::to_owned)];
        lines.extend(self.rows.iter().map(Row::cells));
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; 6] = std::array::from_fn(width);
        for [what, server, peer, unit, ratio, target] in &lines {
            let [w0, w1, w2, w3, w4, _] = widths;
            let line = format!("{what:w0$}  {server:>w1$}  {peer:>w2$}  {unit:w3$}  {ratio:>w4$}  {target}");
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_ratios_and_verdicts() {
        let mut report = Report::default();
        report.add(
            Row::new("creates", "/s", 12_000.0)
                .peer(Some(Peer { name: "etcd", figure: 10_000.0 }))
                .target(Target::RatioAtLeast(1.0)),
        );
        report.add(Row::new("idle", "MB", 31.5).target(Target::AtMost(30.0)));
        report.add(Row::new("get p50", "ms", 0.0456));
        let expected = [
            "         server        peer       ratio  target",
            "creates   12000  10000 etcd  /s  1.20 ×  ≥ 1 ×  met",
            "idle       31.5              MB          ≤ 30  MISSED",
            "get p50   0.046              ms",
        ];
        assert_eq!(report.to_string().lines().collect::<Vec<_>>(), expected);
    }
}
