//! What the operating system says about processes and disks.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::latency::Latencies;

/// Memory in MB (10⁶ bytes).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Memory {
    /// What is in RAM, shared pages in full.
    pub(crate) resident_mb: f64,
    /// What is in RAM, shared pages in proportion.
    pub(crate) proportional_mb: f64,
}

/// The memory of these processes together.
pub(crate) fn memory(pids: &[u32]) -> Result<Memory> {
    let mut sum = Memory::default();
    for pid in pids {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        sum.resident_mb += megabytes(&text, "Rss:")?;
        sum.proportional_mb += megabytes(&text, "Pss:")?;
    }
    Ok(sum)
}

/// The most memory that this process ever had in RAM, in MB.
pub(crate) fn peak_memory_mb() -> Result<f64> {
    megabytes(&fs::read_to_string("/proc/self/status")?, "VmHWM:")
}

fn megabytes(smaps: &str, field: &str) -> Result<f64> {
    let line = smaps.lines().find_map(|line| line.strip_prefix(field)).with_context(|| format!("no {field}"))?;
    let kibibytes: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kibibytes * 1024.0 / 1e6)
}

/// Lets background work of a process settle before its memory is read.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

/// How long this disk needs to make 4 KiB durable: the floor under every durable write.
pub(crate) fn disk(folder: &Path) -> Result<Latencies> {
    let mut file = File::create(folder.join("disk"))?;
    let mut sync = || {
        let start = Instant::now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        anyhow::Ok(start.elapsed())
    };
    (0..300).map(|_| sync()).collect()
}

/// How many threads of this machine wanted to run in the last minute: the benchmark is not alone if there were some.
pub(crate) fn load() -> Result<f64> {
    let text = fs::read_to_string("/proc/loadavg")?;
    Ok(text.split(' ').next().context("an empty file")?.parse()?)
}

/// Allows as many open files as the system lets us: a thousand watchers are a thousand connections.
pub(crate) fn raise_open_files() -> Result<()> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    Ok(())
}
