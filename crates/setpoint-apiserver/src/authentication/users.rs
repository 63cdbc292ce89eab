//! The people this server knows: those it was told of when it started, and those of a file that may change meanwhile.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use subtle::ConstantTimeEq;
use tokio::sync::watch;

use super::directory::Directory;
use super::roster_file::{FileError, RosterFile};
use super::{Caller, ClientCertificate, Credential, Identity, Standing, TokenDigest};

/// How often the file is looked at for those who do not ask: open watches.
const LOOK: Duration = Duration::from_millis(500);

/// The longest sleep towards a point in time; clocks may be set meanwhile.
const DOZE: Duration = Duration::from_secs(60);

/// Everybody with a credential. Keeps digests only.
#[derive(Debug)]
pub struct Users {
    tokens: Vec<(TokenDigest, Arc<Identity>)>,
    file: Option<RosterFile>,
    directory: watch::Sender<Arc<Directory>>,
}

impl Users {
    /// Those who hold these tokens, for as long as the server runs.
    pub fn new(tokens: impl IntoIterator<Item = (String, Identity)>) -> Users {
        let tokens = tokens.into_iter().map(|(token, identity)| (TokenDigest::of(&token), Arc::new(identity.proved())));
        Users { tokens: tokens.collect(), file: None, directory: watch::Sender::default() }
    }

    /// And those of a file, as it is when somebody asks. A file that is not sound is refused here; later, what it last
    /// said when it was sound goes on, and the log says why.
    pub fn with_file(self, path: impl Into<std::path::PathBuf>) -> Result<Users, FileError> {
        let (file, roster) = RosterFile::open(path.into())?;
        Ok(Users { file: Some(file), directory: watch::Sender::new(Arc::new(Directory::new(roster))), ..self })
    }

    /// Who holds a token.
    pub fn by_token(&self, token: &str) -> Option<Caller> {
        let digest = TokenDigest::of(token);
        // Every one of these few is compared, so that the time taken does not tell which one came close.
        let mut found = None;
        for (known, identity) in &self.tokens {
            if bool::from(known.as_bytes().ct_eq(digest.as_bytes())) {
                found = Some(identity);
            }
        }
        if let Some(identity) = found {
            return Some(Caller::new(identity.clone(), Standing::default()));
        }
        self.refresh();
        let directory = self.directory.borrow().clone();
        let (identity, ends) = directory.token(&digest)?;
        let standing = Standing { credential: Some(Credential::TokenSha256(digest)), expires: None, token: None };
        (Timestamp::now() < ends).then(|| Caller::new(identity.clone(), standing))
    }

    /// Whom a certificate names, if it still counts.
    pub fn by_certificate(&self, certificate: &ClientCertificate) -> Option<Caller> {
        self.refresh();
        let standing = Standing {
            credential: Some(Credential::CertificateSerial(certificate.serial.clone())),
            expires: Some(certificate.not_after),
            token: None,
        };
        let ends = standing.ends(&self.directory.borrow());
        (Timestamp::now() < ends).then(|| Caller::new(certificate.identity.clone(), standing))
    }

