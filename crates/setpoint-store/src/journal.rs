//! Opens an engine whose journal ends in a batch that reached the disk only in part.
//!
//! When power is lost during a sync, the pages of the last batch may be on disk in any selection. The engine discards
//! a batch whose end is missing, but refuses to open when the end is there and something before it is not. That batch
//! was never acknowledged, so it may go: without its last byte it has no end. Damage anywhere else is not ours to
//! repair; then the journal is left as it was found.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Opens an engine, and once again without the last batch if that is what keeps it from opening.
pub(crate) fn open<E>(folder: &Path, open: impl Fn(&Path) -> Result<E, fjall::Error>) -> Result<E, fjall::Error> {
    let refusal = match open(folder) {
        Err(refusal @ fjall::Error::JournalRecovery(_)) => refusal,
        opened => return opened,
    };
    let Some(journal) = newest_journal(folder)? else { return Err(refusal) };
    // The engine passes over files with other endings.
    let original = journal.with_extension("original");
    if !original.exists() {
        fs::copy(&journal, &original)?;
        File::open(&original)?.sync_all()?;
    }
    cut_last_byte(&journal)?;
    match open(folder) {
        Ok(engine) => {
            tracing::warn!("the last batch reached the disk only in part and was discarded");
            fs::remove_file(original)?;
            Ok(engine)
        }
        Err(_) => {
            fs::rename(original, journal)?;
            Err(refusal)
        }
    }
}

fn newest_journal(folder: &Path) -> io::Result<Option<PathBuf>> {
    let mut newest = None;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u64>().ok());
        if path.extension().is_some_and(|extension| extension == "jnl") {
            newest = newest.max(number.map(|number| (number, path)));
        }
    }
    Ok(newest.map(|(_, path)| path))
}

/// Cuts a journal before its last byte that is not one of the zeros it was made of.
fn cut_last_byte(journal: &Path) -> io::Result<()> {
    let bytes = fs::read(journal)?;
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap_or_default();
    let file = File::options().write(true).open(journal)?;
    file.set_len(last as u64)?;
    file.sync_all()
}
