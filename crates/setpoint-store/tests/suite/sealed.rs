//! The store that seals some of its values on disk.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use memchr::memmem;
use setpoint_store::{At, Commit, EmbeddedStore, Expected, Options, Revision, Store};
use tempfile::TempDir;

use crate::embedded::{copy, files, put};
use crate::subjects::Sealed;

setpoint_store::conformance_tests!(durable Sealed::new("/"));

const SECRETS: &str = "/core/secrets/";
const SECRET: &str = "kept-from-everybody";
const OPEN: &str = "for-all-to-read";

/// More of them than the engine keeps in its journal alone.
const KEYS: usize = 300;

fn value(text: &str, count: usize) -> Vec<u8> {
    format!("{text}-{count:03}-").repeat(1000).into_bytes()
}

fn key(count: usize) -> String {
    format!("{SECRETS}default/{count:03}")
}

/// Creates secrets, overwrites half of them and deletes some; beside them lies something that is none.
async fn fill(store: &dyn Store) -> Revision {
    for count in 0..KEYS {
        let created = put(store, &key(count), &value(SECRET, count), Expected::Absent).await;
        if count % 2 == 0 {
            let updated = put(store, &key(count), &value(SECRET, count + 1), Expected::Revision(created)).await;
            if count % 3 == 0 {
                let commit = Commit { key: key(count).into(), value: None, expected: Expected::Revision(updated) };
                store.commit(commit).await.unwrap();
            }
        }
    }
    put(store, "/core/configmaps/default/a", &value(OPEN, 0), Expected::Absent).await
}

/// Every value that there is or was, as `fill` has written it.
async fn check(store: &dyn Store, newest: Revision) {
    assert_eq!((store.revision(), store.oldest()), (newest, 0));
    let mut revision = 0;
    let read = async |key: String, revision: Revision| {
        let found = store.get(&key, At::Revision(revision)).await.unwrap().value;
        found.map(|entry| entry.value)
    };
    for count in 0..KEYS {
        revision += 1;
        assert_eq!(read(key(count), revision).await, Some(Bytes::from(value(SECRET, count))), "{count}");
        if count % 2 == 0 {
            revision += 1;
            assert_eq!(read(key(count), revision).await, Some(Bytes::from(value(SECRET, count + 1))), "{count}");
            if count % 3 == 0 {
                revision += 1;
                assert_eq!(read(key(count), revision).await, None, "{count}");
            }
        }
    }
    let open = store.get("/core/configmaps/default/a", At::Now).await.unwrap().value.unwrap();
    assert_eq!(open.value, value(OPEN, 0));
}

/// Whether any file of a folder holds a text.
fn holds(folder: &Path, text: &[u8]) -> bool {
    // The engine drops files while it works.
    let read = files(folder).into_iter().filter_map(|file| fs::read(file).ok());
    read.into_iter().any(|bytes| memmem::find(&bytes, text).is_some())
}

/// The ids of the keys in a folder's key file, newest first.
fn ids(folder: &TempDir) -> Vec<String> {
    let text = fs::read_to_string(folder.path().join("secrets.key")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.starts_with("sealed "));
    lines.map(|line| line.split_once(' ').unwrap().0.to_owned()).collect()
}

fn bytes_of(id: &str) -> Vec<u8> {
    (0..id.len()).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()).collect()
}

#[tokio::test]
async fn no_file_holds_a_secret() {
    let subject = Sealed::new(SECRETS);
    let search = |moment: &str| {
        assert!(!holds(subject.folder.path(), SECRET.as_bytes()), "{moment}");
        assert!(holds(&subject.path(), OPEN.as_bytes()), "{moment}: the search finds what is there");
    };
    let store = subject.store();
    let newest = fill(&store).await;
    search("written");
    drop(store);
    search("closed");
    let store = subject.store();
    check(&store, newest).await;
    search("reopened");
    store.compact(newest - 1).await.unwrap();
    search("compacted");
    drop(store);
    assert_eq!(subject.store().oldest(), newest - 1);
    search("compacted and reopened");
}

#[tokio::test]
async fn what_is_there_in_plain_is_sealed_at_the_next_start() {
    let subject = Sealed::new(SECRETS);
    let newest = fill(&subject.plain_store()).await;
    fs::write(subject.path().join("format"), "1\n").unwrap();
    assert!(holds(&subject.path(), SECRET.as_bytes()), "the search finds what is there");
    check(&subject.store(), newest).await;
    assert!(!holds(subject.folder.path(), SECRET.as_bytes()));
    assert!(holds(&subject.path(), OPEN.as_bytes()));
    assert_eq!(fs::read_to_string(subject.path().join("format")).unwrap(), "3\n", "no older binary reads it");
    check(&subject.store(), newest).await;
}

/// Once all is sealed, a plain value is not ours, unless the user says that it is.
#[tokio::test]
async fn a_copy_from_before_is_refused_until_it_is_wanted() {
    let subject = Sealed::new(SECRETS);
    let newest = fill(&subject.plain_store()).await;
    let before = copy_of(&subject.path());
    drop(subject.store());
    fs::remove_dir_all(subject.path()).unwrap();
    copy(before.path(), &subject.path());
    let error = subject.try_store().unwrap_err().to_string();
    assert!(error.contains(&format!("remove the line `sealed {SECRETS}` from")), "{error}");
    forget_what_is_sealed(subject.key_file().path());
    check(&subject.store(), newest).await;
    assert!(!holds(subject.folder.path(), SECRET.as_bytes()));
}

