//! The store in a folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use setpoint_store::{At, Commit, EmbeddedStore, Expected, OpenError, Options, Revision, Store};

use crate::subjects::Embedded;

setpoint_store::conformance_tests!(durable Embedded::new());

pub(crate) async fn put(store: &dyn Store, key: &str, value: &[u8], expected: Expected) -> Revision {
    let value = Some(Bytes::copy_from_slice(value));
    store.commit(Commit { key: key.into(), value, expected }).await.unwrap().revision
}

fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().filter_map(Result::ok);
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => size(&entry.path()),
            Ok(metadata) => metadata.len(),
            // Deleted in the meantime.
            Err(_) => 0,
        })
        .sum()
}

fn newest_journal(folder: &Path) -> PathBuf {
    let entries = fs::read_dir(folder.join("engine")).unwrap().map(|entry| entry.unwrap().path());
    let journals = entries.filter(|path| path.extension().is_some_and(|extension| extension == "jnl"));
    journals.max().unwrap()
}

#[tokio::test]
async fn a_newer_format_is_refused_by_name() {
    let subject = Embedded::new();
    drop(subject.store());
    fs::write(subject.folder.path().join("format"), "3\n").unwrap();
    let error = EmbeddedStore::open(subject.folder.path(), Options::default()).unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 3 }));
    assert_eq!(
        error.to_string(),
        "the data folder was written by format 3, this binary reads up to 2; use the newer binary or restore a backup"
    );
}

#[tokio::test]
async fn a_folder_that_is_not_ours_is_refused() {
    for (name, text) in [("no number", Some("one")), ("missing", None)] {
        let subject = Embedded::new();
        drop(subject.store());
        let format = subject.folder.path().join("format");
        match text {
            Some(text) => fs::write(format, text).unwrap(),
            None => fs::remove_file(format).unwrap(),
        }
        let error = EmbeddedStore::open(subject.folder.path(), Options::default()).unwrap_err();
        assert!(matches!(error, OpenError::Damaged(_)), "{name}: {error}");
    }
}

#[tokio::test]
async fn a_start_that_was_cut_short_is_repeated() {
    let subject = Embedded::new();
    let aside = subject.folder.path().join("engine.new");
    fs::create_dir(&aside).unwrap();
    fs::write(aside.join("0.jnl"), "half").unwrap();
    let store = subject.store();
    assert_eq!(put(&store, "/a", b"1", Expected::Absent).await, 1);
    assert!(!aside.exists());
}

/// Whatever part of the last batch reached the disk, the store opens, with everything before it.
#[tokio::test]
async fn a_torn_journal_opens() {
    let subject = Embedded::new();
    let store = subject.store();
    let mut revision = put(&store, "/a", &[b'0'; 700], Expected::Absent).await;
    for count in 1..20u8 {
        revision = put(&store, "/a", &[b'0' + count; 700], Expected::Revision(revision)).await;
    }
    drop(store);
    // What was written ends where the preallocated zeros begin.
    let journal = newest_journal(subject.folder.path());
    let whole = fs::read(&journal).unwrap();
    let end = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for (name, cut) in [(1, "one byte"), (40, "the end"), (700, "the replaced value"), (1500, "most of a batch")]
        .map(|(cut, name)| (name, end - cut))
    {
        for zeros in [0, 4096] {
            let mut torn = whole[..cut].to_vec();
            torn.resize(cut + zeros, 0);
            fs::write(&journal, torn).unwrap();
            let store = subject.store();
            let newest = store.revision();
            assert!((revision - 2..=revision).contains(&newest), "{name} is missing, {zeros} zeros: {newest}");
            let entry = store.get("/a", At::Now).await.unwrap().value.unwrap();
            assert_eq!(entry.revision, newest, "{name} is missing, {zeros} zeros");
            assert!(entry.value.iter().all(|byte| *byte == b'0' + newest as u8 - 1));
            // And it goes on from there, also after the next start.
            let next = put(&store, "/b", b"x", Expected::Absent).await;
            assert_eq!(next, newest + 1);
            drop(store);
            assert_eq!(subject.store().revision(), next);
        }
    }
}

/// After a loss of power any page of the last batch may be missing; of an earlier one, none may.
#[tokio::test]
async fn a_hole_in_the_journal_is_passed_over_only_in_the_last_batch() {
    for (name, back, opens) in [("in the last batch", 5_000, true), ("in the one before", 13_000, false)] {
        let subject = Embedded::new();
        let store = subject.store();
        for key in ["/a", "/b", "/c"] {
            put(&store, key, &[b'x'; 8192], Expected::Absent).await;
        }
        drop(store);
        let journal = newest_journal(subject.folder.path());
        let mut bytes = fs::read(&journal).unwrap();
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        bytes[end - back..end - back + 1000].fill(0);
        fs::write(&journal, &bytes).unwrap();
        if opens {
            let store = subject.store();
            assert_eq!((store.revision(), store.count("/")), (2, 2), "{name}");
            assert_eq!(put(&store, "/c", b"again", Expected::Absent).await, 3, "{name}");
            drop(store);
            assert_eq!(subject.store().revision(), 3, "{name}");
        } else {
            let error = EmbeddedStore::open(subject.folder.path(), Options::default()).unwrap_err();
            assert!(matches!(error, OpenError::Engine(_)), "{name}: {error}");
            assert!(fs::read(&journal).unwrap() == bytes, "{name}: the journal is as it was");
        }
    }
}

