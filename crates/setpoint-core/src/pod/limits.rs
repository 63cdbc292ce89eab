//! How long the command line and the variables of a process may be.
//!
//! Linux refuses to start a process with more. Values that refer to other values can grow without bound, so the bytes are
//! counted while the values are made: nothing longer than a limit is ever put together.

use thiserror::Error;

/// The most bytes of one argument, or of one variable with its name (`MAX_ARG_STRLEN` of Linux, its final NUL included).
pub const MAX_STRING_BYTES: usize = 128 << 10;

/// The most bytes of a process's command line and variables together (`ARG_MAX` of Linux).
pub const MAX_PROCESS_BYTES: usize = 2 << 20;

/// What is kept of that for the variables and arguments that the place adds to those of the Pod.
pub const RESERVED_BYTES: usize = 64 << 10;

/// The most bytes of the command lines and variables of all containers of a Pod. Each value that is made counts, also one
/// that another one replaces: this bounds the work as well as the memory.
pub const MAX_POD_BYTES: usize = 8 << 20;

/// The most bytes that the files of a Pod's volumes may have together.
pub const MAX_VOLUME_BYTES: usize = 16 << 20;

/// What a string costs a process besides its bytes: its NUL, and the pointer to it.
const STRING_OVERHEAD: usize = 9;

/// How much of a name is shown.
const SHOWN_BYTES: usize = 64;

/// What is too long. It names no value, which may be secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LimitError {
    #[error(
        "{subject}: the value is too long: Linux gives a process at most {MAX_STRING_BYTES} bytes in one argument or \
         variable, and `$(NAME)` counts with the value of NAME"
    )]
    String { subject: String },
    #[error(
        "{subject}: argument list too long: the container's command, arguments and variables may have {MAX_PROCESS_BYTES} \
         bytes together, {RESERVED_BYTES} of them reserved"
    )]
    Process { subject: String },
    #[error(
        "{subject}: the commands, arguments and variables of all containers of a Pod may have {MAX_POD_BYTES} bytes together"
    )]
    Pod { subject: String },
}

/// The bytes of one process, counted as they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessBytes(usize);

/// The bytes of all processes of a Pod, counted as they come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PodBytes(usize);

impl ProcessBytes {
    /// A process to which the place will add its own.
    pub fn with_reserve() -> ProcessBytes {
        ProcessBytes(RESERVED_BYTES)
    }

    /// A process that has these variables, and will get no others.
    pub fn of_variables<'v>(variables: impl IntoIterator<Item = (&'v String, &'v String)>) -> ProcessBytes {
        let bytes = variables.into_iter().map(|(name, value)| variable_bytes(name, value.len()));
        ProcessBytes(bytes.fold(0, usize::saturating_add))
    }

    /// Adds a string, which `subject` names.
    pub(super) fn add(&mut self, bytes: usize, subject: impl Fn() -> String) -> Result<(), LimitError> {
        if bytes > MAX_STRING_BYTES + STRING_OVERHEAD {
            return Err(LimitError::String { subject: subject() });
        }
        let sum = self.0.saturating_add(bytes);
        if sum > MAX_PROCESS_BYTES {
            return Err(LimitError::Process { subject: subject() });
        }
        self.0 = sum;
        Ok(())
    }

    /// Takes back a string that another one replaces.
    pub(super) fn remove(&mut self, bytes: usize) {
        self.0 = self.0.saturating_sub(bytes);
    }
}

impl PodBytes {
    pub(super) fn add(&mut self, bytes: usize, subject: impl Fn() -> String) -> Result<(), LimitError> {
        self.0 = self.0.saturating_add(bytes);
        if self.0 > MAX_POD_BYTES { Err(LimitError::Pod { subject: subject() }) } else { Ok(()) }
    }
}

/// What `NAME=value` takes of a process.
pub(super) fn variable_bytes(name: &str, value_bytes: usize) -> usize {
    string_bytes(name.len().saturating_add(1).saturating_add(value_bytes))
}

/// What a string takes of a process.
pub(super) fn string_bytes(bytes: usize) -> usize {
    bytes.saturating_add(STRING_OVERHEAD)
}

/// The most bytes that the value of a variable may have.
pub(super) fn room_for_value(name: &str) -> usize {
    MAX_STRING_BYTES.saturating_sub(name.len() + 2)
}

/// The beginning of a text that may be long, for people.
pub fn shortened(text: &str, bytes: usize) -> String {
    match text.char_indices().map(|(at, _)| at).chain([text.len()]).take_while(|at| *at <= bytes).last() {
        Some(end) if end < text.len() => format!("{}…", &text[..end]),
        _ => text.to_owned(),
    }
}

pub(super) fn env_field(name: &str) -> String {
    format!("env[{}]", shortened(name, SHOWN_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_and_a_pod_take_so_much_and_no_more() {
        let subject = || "it".to_owned();
        let mut process = ProcessBytes::of_variables([(&"A".to_owned(), &"1".to_owned())]);
        assert_eq!(process, ProcessBytes(12), "A=1, its end and its pointer");
        assert_eq!(process.add(string_bytes(MAX_STRING_BYTES), subject), Ok(()));
        let too_long = string_bytes(MAX_STRING_BYTES + 1);
        assert_eq!(process.add(too_long, subject), Err(LimitError::String { subject: subject() }));
        process = ProcessBytes(MAX_PROCESS_BYTES - 20);
        assert_eq!(process.add(21, subject), Err(LimitError::Process { subject: subject() }));
        assert_eq!(process.add(20, subject), Ok(()));
        process.remove(5);
        assert_eq!(process.add(5, subject), Ok(()), "what was replaced counts no more");
        let mut pod = PodBytes(MAX_POD_BYTES - 20);
        assert_eq!(pod.add(20, subject), Ok(()));
        assert_eq!(pod.add(1, subject), Err(LimitError::Pod { subject: subject() }));
    }

    #[test]
    fn a_long_text_is_shown_by_its_beginning() {
        let rows = [("abc", 3, "abc"), ("abcd", 3, "abc…"), ("aüü", 2, "a…"), ("", 0, ""), ("ü", 0, "…")];
        for (text, bytes, shown) in rows {
            assert_eq!(shortened(text, bytes), shown, "{text} in {bytes}");
        }
    }
}
