//! The file that says who was given a credential: its form and its rules.

use std::collections::HashSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Credential;

/// The largest file that is read: some 50 000 users.
pub(super) const ROSTER_LIMIT: u64 = 16 << 20;

/// The longest name of a user or a group.
const NAME_LIMIT: usize = 256;
/// The most groups of a user; they have to find room in a certificate.
const GROUPS_LIMIT: usize = 100;
const VERSION: u32 = 1;

/// Everybody who was given a credential. A user may stand here more than once, with a credential each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Roster {
    version: u32,
    pub users: Vec<User>,
}

/// One credential and its holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    pub name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    pub credential: Credential,
    pub created: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Timestamp>,
}

/// Why a file is not taken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RosterError {
    #[error("it is larger than {} MiB", ROSTER_LIMIT >> 20)]
    TooLarge,
    /// Says where, and not what: it may be a token.
    #[error("it is not as docs/users.md describes it at line {line}, column {column}")]
    Form { line: usize, column: usize },
    #[error("its version is {0}, and this binary reads version {VERSION}")]
    Version(u32),
    #[error("its user {index} ({name:?}) is not valid: {fault}")]
    User { index: usize, name: String, fault: &'static str },
}

impl Default for Roster {
    fn default() -> Roster {
        Roster { version: VERSION, users: Vec::new() }
    }
}

impl Roster {
    pub fn parse(text: &[u8]) -> Result<Roster, RosterError> {
        if text.len() as u64 > ROSTER_LIMIT {
            return Err(RosterError::TooLarge);
        }
        let form = |error: serde_json::Error| RosterError::Form { line: error.line(), column: error.column() };
        let roster: Roster = serde_json::from_slice(text).map_err(form)?;
        if roster.version != VERSION {
            return Err(RosterError::Version(roster.version));
        }
        let mut credentials = HashSet::new();
        for (index, user) in roster.users.iter().enumerate() {
            let twice = (!credentials.insert(&user.credential)).then_some("another user has the same credential");
            if let Some(fault) = user.fault().or(twice) {
                return Err(RosterError::User { index, name: user.name.chars().take(NAME_LIMIT).collect(), fault });
            }
        }
        Ok(roster)
    }

    pub fn text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a roster has string keys only");
        text.push('\n');
        text
    }
}

impl User {
    /// What is wrong with it, whoever wrote it.
    fn fault(&self) -> Option<&'static str> {
        let many = (self.groups.len() > GROUPS_LIMIT).then_some("it is in more than 100 groups");
        name_fault(&self.name).or(many).or_else(|| self.groups.iter().find_map(|group| group_fault(group)))
    }

    /// When the credential ceases to count: long ago if it is revoked.
    pub fn ends(&self) -> Timestamp {
        match self.revoked {
            // The time of it does not matter: clocks go backwards, and a revocation must not.
            Some(_) => Timestamp::MIN,
            None => self.expires.unwrap_or(Timestamp::MAX),
        }
    }

    pub fn counts(&self, now: Timestamp) -> bool {
        now < self.ends()
    }
}

/// Why a user cannot be named so.
pub fn name_fault(name: &str) -> Option<&'static str> {
    if name.starts_with("system:") {
        return Some("names that begin with system: are the server's own");
    }
    text_fault(name)
}

/// Why a group cannot be named so.
pub fn group_fault(group: &str) -> Option<&'static str> {
    text_fault(group)
}

