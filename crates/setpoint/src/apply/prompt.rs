//! Asking a person, and knowing when one was asked already.

use std::collections::BTreeSet;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use anyhow::{Context as _, Result, ensure};
use rustix::termios::{QueueSelector, tcflush};

use crate::proposal::Proposal;

/// Whether somebody agreed to what could be told only after a part was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consented {
    Yes,
    No,
    Ask,
}

impl Consented {
    /// Who agreed to a saved plan agreed to what it shows, and to nothing that needs approval beyond it.
    pub(super) fn to(now: &Proposal, shown: &Proposal, yes: bool, is_saved: bool) -> Consented {
        let asks = !held(now).is_subset(&held(shown));
        match (asks, is_saved, yes) {
            (false, _, _) | (true, false, true) => Consented::Yes,
            (true, true, _) => Consented::No,
            (true, false, false) => Consented::Ask,
        }
    }
}

/// The steps that need approval, each with where it is taken.
fn held(proposal: &Proposal) -> BTreeSet<(&str, &str, &str)> {
    let sets = proposal.change_sets.iter();
    let steps = sets.flat_map(|set| set.steps.iter().map(move |step| (set, step)));
    let held = steps.filter(|(set, step)| set.hold(&step.id).is_some());
    held.map(|(set, step)| (set.namespace.as_str(), set.environment.as_str(), step.digest.as_str())).collect()
}

/// Whether the person says yes. Whoever closes the input says no; a pipe is nobody, and what was typed before the question was
/// there answers something else.
pub(crate) async fn agrees(question: &str) -> Result<bool> {
    ensure!(io::stdin().is_terminal(), "standard input is no terminal, so nobody can be asked; say -y to go on");
    let question = question.to_owned();
    let answer = tokio::task::spawn_blocking(move || -> io::Result<String> {
        tcflush(io::stdin(), QueueSelector::IFlush)?;
        write!(io::stderr(), "{question} [yes/no] ")?;
        io::stderr().flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        if answer.is_empty() {
            writeln!(io::stderr())?;
        }
        Ok(answer)
    });
    let answer = answer.await?.context("cannot ask")?;
    Ok(matches!(answer.trim(), "yes" | "y"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::proposal::Hold;

    fn proposal(steps: &[(&str, bool)]) -> Proposal {
        let step = |digest: &str| {
            json!({
                "id": digest, "action": "Create", "reason": "missing", "origin": "Desired", "class": "Spend",
                "classReason": "it costs money", "digest": digest,
                "target": {"kind": "Machine", "namespace": "shop", "name": digest},
            })
        };
        let hold = |digest: &str| Hold {
            step: digest.to_owned(),
            by: "1 person".to_owned(),
            own_counts: true,
            own_suffices: true,
            signed: false,
        };
        let holds: Vec<Hold> = steps.iter().filter(|(_, held)| *held).map(|(digest, _)| hold(digest)).collect();
        let steps: Vec<Value> = steps.iter().map(|(digest, _)| step(digest)).collect();
        let set = json!({"namespace": "shop", "environment": "lab", "steps": steps, "holds": holds});
        serde_json::from_value(json!({"objects": [], "changeSets": [set]})).expect("a proposal")
    }

    #[test]
    fn nobody_agreed_to_an_approval_that_was_not_shown() {
        let (nothing, free, held) = (proposal(&[]), proposal(&[("a", false)]), proposal(&[("a", true)]));
        let more = proposal(&[("a", true), ("b", true)]);
        let rows = [
            ("nothing needs approval", &free, &nothing, false, false, Consented::Yes),
            ("nothing of a saved plan needs approval", &free, &nothing, false, true, Consented::Yes),
            ("it was shown before", &held, &held, false, false, Consented::Yes),
            ("the saved plan shows it", &held, &held, false, true, Consented::Yes),
            ("it is new", &held, &nothing, false, false, Consented::Ask),
            ("it was shown as one that needs none", &held, &free, false, false, Consented::Ask),
            ("one of two is new", &more, &held, false, false, Consented::Ask),
            ("nobody wants to be asked", &held, &nothing, true, false, Consented::Yes),
            ("the saved plan does not show it", &held, &nothing, false, true, Consented::No),
            ("the saved plan does not show it, whatever else is said", &more, &held, true, true, Consented::No),
        ];
        for (row, now, shown, yes, is_saved, expected) in rows {
            assert_eq!(Consented::to(now, shown, yes, is_saved), expected, "{row}");
        }
    }
}