/// A repair that was cut short leaves a copy of the journal behind, which must not come back over later writes.
#[tokio::test]
async fn what_a_repair_left_behind_undoes_nothing() {
    let subject = Embedded::new();
    put(&subject.store(), "/a", &[b'x'; 8192], Expected::Absent).await;
    let journal = newest_journal(subject.folder.path());
    let original = journal.with_extension("original");
    fs::copy(&journal, &original).unwrap();
    let store = subject.store();
    assert!(!original.exists(), "the journal has opened without it");
    put(&store, "/b", &[b'x'; 8192], Expected::Absent).await;
    put(&store, "/c", &[b'x'; 8192], Expected::Absent).await;
    drop(store);
    // Damage that no repair can help.
    let mut bytes = fs::read(&journal).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[end - 13_000..end - 12_000].fill(0);
    fs::write(&journal, &bytes).unwrap();
    let error = EmbeddedStore::open(subject.folder.path(), Options::default()).unwrap_err();
    assert!(matches!(error, OpenError::Engine(_)), "{error}");
    assert!(fs::read(&journal).unwrap() == bytes, "the journal is as it was");
    assert!(!original.exists());
}

/// Wherever a bit flips in the engine's files, the store opens as it was, without the last batch at most, or says no.
#[tokio::test]
async fn a_flipped_bit_is_never_read() {
    const KEYS: u64 = 700;
    let subject = Embedded::new();
    let store = subject.store();
    // Enough for tables beside the journal.
    for count in 0..KEYS {
        put(&store, &format!("/d/{count}"), &[count as u8; 16_384], Expected::Absent).await;
    }
    drop(store);
    for path in files(subject.folder.path()).into_iter().filter(|path| !path.ends_with("format")) {
        for place in [0, 1, 2, 3] {
            let damaged = tempfile::tempdir().unwrap();
            copy(subject.folder.path(), damaged.path());
            let victim = damaged.path().join(path.strip_prefix(subject.folder.path()).unwrap());
            let mut bytes = fs::read(&victim).unwrap();
            let Some(last) = bytes.iter().rposition(|byte| *byte != 0) else { break };
            bytes[last * place / 3] ^= 1;
            fs::write(&victim, bytes).unwrap();
            let Ok(store) = EmbeddedStore::open(damaged.path(), Options::default()) else { continue };
            let name = format!("{}, {place} thirds in", victim.display());
            assert!((KEYS - 1..=KEYS).contains(&store.revision()), "{name}: {}", store.revision());
            for count in 0..store.revision() {
                let entry = store.get(&format!("/d/{count}"), At::Now).await.unwrap().value.expect(&name);
                assert!(entry.value.iter().all(|byte| *byte == count as u8), "{name}: {count}");
            }
        }
    }
}

pub(crate) fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(file, target).unwrap();
    }
}

pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overwriting_does_not_fill_the_disk() {
    let options = Options { history_commits: 1000, ..Options::default() };
    let subject = Embedded::with(options);
    let store = std::sync::Arc::new(subject.store());
    let writers = (0..100).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            let key = format!("/d/{writer}");
            let mut revision = put(&*store, &key, &[b'x'; 4096], Expected::Absent).await;
            for _ in 1..500 {
                revision = put(&*store, &key, &[b'x'; 4096], Expected::Revision(revision)).await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    // 400 MB went through journal and tables each.
    let written = size(subject.folder.path()) >> 20;
    assert!(written < 256, "{written} MiB on disk");
    assert_eq!(store.revision() - store.oldest(), 1000);
    drop(store);
    let store = subject.store();
    assert_eq!((store.revision(), store.oldest(), store.count("/d/")), (50_000, 49_000, 100));
}

#[tokio::test]
async fn history_keeps_to_its_bounds() {
    let generous = Options::default();
    for (name, options, oldest) in [
        ("commits", Options { history_commits: 10, ..generous.clone() }, 20),
        ("bytes", Options { history_bytes: 1000, ..generous.clone() }, 20),
        ("age", Options { history_age: Duration::from_secs(1000), ..generous }, 0),
    ] {
        let subject = Embedded::with(options);
        let store = subject.store();
        let mut revision = put(&store, "/a", &[0; 100], Expected::Absent).await;
        for _ in 1..30 {
            revision = put(&store, "/a", &[0; 100], Expected::Revision(revision)).await;
        }
        assert_eq!(store.oldest(), oldest, "{name}");
        drop(store);
        assert_eq!(subject.store().oldest(), oldest, "{name}, after a restart");
    }
}
