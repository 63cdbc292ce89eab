//! Why a Pod fits nowhere, in Kubernetes' words.

use std::collections::BTreeMap;
use std::fmt;

/// What kept a Pod from how many nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusal {
    pub nodes: usize,
    /// How many nodes each reason was found on. A node may have several.
    pub reasons: BTreeMap<String, usize>,
}

impl Refusal {
    pub(super) fn note(&mut self, reasons: impl IntoIterator<Item = String>) {
        self.nodes += 1;
        for reason in reasons {
            *self.reasons.entry(reason).or_default() += 1;
        }
    }
}

/// `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable.`
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nodes == 0 {
            return f.write_str("no nodes available to schedule pods");
        }
        let mut reasons: Vec<String> = self.reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        reasons.sort();
        write!(f, "0/{} nodes are available: {}.", self.nodes, reasons.join(", "))
    }
}
