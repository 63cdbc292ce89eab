//! The difference between two texts, in the unified form.

use std::iter;

/// Unchanged lines shown around a change.
const CONTEXT: usize = 3;

/// How many pairs of lines are compared.
const MAX_PAIRS: usize = 1 << 18;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edit {
    Keep,
    Remove,
    Add,
}

/// What to do to `old` to get `new`, with some context, one group of lines for each place.
pub(super) fn unified(old: &[String], new: &[String]) -> String {
    let edits = edits(old, new);
    let changed: Vec<usize> = (0..edits.len()).filter(|&at| edits[at] != Edit::Keep).collect();
    let mut text = String::new();
    let mut rest = changed.as_slice();
    while let Some(&first) = rest.first() {
        let together = rest.windows(2).take_while(|pair| pair[1] - pair[0] <= 2 * CONTEXT + 1).count() + 1;
        let (group, later) = rest.split_at(together);
        let last = group[together - 1];
        show(old, new, &edits, first.saturating_sub(CONTEXT), (last + CONTEXT + 1).min(edits.len()), &mut text);
        rest = later;
    }
    text
}

/// Shows the edits from `start` up to `end`.
fn show(old: &[String], new: &[String], edits: &[Edit], start: usize, end: usize, text: &mut String) {
    let count = |edits: &[Edit], other: Edit| edits.iter().filter(|edit| **edit != other).count();
    let (mut at_old, mut at_new) = (count(&edits[..start], Edit::Add), count(&edits[..start], Edit::Remove));
    let (len_old, len_new) = (count(&edits[start..end], Edit::Add), count(&edits[start..end], Edit::Remove));
    text.push_str(&format!("@@ -{} +{} @@\n", range(at_old, len_old), range(at_new, len_new)));
    for edit in &edits[start..end] {
        let (mark, line) = match edit {
            Edit::Keep => (' ', &old[at_old]),
            Edit::Remove => ('-', &old[at_old]),
            Edit::Add => ('+', &new[at_new]),
        };
        at_old += usize::from(*edit != Edit::Add);
        at_new += usize::from(*edit != Edit::Remove);
        text.push(mark);
        text.push_str(line);
        text.push('\n');
    }
}

fn range(start: usize, len: usize) -> String {
    match len {
        0 => format!("{start},0"),
        1 => (start + 1).to_string(),
        _ => format!("{},{len}", start + 1),
    }
}

/// The fewest edits that are found in reasonable time, removals before additions.
fn edits(old: &[String], new: &[String]) -> Vec<Edit> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[head..], &new[head..]);
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);

    // Finding the fewest takes a step for every pair of lines. Where those are too many, all is replaced.
    if old.len().saturating_mul(new.len()) > MAX_PAIRS {
        let mut edits = vec![Edit::Keep; head];
        edits.extend(iter::repeat_n(Edit::Remove, old.len()));
        edits.extend(iter::repeat_n(Edit::Add, new.len()));
        edits.extend(iter::repeat_n(Edit::Keep, tail));
        return edits;
    }
    // common[i][j] is how many lines old[i..] and new[j..] have in common, in order.
    let mut common = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] =
                if old[i] == new[j] { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
        }
    }
    let mut edits = vec![Edit::Keep; head];
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        let edit = if i < old.len() && j < new.len() && old[i] == new[j] {
            Edit::Keep
        } else if i < old.len() && (j == new.len() || common[i + 1][j] >= common[i][j + 1]) {
            Edit::Remove
        } else {
            Edit::Add
        };
        i += usize::from(edit != Edit::Add);
        j += usize::from(edit != Edit::Remove);
        edits.push(edit);
    }
    edits.extend(iter::repeat_n(Edit::Keep, tail));
    edits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_too_many_changes_is_replaced() {
        let lines = |word: &str| (0..2_000).map(|line| format!("{word}{line}")).collect::<Vec<_>>();
        let (old, new) = (lines("a"), lines("b"));
        let text = unified(&old, &new);
        assert!(text.starts_with("@@ -1,2000 +1,2000 @@\n-a0\n-a1\n"));
        assert!(text.ends_with("+b1998\n+b1999\n"));
    }

    #[test]
    fn changes_are_shown_with_their_context() {
        let rows = [
            ("nothing changed", "a b c", "a b c", ""),
            ("a changed line", "a b c d e f g", "a b c x e f g", "@@ -1,7 +1,7 @@\n a\n b\n c\n-d\n+x\n e\n f\n g\n"),
            ("an added line", "a b", "a x b", "@@ -1,2 +1,3 @@\n a\n+x\n b\n"),
            ("the only line removed", "a", "", "@@ -1 +0,0 @@\n-a\n"),
            (
                "two places far apart",
                "a 1 2 3 4 5 6 7 b",
                "x 1 2 3 4 5 6 7 y",
                "@@ -1,4 +1,4 @@\n-a\n+x\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+y\n",
            ),
        ];
        let lines = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (name, old, new, expected) in rows {
            assert_eq!(unified(&lines(old), &lines(new)), expected, "{name}");
        }
    }
}
