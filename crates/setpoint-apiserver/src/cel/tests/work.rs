//! Counting what evaluating does, apart from what it charges for.

use std::cell::Cell;
use std::rc::Rc;

use crate::cel::list::List;
use crate::cel::map::Map;
use crate::cel::value::{Text, Value};

/// What was done since the count began.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::cel) struct Work {
    /// Nodes evaluated and values compared.
    pub steps: u64,
    /// The size of all values made, whether they are still there or not.
    pub bytes: u64,
}

thread_local! {
    static WORK: Cell<Work> = Cell::default();
}

/// Begins to count, and gives what was counted before.
pub(in crate::cel) fn take() -> Work {
    WORK.take()
}

pub(in crate::cel) fn step() {
    let work = WORK.get();
    WORK.set(Work { steps: work.steps + 1, ..work });
}

/// Counts a value that nobody else has yet: one that was just made.
pub(in crate::cel) fn made(value: &Value<'_>) {
    let bytes = match value {
        Value::String(Text::Made(text)) if Rc::strong_count(text) == 1 => text.len(),
        Value::Bytes(bytes) if Rc::strong_count(bytes) == 1 => bytes.len(),
        Value::List(List::Made(items)) if Rc::strong_count(items) == 1 => items.len() * size_of::<Value<'_>>(),
        Value::Map(Map::Made(entries)) if Rc::strong_count(entries) == 1 => entries.len() * 2 * size_of::<Value<'_>>(),
        _ => 0,
    };
    let work = WORK.get();
    WORK.set(Work { bytes: work.bytes + bytes as u64, ..work });
}
