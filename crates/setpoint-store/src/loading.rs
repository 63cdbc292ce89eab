//! Reads what the engine kept into memory, and notices what does not lie there as it should.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::embedded::OpenError;
use crate::history::History;
use crate::record::{self, Kept, LARGEST_REVISION};
use crate::sealing::{SealError, Sealer};
use crate::state::State;
use crate::store::Revision;
use crate::tables::Tables;

/// What the engine kept.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub state: State,
    /// How many values do not lie on disk as they would if they were written now: plain, or under an old key.
    pub stale: usize,
}

type Objects = BTreeMap<Arc<str>, (Bytes, Revision)>;

pub(crate) fn load(tables: &Tables, sealer: &Sealer) -> Result<Loaded, OpenError> {
    let mut loading = Loading { tables, sealer, stale: 0 };
    let current = loading.objects()?;
    let history = loading.history(&current)?;
    if let Some((key, (_, written))) = current.iter().find(|(_, (_, written))| *written > history.newest()) {
        return Err(OpenError::Damaged(format!("{key} has revision {written}, which history does not know")));
    }
    Ok(Loaded { stale: loading.stale, state: State::restored(current, history) })
}

struct Loading<'a> {
    tables: &'a Tables,
    sealer: &'a Sealer,
    stale: usize,
}

impl Loading<'_> {
    fn objects(&mut self) -> Result<Objects, OpenError> {
        let objects = self.tables.objects.iter().map(|object| {
            let (key, record) = object.into_inner()?;
            let key = std::str::from_utf8(&key).map_err(|_| OpenError::Damaged("a key is not text".into()))?;
            let kept = record::decode_object(&record)
                .ok_or_else(|| OpenError::Damaged(format!("the record of {key} cannot be read")))?;
            Ok((Arc::from(key), self.value(key, &kept)?))
        });
        objects.collect()
    }

    fn history(&mut self, current: &Objects) -> Result<History, OpenError> {
        let damaged = |key: &[u8]| OpenError::Damaged(format!("the history record {key:02x?} cannot be read"));
        let mut history = History::default();
        for record in self.tables.history.iter() {
            let (key, value) = record.into_inner()?;
            if *key == record::HORIZON {
                let oldest = record::decode_revision(&value).filter(|oldest| *oldest <= LARGEST_REVISION);
                history = History::after(oldest.ok_or_else(|| damaged(&key))?);
                continue;
            }
            let replaced = record::decode_replaced(&value).ok_or_else(|| damaged(&key))?;
            if record::decode_revision(&key) != Some(history.newest() + 1) {
                return Err(OpenError::Damaged(format!("history breaks off after revision {}", history.newest())));
            }
            if replaced.previous.as_ref().is_some_and(|kept| kept.written > history.newest()) {
                return Err(damaged(&key));
            }
            let previous = replaced.previous.map(|kept| self.value(replaced.key, &kept)).transpose()?;
            let known = current.get_key_value(replaced.key).map(|(known, _)| known);
            let known = known.or_else(|| history.known(replaced.key)).cloned();
            history.remember(known.unwrap_or_else(|| replaced.key.into()), replaced.time_s, previous);
        }
        Ok(history)
    }

    fn value(&mut self, key: &str, kept: &Kept<'_>) -> Result<(Bytes, Revision), SealError> {
        let value = self.sealer.open(key, kept)?;
        self.stale += usize::from(!self.sealer.is_current(key, kept));
        Ok((value, kept.written))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A record of history that says what the first version of `/a` was.
    fn replaced(written: Revision) -> Vec<u8> {
        [&[0; 8][..], &written.to_be_bytes(), &2u32.to_be_bytes(), b"/a", b"old"].concat()
    }

    #[test]
    fn records_that_cannot_be_are_damage() {
        const FIRST: [u8; 8] = 1u64.to_be_bytes();
        const SECOND: [u8; 8] = 2u64.to_be_bytes();
        let horizon = |revision: Revision| (record::HORIZON.to_vec(), revision.to_be_bytes().to_vec());
        for (name, objects, history) in [
            ("a horizon at the end of numbers", vec![], vec![horizon(u64::MAX), (FIRST.to_vec(), replaced(0))]),
            ("a horizon that leaves no room", vec![], vec![horizon(u64::MAX - 1)]),
            ("a short horizon", vec![], vec![(record::HORIZON.to_vec(), vec![1])]),
            ("a gap after the horizon", vec![], vec![horizon(1), (FIRST.to_vec(), replaced(0))]),
            ("a gap", vec![], vec![(SECOND.to_vec(), replaced(0))]),
            ("a key that is no revision", vec![], vec![(vec![1], replaced(0))]),
            ("a short record", vec![], vec![(FIRST.to_vec(), vec![0; 19])]),
            ("a value from the future", vec![], vec![(FIRST.to_vec(), replaced(1))]),
            ("a short object", vec![(b"/a".to_vec(), vec![0; 7])], vec![]),
            ("an object that history does not know", vec![(b"/a".to_vec(), FIRST.to_vec())], vec![]),
            ("a key that is no text", vec![(vec![0xff], FIRST.to_vec())], vec![]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let tables = Tables::open(folder.path()).unwrap();
            for (table, records) in [(&tables.objects, objects), (&tables.history, history)] {
                for (key, value) in records {
                    table.insert(key, value).unwrap();
                }
            }
            let loaded = load(&tables, &Sealer::default()).map(|loaded| loaded.state.revision());
            assert!(matches!(loaded, Err(OpenError::Damaged(_))), "{name}: {loaded:?}");
        }
    }
}
