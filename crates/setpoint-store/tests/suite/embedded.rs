//! The store in a folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use setpoint_store::{
    At, Commit, EmbeddedStore, Expected, KeyFile, MemoryStore, OpenError, Options, Revision, Sealing, Store,
};

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
    fs::write(subject.folder.path().join("format"), "4\n").unwrap();
    let error = EmbeddedStore::open(subject.folder.path(), Options::default()).unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 4 }));
    assert_eq!(
        error.to_string(),
        "the data folder was written by format 4, this binary reads up to 3; use the newer binary or restore a backup"
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
        assert!(matches!(error, OpenError::Damaged(_) | OpenError::Missing(_)), "{name}: {error}");
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
    let mut acknowledged = Vec::new();
    for count in 1..20u8 {
        // What is torn was never acknowledged.
        acknowledged.push(fs::read(subject.folder.path().join("acknowledged")).unwrap());
        revision = put(&store, "/a", &[b'0' + count; 700], Expected::Revision(revision)).await;
    }
    drop(store);
    let acknowledged = &acknowledged[acknowledged.len() - 2];
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
            fs::write(subject.folder.path().join("acknowledged"), acknowledged).unwrap();
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
        for key in ["/a", "/b"] {
            put(&store, key, &[b'x'; 8192], Expected::Absent).await;
        }
        let acknowledged = fs::read(subject.folder.path().join("acknowledged")).unwrap();
        put(&store, "/c", &[b'x'; 8192], Expected::Absent).await;
        drop(store);
        // What has a hole was never acknowledged.
        fs::write(subject.folder.path().join("acknowledged"), acknowledged).unwrap();
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

/// A store with tables on disk besides its journal, closed.
async fn filled() -> Embedded {
    let subject = Embedded::new();
    for round in 0..3 {
        let store = subject.store();
        for index in 0..20 {
            put(&store, &format!("/{round}/{index}"), &[b'x'; 4096], Expected::Absent).await;
        }
    }
    subject
}

/// Whatever is missing, cut short or older than the rest, the store has all that it acknowledged or does not open.
#[tokio::test]
async fn a_store_with_less_than_it_acknowledged_does_not_open() {
    let whole = filled().await;
    let folder = whole.folder.path();
    let mut refused = 0;
    for file in files(folder) {
        let name = file.strip_prefix(folder).unwrap();
        let length = fs::metadata(&file).unwrap().len();
        let harms = [("missing", None), ("empty", Some(0)), ("cut in half", Some(length / 2))];
        for (what, length) in harms {
            let copied = tempfile::tempdir().unwrap();
            copy(folder, copied.path());
            let harmed = copied.path().join(name);
            match length {
                None => fs::remove_file(&harmed).unwrap(),
                Some(length) => fs::File::options().write(true).open(&harmed).unwrap().set_len(length).unwrap(),
            }
            match EmbeddedStore::open(copied.path(), Options::default()) {
                Ok(store) => assert_eq!((store.revision(), store.count("/")), (60, 60), "{} {what}", name.display()),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused >= 12, "only {refused} were refused");
}

#[tokio::test]
async fn what_is_missing_is_named_before_the_engine_touches_the_rest() {
    let names =
        ["engine/version", "engine/keyspaces/1/current", "engine/keyspaces/2/current", "acknowledged", "format"];
    for name in names {
        let subject = filled().await;
        let path = subject.folder.path().join(name);
        let kept = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let error = EmbeddedStore::open(subject.folder.path(), Options::default()).unwrap_err();
        assert!(error.to_string().contains(name) && error.to_string().contains("restore the whole folder"), "{error}");
        fs::write(path, kept).unwrap();
        assert_eq!(subject.store().count("/"), 60, "{name} was put back");
    }
    let subject = filled().await;
    fs::remove_dir_all(subject.folder.path().join("engine")).unwrap();
    let error = EmbeddedStore::open(subject.folder.path(), Options::default()).unwrap_err();
    assert!(error.to_string().contains("`engine` is missing"), "{error}");
}

#[tokio::test]
async fn a_part_of_an_earlier_backup_is_refused() {
    let subject = filled().await;
    let backup = tempfile::tempdir().unwrap();
    copy(subject.folder.path(), backup.path());
    let store = subject.store();
    put(&store, "/later", b"x", Expected::Absent).await;
    drop(store);
    fs::remove_dir_all(subject.folder.path().join("engine")).unwrap();
    copy(&backup.path().join("engine"), &subject.folder.path().join("engine"));
    let error = EmbeddedStore::open(subject.folder.path(), Options::default()).unwrap_err();
    assert!(error.to_string().contains("revision 61 was acknowledged"), "{error}");
    // The whole of it is fine.
    fs::remove_dir_all(subject.folder.path()).unwrap();
    copy(backup.path(), subject.folder.path());
    assert_eq!(subject.store().count("/"), 60);
}

#[tokio::test]
async fn a_store_of_the_format_before_opens_and_knows_from_then_on_what_it_acknowledged() {
    let subject = filled().await;
    fs::remove_file(subject.folder.path().join("acknowledged")).unwrap();
    fs::write(subject.folder.path().join("format"), "2\n").unwrap();
    drop(subject.store());
    assert_eq!(fs::read_to_string(subject.folder.path().join("format")).unwrap(), "3\n");
    assert!(subject.folder.path().join("acknowledged").exists());
    assert_eq!(subject.store().count("/"), 60);
}

#[tokio::test]
async fn nobody_but_its_owner_can_read_a_store() {
    use std::os::unix::fs::PermissionsExt as _;
    let subject = filled().await;
    for file in files(subject.folder.path()) {
        fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
    }
    fs::set_permissions(subject.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let _store = subject.store();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(subject.folder.path()), 0o700);
    for name in ["format", "acknowledged", "engine/version", "engine/keyspaces/1/current"] {
        assert_eq!(mode(&subject.folder.path().join(name)), 0o600, "{name}");
    }
}

#[tokio::test]
async fn a_copy_in_memory_holds_the_same_and_changes_nothing_on_disk() {
    let subject = filled().await;
    let keys = tempfile::tempdir().unwrap();
    let sealing =
        || Sealing { directories: vec!["/secrets/".to_owned()], key_file: KeyFile::at(keys.path().join("key")) };
    let copied = MemoryStore::copy_of(subject.folder.path(), Options::default(), sealing()).unwrap().unwrap();
    assert_eq!((copied.revision(), copied.count("/")), (60, 60));
    let earlier = copied.get("/0/3", At::Revision(30)).await.unwrap().value.unwrap();
    assert_eq!(earlier.revision, 4);
    put(&copied, "/copied", b"x", Expected::Absent).await;
    assert_eq!(subject.store().count("/"), 60);
    assert!(!keys.path().join("key").exists(), "no key is made");
    let nothing = tempfile::tempdir().unwrap();
    assert!(MemoryStore::copy_of(nothing.path().join("none"), Options::default(), sealing()).unwrap().is_none());
    assert!(!nothing.path().join("none").exists());
}
