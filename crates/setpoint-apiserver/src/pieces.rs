//! A text that is written in pieces, of which the large ones are not copied but shared with whoever else holds them.
//!
//! An answer waits in memory until its client has read it. Of an object the text is the stored one, but for a few words
//! before and after it, so what waits for many clients, none of which reads, is those words and one text.

use std::ops::Range;

use bytes::Bytes;

/// From this size on a text is shared. To copy less is faster than to send it apart.
pub const SHARED_BYTES: usize = 16 * 1024;

/// What a text is written into.
pub trait Sink {
    fn put(&mut self, text: &[u8]);

    /// Appends a part of a text that others hold too.
    fn put_part(&mut self, whole: &Bytes, part: Range<usize>) {
        self.put(&whole[part]);
    }
}

impl Sink for Vec<u8> {
    fn put(&mut self, text: &[u8]) {
        self.extend_from_slice(text);
    }
}

/// A text in pieces.
#[derive(Debug, Default)]
pub struct Pieces {
    done: Vec<Bytes>,
    /// The whole text so far, if it is one that others hold too.
    alone: Option<Bytes>,
    open: Vec<u8>,
    len: usize,
}

impl Pieces {
    /// With room for so much small text at the beginning.
    pub fn with_capacity(bytes: usize) -> Pieces {
        Pieces { open: Vec::with_capacity(bytes), ..Pieces::default() }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a text that is already written. If it stays alone it is not copied, however small.
    pub fn put_text(&mut self, text: &Bytes) {
        if self.is_empty() {
            self.len = text.len();
            self.alone = Some(text.clone());
        } else {
            self.put_part(text, 0..text.len());
        }
    }

    /// The pieces, in order, none of them empty.
    pub fn finish(mut self) -> Vec<Bytes> {
        self.close();
        self.done
    }

    fn close(&mut self) {
        self.done.extend(self.alone.take());
        if !self.open.is_empty() {
            self.done.push(std::mem::take(&mut self.open).into());
        }
    }
}

impl Sink for Pieces {
    fn put(&mut self, text: &[u8]) {
        if let Some(alone) = self.alone.take() {
            match alone.len() < SHARED_BYTES {
                true => self.open.extend_from_slice(&alone),
                false => self.done.push(alone),
            }
        }
        self.open.extend_from_slice(text);
        self.len += text.len();
    }

    fn put_part(&mut self, whole: &Bytes, part: Range<usize>) {
        if part.len() < SHARED_BYTES {
            return self.put(&whole[part]);
        }
        self.close();
        self.len += part.len();
        self.done.push(whole.slice(part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_texts_are_joined_and_large_ones_are_shared() {
        let (small, large) = (Bytes::from_static(b"small"), Bytes::from(vec![b'x'; SHARED_BYTES + 2]));
        let is_part_of_large = |piece: &Bytes| large.as_ptr_range().contains(&piece.as_ptr());

        let mut pieces = Pieces::default();
        pieces.put(b"a");
        pieces.put_part(&small, 1..3);
        pieces.put_part(&large, 1..SHARED_BYTES + 1);
        pieces.put(b"b");
        pieces.put(b"c");
        assert_eq!(pieces.len(), 3 + SHARED_BYTES + 2);
        let pieces = pieces.finish();
        assert_eq!(pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [3, SHARED_BYTES, 2]);
        assert_eq!((&pieces[0][..], &pieces[2][..]), (&b"ama"[..], &b"bc"[..]));
        assert_eq!(pieces.iter().map(is_part_of_large).collect::<Vec<_>>(), [false, true, false]);
    }

    #[test]
    fn a_written_text_is_copied_only_if_another_follows() {
        let text = Bytes::from(b"a line\n".to_vec());
        let mut alone = Pieces::default();
        alone.put_text(&text);
        let alone = alone.finish();
        assert_eq!((alone.len(), alone[0].as_ptr()), (1, text.as_ptr()));

        let mut two = Pieces::default();
        two.put_text(&text);
        two.put_text(&text);
        assert_eq!(two.finish(), [Bytes::from_static(b"a line\na line\n")]);
        assert!(Pieces::default().finish().is_empty());
    }
}
