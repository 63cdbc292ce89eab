//! Finding who holds a credential.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use subtle::ConstantTimeEq;

use super::{Credential, Identity, Roster, Serial, TokenDigest};

/// A roster, by credential. A lookup costs the same for one user and for ten thousand.
#[derive(Default)]
pub(super) struct Directory {
    /// The first half of a token's digest finds its holder; the second is compared in constant time. How long the
    /// finding takes may tell something of a digest, but nothing of a token: to try tokens whose digests begin alike, one
    /// has to find them first, which is what SHA-256 prevents.
    tokens: HashMap<[u8; 16], Holder>,
    serials: HashMap<Serial, Timestamp>,
}

struct Holder {
    second_half: [u8; 16],
    identity: Arc<Identity>,
    ends: Timestamp,
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (tokens, certificates) = (self.tokens.len(), self.serials.len());
        f.debug_struct("Directory").field("tokens", &tokens).field("certificates", &certificates).finish()
    }
}

impl Directory {
    pub(super) fn new(roster: Roster) -> Directory {
        let mut directory = Directory::default();
        for user in roster.users {
            let ends = user.ends();
            match user.credential {
                Credential::TokenSha256(digest) => {
                    let (first_half, second_half) = halves(&digest);
                    let identity = Arc::new(Identity::new(user.name, user.groups).proved());
                    directory.tokens.insert(first_half, Holder { second_half, identity, ends });
                }
                Credential::CertificateSerial(serial) => {
                    directory.serials.insert(serial, ends);
                }
            }
        }
        directory
    }

    /// Who holds a token, and until when.
    pub(super) fn token(&self, digest: &TokenDigest) -> Option<(&Arc<Identity>, Timestamp)> {
        let (first_half, second_half) = halves(digest);
        let holder = self.tokens.get(&first_half)?;
        bool::from(holder.second_half.ct_eq(&second_half)).then_some((&holder.identity, holder.ends))
    }

    /// When a credential ceases to count, as far as the roster says: long ago if it is revoked. A certificate need not
    /// stand in it, since it proves itself; a token must.
    pub(super) fn ends(&self, credential: &Credential) -> Timestamp {
        match credential {
            Credential::TokenSha256(digest) => self.token(digest).map_or(Timestamp::MIN, |(_, ends)| ends),
            Credential::CertificateSerial(serial) => self.serials.get(serial).copied().unwrap_or(Timestamp::MAX),
        }
    }
}

fn halves(digest: &TokenDigest) -> ([u8; 16], [u8; 16]) {
    let (first, second) = digest.as_bytes().split_at(16);
    let half = |bytes: &[u8]| bytes.try_into().expect("half of 32 bytes");
    (half(first), half(second))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authentication::User;

    fn user(name: &str, credential: Credential) -> User {
        let created = Timestamp::UNIX_EPOCH;
        User {
            name: name.to_owned(),
            groups: vec!["dev".to_owned()],
            credential,
            created,
            expires: None,
            revoked: None,
        }
    }

    fn token(text: &str) -> Credential {
        Credential::TokenSha256(TokenDigest::of(text))
    }

    fn directory(users: impl IntoIterator<Item = User>) -> Directory {
        let mut roster = Roster::default();
        roster.users.extend(users);
        Directory::new(roster)
    }

    #[test]
    fn a_token_finds_its_holder_among_ten_thousand() {
        let users = (0..10_000).map(|number| user(&format!("user-{number}"), token(&format!("token-{number}"))));
        let directory = directory(users);
        for number in [0, 4_711, 9_999] {
            let digest = TokenDigest::of(&format!("token-{number}"));
            let (identity, ends) = directory.token(&digest).expect("it is known");
            assert_eq!((identity.user.as_str(), ends), (format!("user-{number}").as_str(), Timestamp::MAX));
        }
        for unknown in ["", "token-", "token-10000", "token-0 "] {
            assert!(directory.token(&TokenDigest::of(unknown)).is_none(), "{unknown:?}");
        }
    }

    #[test]
    fn half_a_digest_is_not_enough() {
        let mut directory = directory([user("jane", token("right"))]);
        for holder in directory.tokens.values_mut() {
            holder.second_half[15] ^= 1;
        }
        assert!(directory.token(&TokenDigest::of("right")).is_none());
    }

    #[test]
    fn what_is_revoked_has_ended() {
        let serial = |byte: u8| Credential::CertificateSerial(Serial::from_bytes(&[byte]));
        let revoked = |user: User| User { revoked: Some(Timestamp::UNIX_EPOCH), ..user };
        let end: Timestamp = "2027-01-01T00:00:00Z".parse().expect("a time");
        let expiring = |user: User| User { expires: Some(end), ..user };
        let directory = directory([
            user("a", token("a")),
            revoked(user("b", token("b"))),
            expiring(user("c", token("c"))),
            user("d", serial(1)),
            revoked(user("e", serial(2))),
            expiring(user("f", serial(3))),
        ]);
        let rows = [
            ("a token", token("a"), Timestamp::MAX),
            ("a revoked token", token("b"), Timestamp::MIN),
            ("a token with an end", token("c"), end),
            ("a token that is not listed", token("x"), Timestamp::MIN),
            ("a certificate", serial(1), Timestamp::MAX),
            ("a revoked certificate", serial(2), Timestamp::MIN),
            ("a certificate with an end", serial(3), end),
            ("a certificate that is not listed", serial(4), Timestamp::MAX),
        ];
        for (row, credential, expected) in rows {
            assert_eq!(directory.ends(&credential), expected, "{row}");
        }
    }

    #[test]
    fn nobody_is_shown() {
        let directory = directory([user("jane", token("s3cret"))]);
        assert_eq!(format!("{directory:?}"), "Directory { tokens: 1, certificates: 0 }");
    }
}
