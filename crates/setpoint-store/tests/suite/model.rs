//! The stores against a model that is too simple to be wrong: every state there ever was.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use setpoint_store::conformance::Subject;
use setpoint_store::{At, Commit, Error, Event, Expected, Range, Revision, Store};
use tokio::runtime::Runtime;

use crate::subjects::{Embedded, Inline, Memory, Sealed};

const KEYS: [&str; 6] = ["/a", "/a/x", "/a/y", "/ab/x", "/b/x/1", "/b/y"];
const SCOPES: [&str; 6] = ["/", "/a/", "/a", "/b/", "/b/x/", "/c/"];

#[derive(Debug, Clone)]
enum Operation {
    Put { key: usize, value: u8, expected: Guess },
    Delete { key: usize, expected: Guess },
    Read { scope: usize, back: u64, limit: usize },
    Watch { scope: usize, back: u64 },
    Compact { back: u64 },
    Reopen,
}

/// What a client believes about a key.
#[derive(Debug, Clone, Copy)]
enum Guess {
    Right,
    Absent,
    Stale,
}

fn operation() -> impl Strategy<Value = Operation> {
    let key = 0..KEYS.len();
    let scope = 0..SCOPES.len();
    let guess = prop_oneof![8 => Just(Guess::Right), 1 => Just(Guess::Absent), 1 => Just(Guess::Stale)];
    prop_oneof![
        10 => (key.clone(), any::<u8>(), guess.clone())
            .prop_map(|(key, value, expected)| Operation::Put { key, value, expected }),
        4 => (key, guess).prop_map(|(key, expected)| Operation::Delete { key, expected }),
        4 => (scope.clone(), 0..12u64, 0..4usize)
            .prop_map(|(scope, back, limit)| Operation::Read { scope, back, limit }),
        2 => (scope, 0..12u64).prop_map(|(scope, back)| Operation::Watch { scope, back }),
        1 => (0..8u64).prop_map(|back| Operation::Compact { back }),
        1 => Just(Operation::Reopen),
    ]
}

type Contents = BTreeMap<&'static str, (Vec<u8>, Revision)>;

/// The contents at every revision, and the oldest that may be read.
struct Model {
    states: Vec<Contents>,
    changed: Vec<&'static str>,
    oldest: Revision,
}

impl Model {
    fn newest(&self) -> Revision {
        self.states.len() as Revision - 1
    }

    fn now(&self) -> &Contents {
        &self.states[self.states.len() - 1]
    }

    fn commit(&mut self, key: &'static str, value: Option<Vec<u8>>, expected: Expected) -> Result<Revision, Error> {
        let found = self.now().get(key).map(|(_, revision)| *revision);
        let wanted = match expected {
            Expected::Absent => None,
            Expected::Revision(revision) => Some(revision),
        };
        if found != wanted || (found.is_none() && value.is_none()) {
            return Err(Error::Conflict { key: key.into(), found });
        }
        let revision = self.newest() + 1;
        let mut next = self.now().clone();
        match value {
            Some(value) => next.insert(key, (value, revision)),
            None => next.remove(key),
        };
        self.states.push(next);
        self.changed.push(key);
        Ok(revision)
    }

    fn at(&self, revision: Revision) -> Result<&Contents, Error> {
        if revision < self.oldest {
            return Err(Error::Compacted { requested: revision, oldest: self.oldest });
        }
        Ok(&self.states[revision as usize])
    }

    fn read(&self, scope: &str, revision: Revision) -> Result<Vec<(String, Vec<u8>, Revision)>, Error> {
        let contents = self.at(revision)?.iter().filter(|(key, _)| covers(scope, key));
        Ok(contents.map(|(key, (value, revision))| ((*key).to_owned(), value.clone(), *revision)).collect())
    }

    /// Each event as revision, key, value and previous value.
    fn events(&self, scope: &str, after: Revision) -> Vec<Told> {
        (after + 1..=self.newest())
            .filter(|revision| covers(scope, self.changed[*revision as usize - 1]))
            .map(|revision| {
                let key = self.changed[revision as usize - 1];
                let value = self.states[revision as usize].get(key).map(|(value, _)| value.clone());
                (revision, key.to_owned(), value, self.states[revision as usize - 1].get(key).cloned())
            })
            .collect()
    }
}

type Told = (Revision, String, Option<Vec<u8>>, Option<(Vec<u8>, Revision)>);

fn told(event: &Event) -> Told {
    let previous = event.previous.as_ref().map(|(value, revision)| (value.to_vec(), *revision));
    (event.revision, event.key.to_string(), event.value.as_ref().map(|value| value.to_vec()), previous)
}

fn covers(scope: &str, key: &str) -> bool {
    if scope.ends_with('/') { key.starts_with(scope) } else { key == scope }
}

