//! Cuts what a container writes into lines, as they are kept in its log.

/// Longer lines are kept in parts.
pub(super) const LONGEST: usize = 16 << 10;

/// One stream of a container: what of its present line has been read.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    rest: Vec<u8>,
}

impl Splitter {
    /// Takes in what was read, and gives away each line without its end, or each full part of one.
    pub(super) fn push(&mut self, mut bytes: &[u8], mut give: impl FnMut(&[u8], bool)) {
        while !bytes.is_empty() {
            let room = LONGEST - self.rest.len();
            let end = bytes.iter().take(room + 1).position(|byte| *byte == b'\n');
            match end {
                Some(end) => {
                    self.give_with(&bytes[..end], true, &mut give);
                    bytes = &bytes[end + 1..];
                }
                None if bytes.len() > room => {
                    self.give_with(&bytes[..room], false, &mut give);
                    bytes = &bytes[room..];
                }
                None => {
                    self.rest.extend_from_slice(bytes);
                    return;
                }
            }
        }
    }

    /// There is no more: what is left is a line that never ended.
    pub(super) fn finish(&mut self, mut give: impl FnMut(&[u8], bool)) {
        if !self.rest.is_empty() {
            self.give_with(&[], false, &mut give);
        }
    }

    fn give_with(&mut self, end: &[u8], is_whole: bool, give: &mut impl FnMut(&[u8], bool)) {
        if self.rest.is_empty() {
            return give(end, is_whole);
        }
        self.rest.extend_from_slice(end);
        give(&self.rest, is_whole);
        self.rest = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(pieces: &[&[u8]]) -> Vec<(Vec<u8>, bool)> {
        let (mut splitter, mut lines) = (Splitter::default(), Vec::new());
        for piece in pieces {
            splitter.push(piece, |line, is_whole| lines.push((line.to_vec(), is_whole)));
        }
        splitter.finish(|line, is_whole| lines.push((line.to_vec(), is_whole)));
        lines
    }

    #[test]
    fn lines_are_cut_where_they_end_or_are_too_long() {
        type Row<'a> = (&'a str, Vec<&'a [u8]>, Vec<(&'a [u8], bool)>);
        let long = vec![b'x'; LONGEST];
        let rows: [Row<'_>; 6] = [
            ("nothing", vec![], vec![]),
            ("two lines", vec![b"a\nb\n"], vec![(b"a", true), (b"b", true)]),
            ("an empty line", vec![b"\n"], vec![(b"", true)]),
            ("a line in pieces", vec![b"a", b"b\nc"], vec![(b"ab", true), (b"c", false)]),
            ("as long as may be", vec![&long, b"\n"], vec![(&long, true)]),
            ("one longer", vec![&long, b"y\n"], vec![(&long, false), (b"y", true)]),
        ];
        for (what, pieces, lines) in rows {
            let lines: Vec<_> = lines.into_iter().map(|(line, is_whole)| (line.to_vec(), is_whole)).collect();
            assert_eq!(split(&pieces), lines, "{what}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_however_it_comes(pieces in prop::collection::vec(prop::collection::vec(
            prop_oneof![Just(b'\n'), Just(b'a')], 0..40_000), 0..6))
        {
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let mut joined = Vec::new();
            for (line, is_whole) in split(&pieces) {
                prop_assert!(line.len() <= LONGEST);
                joined.extend(line);
                joined.extend(is_whole.then_some(b'\n'));
            }
            prop_assert_eq!(joined, pieces.concat());
        }
    }
}
