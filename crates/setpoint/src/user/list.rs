//! `setpoint user list`: who was given a credential; never the credential.

use anyhow::Result;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde_json::{Value, json};
use setpoint_apiserver::authentication::{Credential, User};

use super::Folder;
use super::register::Register;
use crate::table::GAP;
use crate::terminal::{aligned, inert, print, remark};

#[derive(Debug, Args)]
pub(crate) struct List {
    /// The form to print them in
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    folder: Folder,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    Table,
    Json,
}

impl List {
    pub(crate) fn run(self) -> Result<()> {
        let register = Register::open(&self.folder.path()?)?;
        let (users, now) = (&register.roster.users, Timestamp::now());
        match self.output {
            Output::Json => {
                let users: Vec<Value> = users.iter().map(|user| json(user, now)).collect();
                print(&format!("{:#}\n", json!(users)))
            }
            Output::Table if users.is_empty() => {
                remark("no users; `setpoint user create NAME` makes one");
                Ok(())
            }
            Output::Table => print(&table(users, now)),
        }
    }
}

fn status(user: &User, now: Timestamp) -> &'static str {
    match user.revoked {
        Some(_) => "revoked",
        None if user.counts(now) => "active",
        None => "expired",
    }
}

fn kind(user: &User) -> &'static str {
    match user.credential {
        Credential::TokenSha256(_) => "token",
        Credential::CertificateSerial(_) => "certificate",
    }
}

fn json(user: &User, now: Timestamp) -> Value {
    let mut shown = json!({
        "name": user.name,
        "groups": user.groups,
        "credential": kind(user),
        "created": user.created,
        "expires": user.expires,
        "revoked": user.revoked,
        "status": status(user, now),
    });
    if let Credential::CertificateSerial(serial) = &user.credential {
        shown["serial"] = json!(serial);
    }
    shown
}

fn table(users: &[User], now: Timestamp) -> String {
    let time = |time: Timestamp| time.strftime("%FT%TZ").to_string();
    let head = ["NAME", "GROUPS", "CREDENTIAL", "CREATED", "EXPIRES", "STATUS"].map(str::to_owned).into();
    let row = |user: &User| {
        let groups = if user.groups.is_empty() { "<none>".to_owned() } else { user.groups.join(",") };
        let expires = user.expires.map_or_else(|| "<never>".to_owned(), time);
        let (credential, status) = (kind(user).to_owned(), status(user, now).to_owned());
        vec![inert(&user.name), inert(&groups), credential, time(user.created), expires, status]
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(users.iter().map(row)).collect();
    aligned(&rows, GAP).iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use setpoint_apiserver::authentication::{Serial, TokenDigest};

    use super::*;

    #[test]
    fn users_are_shown_without_their_secrets() {
        let time = |text: &str| -> Timestamp { text.parse().expect("a time") };
        let user = |name: &str, credential| User {
            name: name.to_owned(),
            groups: vec!["dev".to_owned(), "ops".to_owned()],
            credential,
            created: time("2026-01-01T00:00:00Z"),
            expires: Some(time("2027-01-01T00:00:00Z")),
            revoked: None,
        };
        let token = TokenDigest::of("s3cret");
        let digest = serde_json::to_string(&token).expect("a digest is text").trim_matches('"').to_owned();
        let users = [
            user("jane", Credential::CertificateSerial(Serial::from_bytes(&[0x8f, 1]))),
            User { groups: vec![], expires: None, ..user("j\u{f6}", Credential::TokenSha256(token.clone())) },
            User { revoked: Some(time("2026-02-01T00:00:00Z")), ..user("joe", Credential::TokenSha256(token)) },
        ];
        let now = time("2026-06-01T00:00:00Z");
        let expected = "\
NAME   GROUPS    CREDENTIAL    CREATED                EXPIRES                STATUS
jane   dev,ops   certificate   2026-01-01T00:00:00Z   2027-01-01T00:00:00Z   active
j\u{f6}     <none>    token         2026-01-01T00:00:00Z   <never>                active
joe    dev,ops   token         2026-01-01T00:00:00Z   2027-01-01T00:00:00Z   revoked
";
        assert_eq!(table(&users, now), expected);
        assert_eq!(status(&users[0], time("2028-01-01T00:00:00Z")), "expired");
        let json: Vec<Value> = users.iter().map(|user| json(user, now)).collect();
        assert_eq!(json[0]["serial"], "8f01");
        assert!(!json!(json).to_string().contains(&digest));
    }
}
