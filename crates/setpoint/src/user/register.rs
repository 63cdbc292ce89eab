//! The roster of a data folder, held by one command at a time.

use std::path::Path;

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use setpoint_apiserver::authentication::{Credential, FileError, Roster, User, read_roster};

use crate::data_dir::DataDir;
use crate::issuer;
use crate::pki::CA_CERTIFICATE;

/// The file that the server reads.
pub(crate) const USERS: &str = "users.json";
/// Held by whoever changes the roster; the folder's own lock is the server's.
const LOCK: &str = "users.lock";

/// How long somebody who can no longer come in stays listed.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(30 * 24);

/// A data folder's roster. Nobody else changes it meanwhile.
pub(super) struct Register {
    pub(super) data: DataDir,
    pub(super) roster: Roster,
}

impl Register {
    pub(super) fn open(folder: &Path) -> Result<Register> {
        let data = DataDir::open_beside_server(folder, LOCK)?;
        let roster = match read_roster(&data.file(USERS)) {
            Err(FileError::Gone { .. }) if is_new(&data) => Roster::default(),
            roster => roster?,
        };
        Ok(Register { data, roster })
    }

    /// Writes the roster, without those whom nobody needs to know of any more.
    pub(super) fn save(&mut self, now: Timestamp) -> Result<()> {
        self.roster.users.retain(|user| !is_forgettable(user, now));
        self.data.write(USERS, &self.roster.text())
    }
}

/// Makes the roster of a folder that never had one.
pub(crate) fn make_roster(folder: &Path) -> Result<()> {
    if folder.join(USERS).exists() {
        return Ok(());
    }
    let mut register = Register::open(folder)?;
    register.save(Timestamp::now())
}

/// Whether nobody can have been given access to a folder yet: that takes an authority, and whoever acts there makes the
/// roster, and then the issuer's keys. So a roster that is missing beside both is lost, and to begin anew would let in whoever
/// was revoked.
fn is_new(data: &DataDir) -> bool {
    !data.file(issuer::KEYS).exists() || !data.file(CA_CERTIFICATE).exists()
}

/// A certificate that is revoked has to stay until it has expired, by any clock; a revoked token is as good as none.
fn is_forgettable(user: &User, now: Timestamp) -> bool {
    let over = match (&user.credential, user.revoked) {
        (Credential::TokenSha256(_), Some(revoked)) => Some(revoked),
        _ => user.expires,
    };
    over.is_some_and(|over| now.duration_since(over) > REMEMBERED)
}

#[cfg(test)]
mod tests {
    use setpoint_apiserver::authentication::{Serial, TokenDigest};

    use super::*;

    #[test]
    fn a_roster_is_made_once_and_is_missed_when_it_is_gone() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data = DataDir::open(folder.path()).expect("nobody uses it");
        // What a server had that knew no users.
        data.write("ca.crt", "").expect("the folder is writable");
        make_roster(folder.path()).expect("it is made");
        assert!(data.file(USERS).exists());
        std::fs::remove_file(data.file(USERS)).expect("it is there");
        make_roster(folder.path()).expect("the first start did not get further");
        issuer::open(&data).expect("a key is made");
        make_roster(folder.path()).expect("it is there");
        std::fs::remove_file(data.file(USERS)).expect("it is there");
        let errors = [make_roster(folder.path()).err(), Register::open(folder.path()).err()];
        for error in errors.map(|error| error.expect("who was revoked would come back").to_string()) {
            assert!(error.contains("users.json is gone, and with it"), "{error}");
        }
        assert!(!data.file(USERS).exists(), "nothing hides the loss");
    }

    #[test]
    fn only_what_can_do_no_harm_is_forgotten() {
        let now: Timestamp = "2026-06-01T00:00:00Z".parse().expect("a time");
        let days = |days: i64| now - SignedDuration::from_hours(24 * days);
        let token = Credential::TokenSha256(TokenDigest::of("a"));
        let certificate = Credential::CertificateSerial(Serial::from_bytes(&[1]));
        let rows = [
            ("a token without an end", &token, None, None, false),
            ("a token that expired yesterday", &token, Some(days(1)), None, false),
            ("a token that expired long ago", &token, Some(days(31)), None, true),
            ("a token that was revoked yesterday", &token, None, Some(days(1)), false),
            ("a token that was revoked long ago", &token, Some(days(-100)), Some(days(31)), true),
            ("a certificate that expired long ago", &certificate, Some(days(31)), None, true),
            ("a revoked certificate that is still valid", &certificate, Some(days(-100)), Some(days(200)), false),
            ("a revoked certificate that expired yesterday", &certificate, Some(days(1)), Some(days(200)), false),
            ("a revoked certificate that expired long ago", &certificate, Some(days(31)), Some(days(200)), true),
            ("a revoked certificate whose end nobody knows", &certificate, None, Some(days(999)), false),
        ];
        for (row, credential, expires, revoked, forgotten) in rows {
            let user = User {
                name: "jane".to_owned(),
                groups: Vec::new(),
                credential: credential.clone(),
                created: days(400),
                expires,
                revoked,
            };
            assert_eq!(is_forgettable(&user, now), forgotten, "{row}");
        }
    }
}
