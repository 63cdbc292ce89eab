//! Measures the engines that could be under the embedded store, and the store on the one that is.
//!
//! The engines get the same records in the same transactions: a value of 1 KB under its key, and a small record in the
//! order of commits; every transaction is synced. The figures depend on the disk above all, so compare only those of
//! one run. `cargo bench -p setpoint-store --bench engines`

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints its result and may fail loudly")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use redb::TableDefinition;
use setpoint_store::{At, Commit, EmbeddedStore, Expected, KeyFile, Options, Range, Sealing, Store};
use tempfile::TempDir;

const VALUE: [u8; 1024] = [b'x'; 1024];
const REPLACED: [u8; 48] = [0; 48];

fn main() {
    println!("| transaction | p50 µs | p99 µs |");
    println!("| --- | ---: | ---: |");
    for (name, sync) in [("fdatasync", PersistMode::SyncData), ("fsync", PersistMode::SyncAll)] {
        let folder = folder();
        let mut engine = Fjall::open(folder.path(), sync);
        measure_engine(&format!("fjall, {name}"), |keys| engine.write(keys));
    }
    let folder = folder();
    let engine = Redb::open(&folder.path().join("redb"));
    measure_engine("redb", |keys| engine.write(keys));

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(measure_store());
    runtime.block_on(measure_sealing());
}

fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn measure_engine(name: &str, mut write: impl FnMut(std::ops::Range<u64>)) {
    let mut next = 1;
    for (size, rounds) in [(1, 3000), (64, 500)] {
        let mut took = Vec::new();
        for _ in 0..rounds {
            let started = Instant::now();
            write(next..next + size);
            took.push(started.elapsed());
            next += size;
        }
        println!("{}", row(&format!("{name}, batch of {size}"), took));
    }
}

fn row(name: &str, mut took: Vec<Duration>) -> String {
    took.sort_unstable();
    let at = |percent: usize| took[took.len() * percent / 100].as_micros();
    format!("| {name} | {} | {} |", at(50), at(99))
}

/// Keys do not come in the order of commits.
fn key(count: u64) -> String {
    format!("/core/configmaps/default/{:016x}", count.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

struct Fjall {
    database: Database,
    objects: Keyspace,
    history: Keyspace,
    sync: PersistMode,
}

impl Fjall {
    fn open(folder: &Path, sync: PersistMode) -> Self {
        let database = Database::builder(folder).manual_journal_persist(true).open().unwrap();
        let table = || KeyspaceCreateOptions::default().max_memtable_size(8 << 20);
        let objects = database.keyspace("objects", table).unwrap();
        let history = database.keyspace("history", table).unwrap();
        Self { database, objects, history, sync }
    }

    fn write(&mut self, keys: std::ops::Range<u64>) {
        let mut batch = self.database.batch().durability(Some(self.sync));
        for count in keys {
            batch.insert(&self.objects, key(count), VALUE);
            batch.insert(&self.history, count.to_be_bytes(), REPLACED);
        }
        batch.commit().unwrap();
    }
}

struct Redb(redb::Database);

impl Redb {
    const OBJECTS: TableDefinition<'static, &'static str, &'static [u8]> = TableDefinition::new("objects");
    const HISTORY: TableDefinition<'static, u64, &'static [u8]> = TableDefinition::new("history");

    fn open(file: &Path) -> Self {
        Self(redb::Database::create(file).unwrap())
    }

    fn write(&self, keys: std::ops::Range<u64>) {
        let transaction = self.0.begin_write().unwrap();
        {
            let mut objects = transaction.open_table(Self::OBJECTS).unwrap();
            let mut history = transaction.open_table(Self::HISTORY).unwrap();
            for count in keys {
                objects.insert(&*key(count), &VALUE[..]).unwrap();
                history.insert(count, &REPLACED[..]).unwrap();
            }
        }
        transaction.commit().unwrap();
    }
}

async fn measure_store() {
    let folder = folder();
    let before = resident_mib();
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(folder.path(), Options::default()).unwrap());
    let mut took = Vec::new();
    for count in 0..3000 {
        let started = Instant::now();
        create(&*store, count).await;
        took.push(started.elapsed());
    }
    println!("{}\n", row("the store, 1 client", took));

    for clients in [16, 64, 256] {
        let (commits, started) = (40_000, Instant::now());
        let base = 1_000_000 * clients;
        let tasks = (0..clients).map(|client| {
            let store = store.clone();
            tokio::spawn(async move {
                for count in 0..commits / clients {
                    create(&*store, base + count * clients + client).await;
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        println!("{clients} clients: {:.0} commits/s", commits as f64 / started.elapsed().as_secs_f64());
    }
    println!("{} keys: {} MiB more than without a store", store.count("/"), resident_mib() - before);

    let started = Instant::now();
    let page = store.range(Range { scope: "/core/", after: None, limit: 10_000, at: At::Now }).await.unwrap();
    println!("reading {} of them: {:?}", page.entries.len(), started.elapsed());
    drop(page);
    store.close().await.unwrap();
    drop(store);

    let started = Instant::now();
    let store = EmbeddedStore::open(folder.path(), Options::default()).unwrap();
    println!("opening with {} keys: {:?}", store.count("/"), started.elapsed());
}

/// What sealing costs: the same commits and the same start with all values in plain and with all of them sealed.
async fn measure_sealing() {
    println!("\n| 1 client, then 64; then closed and opened | p50 µs | commits/s | opening 10 000 | opening 100 000 |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    for (name, directories) in [("plain", vec![]), ("sealed", vec!["/core/".to_owned()])] {
        let folder = folder();
        let key_file = KeyFile::at(folder.path().join("secrets.key"));
        let sealing = Sealing { directories, key_file };
        let open = || {
            let started = Instant::now();
            let store = EmbeddedStore::open_sealed(folder.path().join("store"), Options::default(), sealing.clone());
            (Arc::new(store.unwrap()), started.elapsed())
        };
        let (store, _) = open();
        let mut took = Vec::new();
        for count in 0..3000 {
            let started = Instant::now();
            create(&*store, count).await;
            took.push(started.elapsed());
        }
        took.sort_unstable();
        create_all(&store, 3000..10_000).await;
        drop(store);
        let (store, few) = open();
        let started = Instant::now();
        create_all(&store, 10_000..100_000).await;
        let rate = 90_000.0 / started.elapsed().as_secs_f64();
        drop(store);
        let (store, many) = open();
        assert_eq!(store.count("/"), 100_000);
        println!("| {name} | {} | {rate:.0} | {few:.1?} | {many:.1?} |", took[took.len() / 2].as_micros());
        drop(store);
        if !sealing.directories.is_empty() {
            sealing.key_file.rotate().unwrap();
            println!("\nsealing 100 000 of them anew at the start after a rotation: {:.1?}", open().1);
        }
    }
}

async fn create_all(store: &Arc<EmbeddedStore>, counts: std::ops::Range<u64>) {
    const CLIENTS: u64 = 64;
    let tasks = (0..CLIENTS).map(|client| {
        let (store, counts) = (store.clone(), counts.clone());
        tokio::spawn(async move {
            for count in counts.filter(|count| count % CLIENTS == client) {
                create(&*store, count).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

async fn create(store: &dyn Store, count: u64) {
    let value = Some(Bytes::from_static(&VALUE));
    let commit = Commit { key: key(count + 1).into(), value, expected: Expected::Absent };
    store.commit(commit).await.unwrap();
}

/// The memory of this process, where the system tells it.
fn resident_mib() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * 4096 / (1 << 20)
}
