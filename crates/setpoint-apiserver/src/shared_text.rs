//! Texts that are made from stored objects, each once for all who show it at the same time.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use setpoint_store::Revision;

use crate::object::Stored;
use crate::pieces::SHARED_BYTES;

/// The large texts that somebody holds at the moment. It holds none itself.
#[derive(Debug, Default)]
pub(crate) struct SharedTexts(Mutex<HashMap<Key, Weak<Shared>>>);

/// What a text was made from, and how.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    /// The address of the stored text, which lies there as long as the shared text lives.
    stored: usize,
    revision: Revision,
    form: Form,
}

/// The form in which an object is shown that is not shown as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    /// It says its kind and version.
    pub(crate) has_head: bool,
    /// It was stored by an earlier schema.
    pub(crate) is_outdated: bool,
}

#[derive(Debug)]
struct Shared {
    text: Vec<u8>,
    _stored: Bytes,
}

/// One who holds a text.
struct Holder(Arc<Shared>);

impl AsRef<[u8]> for Holder {
    fn as_ref(&self) -> &[u8] {
        &self.0.text
    }
}

impl SharedTexts {
    /// The text of an object in this form: the one that somebody holds, or a new one.
    pub(crate) fn get(&self, stored: &Stored, form: Form, make: impl FnOnce() -> Vec<u8>) -> Bytes {
        let key = Key { stored: stored.bytes().as_ptr().addr(), revision: stored.revision(), form };
        if let Some(shared) = self.0.lock().get(&key).and_then(Weak::upgrade) {
            return Bytes::from_owner(Holder(shared));
        }
        let text = make();
        if text.len() < SHARED_BYTES {
            return text.into();
        }
        let shared = Arc::new(Shared { text, _stored: stored.bytes().clone() });
        let mut known = self.0.lock();
        known.retain(|_, shared| shared.strong_count() > 0);
        known.insert(key, Arc::downgrade(&shared));
        Bytes::from_owner(Holder(shared))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: Form = Form { has_head: true, is_outdated: false };

    fn stored(revision: Revision) -> Stored {
        Stored::new(Bytes::from(vec![b'x'; 10]), revision)
    }

    #[test]
    fn a_large_text_is_made_once_for_all_who_hold_it() {
        let (texts, stored, other) = (SharedTexts::default(), stored(1), stored(1));
        let get = |stored, form, length| texts.get(stored, form, || vec![b'y'; length]);
        let first = get(&stored, FORM, SHARED_BYTES);
        let rows = [
            ("the same", &stored, FORM, true),
            ("in another form", &stored, Form { is_outdated: true, ..FORM }, false),
            ("at another revision", &Stored::new(stored.bytes().clone(), 2), FORM, false),
            ("another text of that revision", &other, FORM, false),
        ];
        for (row, stored, form, is_shared) in rows {
            let text = get(stored, form, SHARED_BYTES + 1);
            assert_eq!(text.as_ptr() == first.as_ptr(), is_shared, "{row}");
        }
        assert_ne!(get(&other, FORM, 10).as_ptr(), get(&other, FORM, 10).as_ptr(), "a small text is not shared");
    }

    #[test]
    fn nothing_is_kept_that_nobody_holds() {
        let texts = SharedTexts::default();
        for revision in 0..100 {
            drop(texts.get(&stored(revision), FORM, || vec![b'y'; SHARED_BYTES]));
        }
        assert!(texts.0.lock().len() <= 1);
    }
}