    /// Resolves when what a caller is let in for has expired or is revoked, if it ever is.
    pub fn lapse(&self, standing: Standing) -> impl Future<Output = ()> + Send + use<> {
        let mut directory = self.directory.subscribe();
        async move {
            loop {
                let ends = standing.ends(&directory.borrow_and_update());
                let left = Timestamp::now().duration_until(ends);
                if !left.is_positive() {
                    return;
                }
                let end = async {
                    match Duration::try_from(left) {
                        Ok(left) if ends < Timestamp::MAX => tokio::time::sleep(left.min(DOZE)).await,
                        _ => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = end => {}
                    changed = directory.changed() => if changed.is_err() { return },
                }
            }
        }
    }

    /// Looks at the file again and again, for those who hold a connection and do not ask.
    pub async fn follow_file(&self) {
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while self.file.is_some() {
            looks.tick().await;
            self.refresh();
        }
    }

    /// Takes the file as it is now.
    fn refresh(&self) {
        if let Some(file) = &self.file {
            file.if_changed(|roster| drop(self.directory.send_replace(Arc::new(Directory::new(roster)))));
        }
    }
}

impl Standing {
    /// When a caller with this standing is no longer let in.
    fn ends(&self, directory: &Directory) -> Timestamp {
        let listed = self.credential.as_ref().map_or(Timestamp::MAX, |credential| directory.ends(credential));
        listed.min(self.expires.unwrap_or(Timestamp::MAX))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tempfile::TempDir;

    use super::*;
    use crate::authentication::roster_file::tests::{folder, write};
    use crate::authentication::{Roster, Serial, User};

    fn roster(users: &[(&str, Credential, Option<Timestamp>)]) -> String {
        let user = |(name, credential, revoked): &(&str, Credential, Option<Timestamp>)| User {
            name: (*name).to_owned(),
            groups: Vec::new(),
            credential: credential.clone(),
            created: Timestamp::UNIX_EPOCH,
            expires: None,
            revoked: *revoked,
        };
        let mut roster = Roster::default();
        roster.users.extend(users.iter().map(user));
        roster.text()
    }

    fn token(text: &str) -> Credential {
        Credential::TokenSha256(TokenDigest::of(text))
    }

    fn serial() -> Serial {
        Serial::from_bytes(&[0x8f, 0x01])
    }

    fn certificate(not_after: Timestamp) -> ClientCertificate {
        ClientCertificate { identity: Arc::new(Identity::new("jane", ["dev"])), serial: serial(), not_after }
    }

    fn with_file(text: &str) -> (TempDir, std::path::PathBuf, Users) {
        let (folder, path) = folder();
        write(&path, text);
        let users = Users::new([("root".to_owned(), Identity::new("admin", ["system:masters"]))]);
        let users = users.with_file(&path).expect("the file is sound");
        (folder, path, users)
    }

    fn user_of(users: &Users, token: &str) -> Option<String> {
        users.by_token(token).map(|caller| caller.identity.user.clone())
    }

    #[test]
    fn only_a_known_token_is_let_in() {
        let admin = Identity::new("admin", ["system:masters"]);
        let users = Users::new([("right".to_owned(), admin.clone())]);
        let proved = admin.proved();
        for (token, known) in [("right", true), ("wrong", false), ("", false), ("right ", false)] {
            let caller = users.by_token(token);
            assert_eq!(caller.map(|caller| caller.identity).as_deref(), known.then_some(&proved), "{token:?}");
        }
    }

    #[test]
    fn tokens_are_not_shown() {
        let users = Users::new([("s3cret".to_owned(), Identity::new("a", ["g"]))]);
        assert!(!format!("{users:?}").contains("s3cret"));
    }

    #[test]
    fn a_change_of_the_file_counts_for_the_next_request() {
        let (_folder, path, users) = with_file(&roster(&[("jane", token("a"), None)]));
        assert_eq!(user_of(&users, "a").as_deref(), Some("jane"));
        assert_eq!(user_of(&users, "b"), None);
        write(&path, &roster(&[("jane", token("a"), None), ("joe", token("b"), None)]));
        assert_eq!(user_of(&users, "b").as_deref(), Some("joe"));
        write(&path, &roster(&[("jane", token("a"), Some(Timestamp::UNIX_EPOCH)), ("joe", token("b"), None)]));
        assert_eq!((user_of(&users, "a"), user_of(&users, "b").as_deref()), (None, Some("joe")));
    }

    #[test]
    fn a_damaged_file_changes_nothing_and_locks_nobody_out() {
        let (_folder, path, users) = with_file(&roster(&[("jane", token("a"), None)]));
        type Damage = fn(&Path);
        let damage: [(&str, Damage); 3] = [
            ("half a file", |path| write(path, "{\"version\": 1,")),
            ("nothing in it", |path| write(path, "")),
            ("no file", |path| std::fs::remove_file(path).expect("it is there")),
        ];
        for (row, damage) in damage {
            damage(&path);
            assert_eq!(user_of(&users, "a").as_deref(), Some("jane"), "{row}");
            assert_eq!(user_of(&users, "root").as_deref(), Some("admin"), "{row}");
            write(&path, &roster(&[("joe", token("b"), None), ("jane", token("a"), None)]));
            assert_eq!(user_of(&users, "b").as_deref(), Some("joe"), "{row}, and repaired");
        }
    }

    #[test]
    fn a_certificate_counts_until_it_ends_or_is_revoked() {
        let hour = jiff::SignedDuration::from_hours(1);
        let (_folder, path, users) = with_file(&roster(&[]));
        let (valid, expired) = (certificate(Timestamp::now() + hour), certificate(Timestamp::now() - hour));
        assert_eq!(users.by_certificate(&valid).expect("it counts").identity.user, "jane");
        assert!(users.by_certificate(&expired).is_none(), "it has expired since the connection was made");
        let revoked = Credential::CertificateSerial(serial());
        write(&path, &roster(&[("jane", revoked, Some(Timestamp::UNIX_EPOCH))]));
        assert!(users.by_certificate(&valid).is_none());
    }

    #[tokio::test]
    async fn whoever_is_revoked_lapses_without_asking() {
        let (_folder, path, users) = with_file(&roster(&[("jane", token("a"), None)]));
        let users = Arc::new(users);
        let follower = tokio::spawn({
            let users = users.clone();
            async move { users.follow_file().await }
        });
        let lapse = |token: &str| tokio::spawn(users.lapse(users.by_token(token).expect("it is known").standing));
        let (jane, admin) = (lapse("a"), lapse("root"));
        write(&path, &roster(&[("jane", token("a"), Some(Timestamp::UNIX_EPOCH))]));
        tokio::time::timeout(Duration::from_secs(10), jane).await.expect("it lapses").expect("no panic");
        assert!(!admin.is_finished(), "others go on");
        follower.abort();
        admin.abort();
    }

    #[tokio::test]
    async fn whose_certificate_expires_lapses() {
        let users = Users::new([]);
        let end = Timestamp::now() + jiff::SignedDuration::from_millis(20);
        let lapse = users.lapse(users.by_certificate(&certificate(end)).expect("it counts").standing);
        tokio::time::timeout(Duration::from_secs(10), lapse).await.expect("it lapses");
        assert!(Timestamp::now() >= end);
    }
}
