//! Opens an engine whose journal ends in a batch that reached the disk only in part.
//!
//! When power is lost during a sync, the pages of the last batch may be on disk in any selection. The engine discards
//! a batch whose end is missing, but refuses to open when the end is there and something before it is not. That batch
//! was never acknowledged, so it may go: without its last byte it has no end. Damage anywhere else is not ours to
//! repair; then the journal is left as it was found.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::sync;

/// The ending of a journal as it was found; the engine passes over files with other endings than its own.
const ORIGINAL: &str = "original";

/// The ending of an original that is not complete yet.
const COPY: &str = "copy";

/// Opens an engine, and once again without the last batch if that is what keeps it from opening.
pub(crate) fn open<E>(folder: &Path, open: impl Fn(&Path) -> Result<E, fjall::Error>) -> Result<E, fjall::Error> {
    let refusal = match open(folder) {
        Ok(engine) => {
            remove_originals(folder)?;
            return Ok(engine);
        }
        Err(refusal @ fjall::Error::JournalRecovery(_)) => refusal,
        Err(error) => return Err(error),
    };
    let Some(journal) = newest_journal(folder)? else { return Err(refusal) };
    let original = journal.with_extension(ORIGINAL);
    // If there is one already, an attempt before this one may have cut the journal.
    if !original.exists() {
        let copy = journal.with_extension(COPY);
        fs::copy(&journal, &copy)?;
        File::open(&copy)?.sync_all()?;
        fs::rename(copy, &original)?;
        sync(folder)?;
    }
    cut_last_byte(&journal)?;
    match open(folder) {
        Ok(engine) => {
            remove_originals(folder)?;
            Ok(engine)
        }
        Err(_) => {
            fs::rename(original, journal)?;
            sync(folder)?;
            Err(refusal)
        }
    }
}

/// Whether there is a journal. An engine has one from its first batch on.
pub(crate) fn exists(folder: &Path) -> io::Result<bool> {
    Ok(newest_journal(folder)?.is_some())
}

/// Removes what attempts have kept, for good and before anything is written: an original that outlives its journal's
/// opening would undo, at the next attempt, all that was acknowledged in between.
fn remove_originals(folder: &Path) -> io::Result<()> {
    for ending in [ORIGINAL, COPY] {
        for original in files(folder, ending)? {
            tracing::warn!(?original, "the last batch reached the disk only in part and was discarded");
            fs::remove_file(original)?;
            sync(folder)?;
        }
    }
    Ok(())
}

fn files(folder: &Path, ending: &str) -> io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    paths
        .filter(|path| path.as_ref().map_or(true, |path| path.extension().is_some_and(|found| found == ending)))
        .collect()
}

fn newest_journal(folder: &Path) -> io::Result<Option<PathBuf>> {
    let number = |path: &Path| path.file_stem()?.to_str()?.parse::<u64>().ok();
    let journals = files(folder, "jnl")?.into_iter();
    Ok(journals.filter_map(|path| Some((number(&path)?, path))).max().map(|(_, path)| path))
}

/// Cuts a journal before its last byte that is not one of the zeros it was made of.
fn cut_last_byte(journal: &Path) -> io::Result<()> {
    let bytes = fs::read(journal)?;
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap_or_default();
    let file = File::options().write(true).open(journal)?;
    file.set_len(last as u64)?;
    file.sync_all()
}