#[tokio::test]
async fn a_rotation_leaves_nothing_under_the_old_key() {
    let subject = Sealed::new(SECRETS);
    let store = subject.store();
    let newest = fill(&store).await;
    let first = ids(&subject.folder).remove(0);
    let old_file = fs::read(subject.key_file().path()).unwrap();
    // While the store is open, the new key only waits.
    let second = subject.key_file().rotate().unwrap().to_string();
    let third = subject.key_file().rotate().unwrap().to_string();
    assert_eq!(ids(&subject.folder), [third.clone(), second, first.clone()]);
    put(&store, "/core/secrets/late", b"late", Expected::Absent).await;
    drop(store);
    assert!(holds(&subject.path(), &bytes_of(&first)));
    drop(subject.store());
    assert_eq!(ids(&subject.folder), std::slice::from_ref(&third));
    assert!(!holds(&subject.path(), &bytes_of(&first)), "no value is under the old key");
    assert!(holds(&subject.path(), &bytes_of(&third)));
    let store = subject.store();
    assert_eq!(store.get("/core/secrets/late", At::Now).await.unwrap().value.unwrap().value, "late");
    let deleted = store.get(&key(0), At::Revision(2)).await.unwrap().value.unwrap();
    assert_eq!((store.revision(), deleted.value), (newest + 1, Bytes::from(value(SECRET, 1))));
    drop(store);
    fs::write(subject.key_file().path(), old_file).unwrap();
    let error = subject.try_store().unwrap_err().to_string();
    let expected = format!(
        "the value of {} is sealed with key {third}, which the key file {} does not hold; restore the key file from a copy",
        key(1),
        subject.key_file().path().display()
    );
    assert_eq!(error, expected);
}

#[tokio::test]
async fn a_missing_key_file_is_named() {
    let subject = Sealed::new(SECRETS);
    drop(subject.store());
    fs::remove_file(subject.key_file().path()).unwrap();
    let revision = put(&subject.store(), &key(0), b"x", Expected::Absent).await;
    assert_eq!(revision, 1, "nothing needed the key, so there is a new one");
    let id = ids(&subject.folder).remove(0);
    let aside = subject.folder.path().join("aside");
    fs::rename(subject.key_file().path(), &aside).unwrap();
    for attempt in ["the first", "the second"] {
        let error = subject.try_store().unwrap_err().to_string();
        let path = subject.key_file().path().display().to_string();
        assert!(error.contains(&key(0)) && error.contains(&format!("key {id}")), "{attempt}: {error}");
        assert!(error.contains(&format!("the key file {path} is missing")), "{attempt}: {error}");
        assert!(!subject.key_file().path().exists(), "{attempt} puts no other in its place");
    }
    let error = EmbeddedStore::open(subject.path(), Options::default()).unwrap_err().to_string();
    assert!(error.contains("no key file was named"), "{error}");
    fs::rename(aside, subject.key_file().path()).unwrap();
    assert_eq!(subject.store().revision(), 1);
}

/// What a loss of power can leave of a store whose values are being sealed anew, step by step.
#[tokio::test]
async fn sealing_anew_can_be_cut_short_anywhere() {
    for (what, rotated) in [("in plain before", false), ("under an old key before", true)] {
        let subject = Sealed::new(SECRETS);
        let newest = if rotated { fill(&subject.store()).await } else { fill(&subject.plain_store()).await };
        if rotated {
            subject.key_file().rotate().unwrap();
        }
        let before = copy_of(subject.folder.path());
        drop(subject.store());
        let after = copy_of(subject.folder.path());
        let keys = before.path().join("secrets.key");
        if !rotated {
            // The file is made before the first value is sealed, and says so after the last.
            fs::copy(subject.key_file().path(), &keys).unwrap();
            forget_what_is_sealed(&keys);
        }
        let half = copy_of(&after.path().join("store/engine"));
        let journal =
            files(half.path()).into_iter().find(|file| file.extension().is_some_and(|ending| ending == "jnl"));
        fs::write(journal.unwrap(), "half").unwrap();

        let rows: [(&str, &[(&str, &Path)]); 5] = [
            ("before anything", &[("engine", &before.path().join("store/engine"))]),
            (
                "while the new engine is written",
                &[("engine", &before.path().join("store/engine")), ("engine.new", half.path())],
            ),
            (
                "when the old engine has gone aside",
                &[
                    ("engine.old", &before.path().join("store/engine")),
                    ("engine.new", &after.path().join("store/engine")),
                ],
            ),
            (
                "when the new engine is in its place",
                &[("engine", &after.path().join("store/engine")), ("engine.old", &before.path().join("store/engine"))],
            ),
            ("when the old one has gone, before its keys have", &[("engine", &after.path().join("store/engine"))]),
        ];
        for (moment, engines) in rows {
            let name = format!("{what}, {moment}");
            let cut = Sealed::new(SECRETS);
            fs::create_dir(cut.path()).unwrap();
            fs::write(cut.path().join("format"), "2\n").unwrap();
            for (engine, from) in engines {
                copy(from, &cut.path().join(engine));
            }
            fs::copy(&keys, cut.key_file().path()).unwrap();
            check(&cut.store(), newest).await;
            assert!(!holds(cut.folder.path(), SECRET.as_bytes()), "{name}");
            assert_eq!(ids(&cut.folder), ids(&after), "{name}: only the newest key is left");
            let mut names: Vec<_> = fs::read_dir(cut.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, ["acknowledged", "engine", "format"], "{name}");
            check(&cut.store(), newest).await;
        }
    }
}

/// Makes a key file what it was before the values were sealed.
fn forget_what_is_sealed(key_file: &Path) {
    let text = fs::read_to_string(key_file).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with("sealed ")).map(|line| format!("{line}\n"));
    fs::write(key_file, lines.collect::<String>()).unwrap();
}

fn copy_of(folder: &Path) -> TempDir {
    let target = tempfile::tempdir().unwrap();
    copy(folder, target.path());
    target
}
