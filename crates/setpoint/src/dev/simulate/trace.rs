//! What happened in a simulation, a line for each step, and a number that stands for all of it.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::io::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How many lines are shown of a run that failed.
const LAST: usize = 60;

/// Clones are the same trace.
#[derive(Debug, Clone)]
pub(super) struct Trace(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    start: Instant,
    hash: DefaultHasher,
    last: VecDeque<String>,
    lines: usize,
    is_shown: bool,
}

impl Trace {
    pub(super) fn new(is_shown: bool) -> Trace {
        let (start, hash, last) = (Instant::now(), DefaultHasher::new(), VecDeque::new());
        Trace(Arc::new(Mutex::new(State { start, hash, last, lines: 0, is_shown })))
    }

    /// Writes down what happened.
    pub(super) fn say(&self, line: impl AsRef<str>) {
        let mut state = self.0.lock();
        let passed = state.start.elapsed();
        let line = format!("{:6} {:>9.3}s  {}", state.lines, passed.as_secs_f64(), line.as_ref());
        state.lines += 1;
        state.hash.write(line.as_bytes());
        if state.is_shown {
            // Whoever reads may have seen enough.
            let _ = writeln!(std::io::stdout(), "{line}");
        }
        state.last.push_back(line);
        if state.last.len() > LAST {
            state.last.pop_front();
        }
    }

    /// Counts what is too long to be shown.
    pub(super) fn count(&self, bytes: &[u8]) {
        self.0.lock().hash.write(bytes);
    }

    /// Stands for everything that happened so far.
    pub(super) fn hash(&self) -> u64 {
        self.0.lock().hash.finish()
    }

    pub(super) fn last(&self) -> Vec<String> {
        self.0.lock().last.iter().cloned().collect()
    }
}
