//! `setpoint user create`: a credential for somebody, in a kubeconfig that is ready to use.

use std::net::IpAddr;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use http::Uri;
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};
use setpoint_apiserver::authentication::{Credential, TokenDigest, User, group_fault, name_fault};
use setpoint_apiserver::authorization::MASTERS;

use super::Folder;
use super::register::Register;
use crate::kubeconfig::{Access, Proof};
use crate::pki::{Authority, ClientIdentity};
use crate::terminal::{print, remark};
use crate::up::KUBECONFIG;
use crate::{decision_log, token};

/// A name that every certificate of the server has.
const SERVER_NAME: &str = "localhost";

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// The user's name, as roles and records will have it
    name: String,
    /// A group of the user; may be given several times
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// Make a bearer token instead of a client certificate
    #[arg(long)]
    token: bool,
    /// How long the credential is valid, such as 90d or 12h
    #[arg(long, value_name = "TIME", default_value = "365d", value_parser = life)]
    expires: SignedDuration,
    /// The server's address for this user [default: that in the data folder's kubeconfig]
    #[arg(long, value_name = "URL", value_parser = server)]
    server: Option<Uri>,
    #[command(flatten)]
    folder: Folder,
}

enum Secret {
    Token(String),
    Certificate(ClientIdentity),
}

impl Create {
    pub(crate) fn run(self) -> Result<()> {
        self.check_names()?;
        let now = Timestamp::from_second(Timestamp::now().as_second())?;
        let mut register = Register::open(&self.folder.path()?)?;
        if register.roster.users.iter().any(|user| user.name == self.name && user.counts(now)) {
            bail!(
                "user {:?} exists; `setpoint user revoke` takes the credential away, then a new one can be made",
                self.name
            );
        }
        let authority = Authority::load(&register.data)?
            .context("the data folder has no certificate authority yet; `setpoint up` makes it")?;
        let server = match &self.server {
            Some(server) => server.clone(),
            None => server_of(&register)?,
        };
        let (user, secret) = self.issue(&authority, now)?;
        // Nobody gets a credential of which there is no record.
        decision_log::record(register.data.path(), "create user", &self.recorded())?;
        let until = user.expires.map(|end| end.to_string()).unwrap_or_default();
        register.roster.users.push(user);
        // Before anybody sees the credential: what is not listed cannot be revoked.
        register.save(now)?;

        let away = self.server.is_some() && !is_loopback(&server);
        print(&self.kubeconfig(&server, away, &authority, &secret))?;
        self.remarks(&server, &until);
        Ok(())
    }

    fn recorded(&self) -> String {
        let groups = if self.groups.is_empty() { String::new() } else { format!(" in {}", self.groups.join(", ")) };
        format!("{}{groups}", self.name)
    }

    fn check_names(&self) -> Result<()> {
        if let Some(fault) = name_fault(&self.name) {
            bail!("{:?} cannot be a user's name: {fault}", self.name);
        }
        for group in &self.groups {
            if let Some(fault) = group_fault(group) {
                bail!("{group:?} cannot be a group: {fault}");
            }
        }
        Ok(())
    }

    fn issue(&self, authority: &Authority, now: Timestamp) -> Result<(User, Secret)> {
        let (secret, credential, expires) = if self.token {
            let token = token::random();
            let credential = Credential::TokenSha256(TokenDigest::of(&token));
            let end = now.checked_add(self.expires).context("--expires is too long")?;
            (Secret::Token(token), credential, end)
        } else {
            let identity = authority.issue_client(&self.name, &self.groups, self.expires, now)?;
            let (credential, end) = (Credential::CertificateSerial(identity.serial.clone()), identity.not_after);
            (Secret::Certificate(identity), credential, end)
        };
        let (name, groups) = (self.name.clone(), self.groups.clone());
        let user = User { name, groups, credential, created: now, expires: Some(expires), revoked: None };
        Ok((user, secret))
    }