fn text_fault(text: &str) -> Option<&'static str> {
    match text {
        _ if text.trim().is_empty() => Some("a name is empty"),
        _ if text.len() > NAME_LIMIT => Some("a name is longer than 256 bytes"),
        _ if text.trim() != text => Some("a name begins or ends with a space"),
        _ if text.chars().any(char::is_control) => Some("a name has control characters"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const DIGEST: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn user(change: impl FnOnce(&mut Value)) -> Value {
        let mut user = json!({
            "name": "jane",
            "groups": ["dev"],
            "credential": {"tokenSha256": DIGEST},
            "created": "2026-01-02T03:04:05Z",
        });
        change(&mut user);
        user
    }

    fn file(users: Value) -> String {
        json!({"version": 1, "users": users}).to_string()
    }

    fn one(change: impl FnOnce(&mut Value)) -> String {
        file(json!([user(change)]))
    }

    #[test]
    fn a_roster_is_read_as_it_was_written() {
        let text = one(|user| {
            user["expires"] = json!("2027-01-02T03:04:05Z");
            user["revoked"] = json!("2026-05-02T03:04:05Z");
        });
        let roster = Roster::parse(text.as_bytes()).expect("it is sound");
        assert_eq!(Roster::parse(roster.text().as_bytes()), Ok(roster));
        assert_eq!(Roster::parse(Roster::default().text().as_bytes()), Ok(Roster::default()));
    }

    #[test]
    fn what_is_not_sound_is_refused() {
        let rows = [
            ("nothing", String::new(), "not as docs/users.md describes it at line 1, column 0"),
            ("cut off", one(|_| ())[..80].to_owned(), "not as docs"),
            ("no object", "[]".to_owned(), "not as docs"),
            ("another version", json!({"version": 2, "users": []}).to_string(), "its version is 2"),
            ("a misspelt field", one(|user| user["expries"] = json!("2027-01-02T03:04:05Z")), "not as docs"),
            ("no credential", one(|user| user["credential"] = json!({})), "not as docs"),
            ("a credential of no kind", one(|user| user["credential"] = json!({"token": "s3cret"})), "not as docs"),
            ("a token itself", one(|user| user["credential"] = json!({"tokenSha256": "s3cret"})), "not as docs"),
            ("a token in its place", one(|user| user["credential"] = json!("s3cret")), "not as docs"),
            ("no time", one(|user| user["created"] = json!("yesterday")), "not as docs"),
            ("no name", one(|user| user["name"] = json!("")), "user 0 (\"\") is not valid: a name is empty"),
            ("a name of the server's", one(|user| user["name"] = json!("system:admin")), "the server's own"),
            ("a name with a line end", one(|user| user["name"] = json!("a\nb")), "control characters"),
            ("a name of spaces", one(|user| user["name"] = json!(" jane")), "begins or ends with a space"),
            ("a long name", one(|user| user["name"] = json!("a".repeat(257))), "longer than 256"),
            ("an empty group", one(|user| user["groups"] = json!([""])), "a name is empty"),
            ("many groups", one(|user| user["groups"] = json!(vec!["g"; 101])), "more than 100 groups"),
            (
                "a credential twice",
                file(json!([user(|_| ()), user(|user| user["name"] = json!("joe"))])),
                "its user 1 (\"joe\") is not valid: another user has the same credential",
            ),
            ("a huge file", " ".repeat(ROSTER_LIMIT as usize + 1), "larger than 16 MiB"),
        ];
        for (row, text, expected) in rows {
            let error = Roster::parse(text.as_bytes()).expect_err(row).to_string();
            assert!(error.contains(expected), "{row}: {error}");
            assert!(!error.contains("s3cret"), "{row}: {error}");
        }
    }

    #[test]
    fn a_user_may_have_several_credentials() {
        let second = user(|user| user["credential"] = json!({"certificateSerial": "8f01"}));
        let roster = Roster::parse(file(json!([user(|_| ()), second])).as_bytes()).expect("it is sound");
        assert_eq!(roster.users.len(), 2);
    }

    #[test]
    fn a_credential_counts_until_it_ends() {
        let now: Timestamp = "2026-06-01T00:00:00Z".parse().expect("a time");
        let rows = [
            ("without an end", None, None, true),
            ("before its end", Some("2026-06-01T00:00:01Z"), None, true),
            ("at its end", Some("2026-06-01T00:00:00Z"), None, false),
            ("revoked", None, Some("2026-05-01T00:00:00Z"), false),
            ("revoked by a clock that was ahead", None, Some("2026-07-01T00:00:00Z"), false),
        ];
        for (row, expires, revoked, counts) in rows {
            let text = one(|user| {
                user["expires"] = json!(expires);
                user["revoked"] = json!(revoked);
            });
            let roster = Roster::parse(text.as_bytes()).expect(row);
            assert_eq!(roster.users[0].counts(now), counts, "{row}");
        }
    }
}
