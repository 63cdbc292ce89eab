//! A store of which a part is missing, cut short or of another time: everything that was acknowledged is there, or the start
//! is refused by name. Never is there an emptier cluster.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use setpoint_testkit::Server;

use crate::SETPOINT;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MADE: usize = 5;

#[tokio::test]
async fn a_start_without_a_file_of_the_store_has_everything_or_is_refused() -> Result<()> {
    let mut filled = Filled::new().await?;
    let files = files_in(&filled.store())?;
    ensure!(files.len() > 8, "the search finds what is there: {files:?}");
    let mut refused = Vec::new();
    for file in files {
        fs::remove_file(&file)?;
        if let Some(why) = filled.start().await? {
            refused.push(format!("{}: {why}", file.display()));
        }
        filled.put_back()?;
    }
    for (file, word) in [
        ("keyspaces/0/current", "`engine/keyspaces/0/current` is missing"),
        ("keyspaces/1/current", "`engine/keyspaces/1/current` is missing"),
        ("keyspaces/2/current", "`engine/keyspaces/2/current` is missing"),
        ("engine/version", "`engine/version` is missing"),
        (".jnl", "journal (`engine/*.jnl`) is missing"),
        ("store/format", "`format` is missing"),
        ("store/acknowledged", "`acknowledged` is missing"),
    ] {
        let found = refused.iter().find(|why| why.split_once(": ").is_some_and(|(path, _)| path.ends_with(file)));
        let why = found.with_context(|| format!("without {file} it started"))?;
        ensure!(why.contains(word) && why.contains("restore the whole folder from one backup"), "{why}");
    }
    ensure!(filled.start().await?.is_none(), "what was put back is used");
    Ok(())
}

#[tokio::test]
async fn a_start_with_a_file_that_is_cut_short_has_everything_or_is_refused() -> Result<()> {
    let mut filled = Filled::new().await?;
    for file in files_in(&filled.store())? {
        let length = fs::metadata(&file)?.len();
        File::options().write(true).open(&file)?.set_len(length / 2)?;
        filled.start().await?;
        filled.put_back()?;
    }
    Ok(())
}

#[tokio::test]
async fn a_start_without_the_whole_store_is_refused() -> Result<()> {
    let mut filled = Filled::new().await?;
    let store = filled.store();
    for gone in ["engine", ""] {
        fs::remove_dir_all(store.join(gone))?;
        let why = filled.start().await?.context("it started")?;
        ensure!(why.contains("is missing") && why.contains("from one backup"), "{why}");
        filled.put_back()?;
    }
    fs::remove_dir_all(&store)?;
    filled.start().await?.context("it started")?;
    ensure!(!store.exists(), "no new store hides the loss");
    Ok(())
}

#[tokio::test]
async fn a_part_of_an_earlier_backup_is_refused() -> Result<()> {
    let mut filled = Filled::new().await?;
    filled.server.restart().await?;
    create(&filled.server, MADE).await?;
    filled.server.terminate().await?;
    fs::remove_dir_all(filled.store().join("engine"))?;
    copy(&filled.backup().join("engine"), &filled.store().join("engine"))?;
    let why = filled.start().await?.context("it started without what came after the backup")?;
    ensure!(why.contains("was acknowledged"), "{why}");
    Ok(())
}

/// A stopped server with objects in its store, and a copy of the store.
struct Filled {
    server: Server,
}

impl Filled {
    async fn new() -> Result<Filled> {
        let mut server = Server::start(SETPOINT).await?;
        for number in 0..MADE {
            create(&server, number).await?;
            if number == 2 {
                // Some of it is in tables then, and the rest in the journal.
                server.terminate().await?;
                server.restart().await?;
            }
        }
        server.terminate().await?;
        let filled = Filled { server };
        copy(&filled.store(), &filled.backup())?;
        Ok(filled)
    }

    fn store(&self) -> PathBuf {
        self.server.data_dir().join("store")
    }

    fn backup(&self) -> PathBuf {
        self.server.folder().join("backup")
    }

    fn put_back(&self) -> Result<()> {
        if self.store().exists() {
            fs::remove_dir_all(self.store())?;
        }
        copy(&self.backup(), &self.store())
    }

    /// Starts the server: it has all that was made, or says why it does not start.
    async fn start(&mut self) -> Result<Option<String>> {
        self.server.spawn()?;
        let log = self.server.log().len();
        if self.server.ready().await.is_err() {
            let said = self.server.log();
            let why = said.get(log.min(said.len())..).unwrap_or_default();
            let error = why.lines().chain(said.lines()).rfind(|line| line.starts_with("error: "));
            let error = error.with_context(|| format!("it neither starts nor says why: {said}"))?;
            return Ok(Some(error.to_owned()));
        }
        let list = self.server.client()?.get(CONFIG_MAPS).await?.success()?;
        let names: Vec<&str> = list["items"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|item| item["metadata"]["name"].as_str())
            .collect();
        let made = names.iter().filter(|name| name.starts_with("made-")).count();
        ensure!(made >= MADE, "it started with less than it had acknowledged: {names:?}");
        self.server.terminate().await?;
        Ok(None)
    }
}

async fn create(server: &Server, number: usize) -> Result<()> {
    let name = format!("made-{number}");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}});
    tokio::time::timeout(Duration::from_secs(60), server.client()?.post(CONFIG_MAPS, &object)).await??.success()?;
    Ok(())
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => files.extend(files_in(&path)?),
            false => files.push(path),
        }
    }
    files.sort();
    Ok(files)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    for file in files_in(from)? {
        let place = to.join(file.strip_prefix(from)?);
        fs::create_dir_all(place.parent().context("a folder")?)?;
        fs::copy(file, place)?;
    }
    Ok(())
}