async fn run(subject: &impl Subject, operations: Vec<Operation>, durable: bool) {
    let mut model = Model { states: vec![Contents::new()], changed: Vec::new(), oldest: 0 };
    let mut store = subject.open().await;
    let mut watch = store.watch("/", 0).unwrap();
    let mut seen = 0;
    for operation in operations {
        match operation {
            Operation::Put { key, value, expected } => {
                commit(&*store, &mut model, KEYS[key], Some(vec![value; 3]), expected).await;
            }
            Operation::Delete { key, expected } => commit(&*store, &mut model, KEYS[key], None, expected).await,
            Operation::Read { scope, back, limit } => {
                let revision = model.newest().saturating_sub(back);
                let expected = model.read(SCOPES[scope], revision);
                assert_eq!(read(&*store, SCOPES[scope], revision, limit).await, expected);
                assert_eq!(store.count(SCOPES[scope]), model.read(SCOPES[scope], model.newest()).unwrap().len() as u64);
            }
            Operation::Watch { scope, back } => {
                let after = model.newest().saturating_sub(back);
                match (store.watch(SCOPES[scope], after), model.at(after)) {
                    (Ok(mut watch), Ok(_)) => {
                        for expected in model.events(SCOPES[scope], after) {
                            assert_eq!(told(&watch.next().await.unwrap()), expected);
                        }
                        assert!(watch.try_next().unwrap().is_none());
                    }
                    (watch, at) => assert_eq!(watch.err(), at.err()),
                }
            }
            Operation::Compact { back } => {
                // The long watch reads first, so that it never lags behind history.
                for expected in model.events("/", seen) {
                    assert_eq!(told(&watch.next().await.unwrap()), expected);
                }
                seen = model.newest();
                let revision = model.newest().saturating_sub(back);
                store.compact(revision).await.unwrap();
                model.oldest = model.oldest.max(revision);
            }
            Operation::Reopen if durable => {
                store.close().await.unwrap();
                drop((store, watch));
                store = subject.open().await;
                watch = store.watch("/", seen.max(model.oldest)).unwrap();
                seen = seen.max(model.oldest);
            }
            Operation::Reopen => {}
        }
        assert_eq!((store.revision(), store.oldest()), (model.newest(), model.oldest));
    }
    for expected in model.events("/", seen) {
        assert_eq!(told(&watch.next().await.unwrap()), expected);
    }
    for revision in model.oldest..=model.newest() {
        assert_eq!(read(&*store, "/", revision, 2).await, model.read("/", revision));
    }
}

async fn commit(store: &dyn Store, model: &mut Model, key: &'static str, value: Option<Vec<u8>>, guess: Guess) {
    let known = model.now().get(key).map(|(_, revision)| *revision);
    let expected = match (guess, known) {
        (Guess::Right, Some(revision)) => Expected::Revision(revision),
        (Guess::Right, None) | (Guess::Absent, _) => Expected::Absent,
        (Guess::Stale, known) => Expected::Revision(known.unwrap_or(1).saturating_sub(1)),
    };
    let committed = store.commit(Commit { key: key.into(), value: value.clone().map(Bytes::from), expected }).await;
    assert_eq!(committed.map(|committed| committed.revision), model.commit(key, value, expected));
}

/// Reads a scope page by page.
async fn read(
    store: &dyn Store,
    scope: &str,
    revision: Revision,
    limit: usize,
) -> Result<Vec<(String, Vec<u8>, Revision)>, Error> {
    let mut found = Vec::new();
    let mut after: Option<Arc<str>> = None;
    loop {
        let range = Range { scope, after: after.as_deref(), limit, at: At::Revision(revision) };
        let page = store.range(range).await?;
        assert!(limit == 0 || page.entries.len() <= limit);
        after = page.entries.last().map(|entry| entry.key.clone());
        found.extend(page.entries.iter().map(|entry| (entry.key.to_string(), entry.value.to_vec(), entry.revision)));
        if !page.more {
            return Ok(found);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn memory_behaves_as_the_model(operations in vec(operation(), 1..120)) {
        Runtime::new().unwrap().block_on(run(&Memory, operations, false));
    }

    #[test]
    fn memory_without_threads_behaves_as_the_model(operations in vec(operation(), 1..120)) {
        Runtime::new().unwrap().block_on(run(&Inline, operations, false));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn embedded_behaves_as_the_model(operations in vec(operation(), 1..120)) {
        Runtime::new().unwrap().block_on(run(&Embedded::new(), operations, true));
    }
    #[test]
    fn sealed_behaves_as_the_model(operations in vec(operation(), 1..120)) {
        Runtime::new().unwrap().block_on(run(&Sealed::new("/a/"), operations, true));
    }
}
