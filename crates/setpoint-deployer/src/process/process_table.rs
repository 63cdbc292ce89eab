//! The kernel's table of processes: who is who, and who came from whom.
//!
//! A number alone is no name: it is given to another process once its own has ended. With the time of its start it is one.

use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

/// A process, told apart from all others that had its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    pub pid: u32,
    /// In clock ticks since the machine started.
    pub start_time: u64,
}

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub identity: Identity,
    pub parent: u32,
    pub session: u32,
    /// It has ended, and its parent has not asked how.
    pub is_zombie: bool,
}

impl Identity {
    /// The process that has this number now.
    pub fn of(pid: u32) -> io::Result<Identity> {
        entry(pid).map(|entry| entry.identity)
    }

    /// Whether it still runs.
    pub fn is_alive(self) -> bool {
        entry(self.pid).is_ok_and(|entry| entry.identity == self && !entry.is_zombie)
    }
}

/// What the table says of one process.
pub fn entry(pid: u32) -> io::Result<Entry> {
    let text = fs::read(format!("/proc/{pid}/stat"))?;
    parse(&String::from_utf8_lossy(&text)).ok_or_else(|| io::Error::other("the table of processes cannot be read"))
}

/// The whole table. What ends while it is read may be missing.
pub fn entries() -> io::Result<Vec<Entry>> {
    let pids = fs::read_dir("/proc")?.filter_map(|file| file.ok()?.file_name().to_str()?.parse().ok());
    Ok(pids.filter_map(|pid| entry(pid).ok()).collect())
}

/// Those that came from a process, directly or not, in no order.
pub fn descendants(entries: &[Entry], of: u32) -> Vec<Entry> {
    let mut found: Vec<Entry> = Vec::new();
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        let children = entries.iter().filter(|entry| entry.parent == parent && entry.identity.pid != parent);
        for child in children {
            parents.push(child.identity.pid);
            found.push(*child);
        }
    }
    found
}

/// Whether a process was started with a variable of exactly this value.
pub fn has_variable(pid: u32, name: &str, value: &str) -> bool {
    let wanted = format!("{name}={value}");
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
}

/// `pid (name) state parent group session …`, where the name may hold anything.
fn parse(text: &str) -> Option<Entry> {
    let (pid, rest) = text.split_once(" (")?;
    let (_, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    Some(Entry {
        identity: Identity { pid: pid.parse().ok()?, start_time: fields.get(19)?.parse().ok()? },
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        is_zombie: matches!(*fields.first()?, "Z" | "X"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whatever_the_process_is_called() {
        let tail = "1 40 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 9 10";
        for name in ["sh", "a b", ") R 9 (", ""] {
            let entry = parse(&format!("42 ({name}) S {tail}")).unwrap();
            assert_eq!(entry.identity, Identity { pid: 42, start_time: 777 }, "{name}");
            assert_eq!((entry.parent, entry.session, entry.is_zombie), (1, 41, false), "{name}");
        }
        for bad in ["", "42", "42 (sh", "42 (sh) S 1", "x (sh) S 1"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn we_are_in_the_table() {
        let own = Identity::of(std::process::id()).unwrap();
        assert!(own.is_alive());
        assert!(!Identity { start_time: own.start_time + 1, ..own }.is_alive());
        assert!(entries().unwrap().iter().any(|entry| entry.identity == own));
    }

    #[test]
    fn descendants_are_found_at_any_depth() {
        let entry =
            |pid, parent| Entry { identity: Identity { pid, start_time: 0 }, parent, session: pid, is_zombie: false };
        let table = [entry(1, 0), entry(2, 1), entry(3, 2), entry(4, 3), entry(5, 1)];
        let mut found: Vec<u32> = descendants(&table, 2).iter().map(|entry| entry.identity.pid).collect();
        found.sort();
        assert_eq!(found, [3, 4]);
    }
}