    fn kubeconfig(&self, server: &Uri, away: bool, authority: &Authority, secret: &Secret) -> String {
        let url = server.to_string();
        let access = Access {
            server: url.trim_end_matches('/'),
            // The server does not know under which names it is reached from elsewhere, and its authority signs for
            // nobody else.
            tls_server_name: away.then_some(SERVER_NAME),
            ca_pem: authority.certificate_pem(),
            context: &format!("{}@setpoint", self.name),
            user: &self.name,
            proof: match secret {
                Secret::Token(token) => Proof::Token(token),
                Secret::Certificate(identity) => {
                    Proof::Certificate { certificate_pem: &identity.certificate_pem, key_pem: &identity.key_pem }
                }
            },
        };
        access.to_string()
    }

    fn remarks(&self, server: &Uri, until: &str) {
        let name = &self.name;
        let kind = if self.token { "token" } else { "certificate" };
        remark(&format!(
            "created user {name:?}; the {kind} in this kubeconfig is kept nowhere else and is valid until {until}"
        ));
        if self.groups.iter().any(|group| group == MASTERS) {
            remark(&format!(
                "warning: whoever is in {MASTERS} may do everything, and no role or binding can change that"
            ));
        } else {
            remark("give rights with a binding, such as:");
            let (binding, name) = (quoted(&format!("{name}-view")), quoted(name));
            remark(&format!("  kubectl create clusterrolebinding {binding} --clusterrole=view --user={name}"));
        }
        if is_loopback(server) {
            remark("note: the address in this kubeconfig is for this machine alone; --server names another");
        }
    }
}

/// A text as one word of a shell's command.
fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._@:+".contains(&byte);
    if text.bytes().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// The address in the data folder's own kubeconfig.
fn server_of(register: &Register) -> Result<Uri> {
    let missing =
        || anyhow!("the data folder has no address of a server; start `setpoint up`, or name one with --server");
    let text = register.data.read(KUBECONFIG)?.ok_or_else(missing)?;
    let config: serde_json::Value = serde_saphyr::from_str(&text).map_err(|_| missing())?;
    let address = config["clusters"][0]["cluster"]["server"].as_str().ok_or_else(missing)?;
    server(address).map_err(anyhow::Error::msg)
}

fn server(text: &str) -> Result<Uri, String> {
    let wrong = || "an address is like https://cluster.example:6440".to_owned();
    let uri: Uri = text.parse().map_err(|_| wrong())?;
    let is_plain = uri.path() == "/" && uri.query().is_none();
    (uri.scheme_str() == Some("https") && is_plain).then_some(uri).ok_or_else(wrong)
}

fn is_loopback(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn life(text: &str) -> Result<SignedDuration, String> {
    let wrong = || "a time is a number and a unit, such as 90d, 12h or 30m".to_owned();
    let span: Span = text.parse().map_err(|_| wrong())?;
    let life = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| wrong())?;
    if life < SignedDuration::from_secs(1) {
        return Err("a credential has to be valid for at least a second".to_owned());
    }
    Ok(life)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_a_number_and_a_unit() {
        let hours = |hours: i64| Some(SignedDuration::from_hours(hours));
        let rows = [
            ("90d", hours(90 * 24)),
            ("2w", hours(2 * 7 * 24)),
            ("12h", hours(12)),
            ("60m", hours(1)),
            ("3600s", hours(1)),
            ("1d12h", hours(36)),
            ("0s", None),
            ("-1d", None),
            ("1y", None),
            ("90", None),
            ("", None),
            ("soon", None),
            ("99999999999999999999d", None),
        ];
        for (text, expected) in rows {
            assert_eq!(life(text).ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn what_a_shell_would_interpret_is_quoted() {
        let rows = [("jane@example.com", "jane@example.com"), ("a b", "'a b'"), ("o'x; reboot", r"'o'\''x; reboot'")];
        for (text, expected) in rows {
            assert_eq!(quoted(text), expected);
        }
    }

    #[test]
    fn a_server_is_an_https_address() {
        let rows = [
            ("https://127.0.0.1:6440", Some(true)),
            ("https://[::1]:6440", Some(true)),
            ("https://localhost", Some(true)),
            ("https://cluster.example:6440/", Some(false)),
            ("http://127.0.0.1:6440", None),
            ("127.0.0.1:6440", None),
            ("https://a.example/path", None),
            ("https://a.example?query", None),
            ("https://", None),
            ("", None),
        ];
        for (text, loopback) in rows {
            assert_eq!(server(text).ok().map(|server| is_loopback(&server)), loopback, "{text:?}");
        }
    }
}
