//! Panics of this thread: whoever catches them, they are faults.

use std::cell::RefCell;
use std::panic;

thread_local! {
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Has panics taken down instead of told.
pub(super) fn watch() {
    panic::set_hook(Box::new(|panic| LAST.with(|last| *last.borrow_mut() = Some(panic.to_string()))));
}

/// The last panic since this was last asked.
pub(super) fn take() -> Option<String> {
    LAST.with(|last| last.borrow_mut().take())
}
