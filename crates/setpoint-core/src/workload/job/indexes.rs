//! Sets of indexes as they are written: `0,2-4`.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use k8s_openapi::api::core::v1::Pod;

/// The annotation and the label that say which index a Pod works on.
pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Indexes(BTreeSet<i32>);

impl Indexes {
    /// Reads what is valid of a text; what is not is left out.
    pub fn parse(text: &str, valid: Range<i32>) -> Indexes {
        let mut indexes = BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.trim().parse::<i32>(), last.trim().parse::<i32>()) else { continue };
            indexes.extend(first.max(valid.start)..last.saturating_add(1).min(valid.end));
        }
        Indexes(indexes)
    }

    pub fn insert(&mut self, index: i32) -> bool {
        self.0.insert(index)
    }

    pub fn contains(&self, index: i32) -> bool {
        self.0.contains(&index)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = i32> {
        self.0.iter().copied()
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.0.iter().copied().peekable();
        let mut separator = "";
        while let Some(first) = left.next() {
            let mut last = first;
            while left.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                // Two in a row are listed, more are a range.
                1 => write!(f, "{separator}{first},{last}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

/// The index that a Pod works on, if it is one that its Job has.
pub fn of_pod(pod: &Pod, valid: &Range<i32>) -> Option<i32> {
    let text = pod.metadata.annotations.as_ref()?.get(COMPLETION_INDEX)?;
    text.parse().ok().filter(|index| valid.contains(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read_and_written() {
        let rows = [
            ("nothing", "", "", 0),
            ("one", "3", "3", 1),
            ("two in a row", "3,4", "3,4", 2),
            ("a range", "0-3,5", "0-3,5", 5),
            ("out of order and twice", "5,1,1-2", "1,2,5", 3),
            ("beyond the end", "8-100", "8,9", 2),
            ("nonsense is left out", "x,1-,2", "2", 1),
            ("an end that cannot be", "0-2147483647", "0-9", 10),
        ];
        for (name, text, expected, count) in rows {
            let indexes = Indexes::parse(text, 0..10);
            assert_eq!((indexes.to_string().as_str(), indexes.len()), (expected, count), "{name}");
        }
    }
}
