//! Whom an environment tells that a person is needed.

use std::net::{Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SecretReference;
use crate::field::{Errors, Path};
use crate::names;
use crate::rules;

const MAX_URL: usize = 2_048;
const MAX_WORDS: usize = 64;
const MAX_WORD: usize = 4_096;

/// Who is told, once on each occasion: a gate waits for people, a Machine drifted, a budget is used up.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Notifications {
    /// An address that is sent a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
    /// A program and its arguments, run where the control plane runs, with the JSON object on its standard input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 4_096)))]
    pub command: Vec<String>,
}

/// An address that is told by HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// Where to send it, with POST. With a token, it is `https`, or on this machine.
    #[schemars(length(min = 1, max = 2_048), regex(pattern = r"^https?://"))]
    pub url: String,
    /// The Secret whose key `token` is sent along as a bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
}

impl Notifications {
    pub(super) fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        if let Some(webhook) = &self.webhook {
            webhook.validate(&path.field("webhook"), errors);
        }
        let command = path.field("command");
        rules::count(&command, self.command.len(), MAX_WORDS, errors);
        for (index, word) in self.command.iter().enumerate().take(MAX_WORDS) {
            let path = command.index(index);
            if word.is_empty() {
                errors.required(&path, "");
            }
            if word.contains('\0') {
                errors.invalid(&path, "", "must not contain a zero byte");
            }
            rules::length(&path, word, MAX_WORD, errors);
        }
    }
}

impl Webhook {
    fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        let url_path = path.field("url");
        rules::one_line(&url_path, &self.url, MAX_URL, errors);
        let rest = self.url.strip_prefix("https://").or_else(|| self.url.strip_prefix("http://"));
        let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
        match host {
            // What is said of it would be told with it.
            Some(host) if host.contains('@') => {
                errors.invalid(&url_path, "", "must not hold credentials: name a Secret in secretRef");
            }
            Some(host) if !host.is_empty() && !self.url.contains(char::is_whitespace) => {}
            _ => errors.invalid(&url_path, &self.url, "must be an address such as \"https://example.com/hook\""),
        }
        if let Some(secret) = &self.secret_ref {
            let is_plain = !self.url.starts_with("https://");
            if is_plain && !host.is_some_and(is_loopback) {
                errors.invalid(
                    &url_path,
                    "",
                    "must begin with https:// where secretRef is set, lest the token be read",
                );
            }
            let path = path.field("secretRef");
            rules::name(&path.field("namespace"), &secret.namespace, names::dns1123_label, errors);
            rules::object_name(&path.field("name"), &secret.name, errors);
        }
    }
}

/// Whether an address, which may have a port, is this machine's own.
fn is_loopback(host: &str) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        let (address, port) = rest.split_once(']').unwrap_or_default();
        let is_port = port.is_empty() || port.starts_with(':');
        return is_port && address.parse().is_ok_and(|address: Ipv6Addr| address.is_loopback());
    }
    let name = host.split_once(':').map_or(host, |(name, _)| name);
    name == "localhost" || name.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_told_is_refused() {
        let webhook = |url: &str| Notifications {
            webhook: Some(Webhook { url: url.to_owned(), secret_ref: None }),
            ..Notifications::default()
        };
        let with_token = |url: &str| {
            let secret_ref = Some(SecretReference { namespace: "ops".to_owned(), name: "hook".to_owned() });
            Notifications { webhook: Some(Webhook { url: url.to_owned(), secret_ref }), ..Notifications::default() }
        };
        let command = |words: &[&str]| Notifications {
            command: words.iter().map(|word| (*word).to_owned()).collect(),
            ..Notifications::default()
        };
        let rows = [
            ("nobody is told", Notifications::default(), true),
            ("an address", webhook("https://example.com/hook?room=1"), true),
            ("an address without TLS", webhook("http://127.0.0.1:8080"), true),
            ("an address elsewhere without TLS", webhook("http://example.com"), true),
            ("a token with TLS", with_token("https://example.com"), true),
            ("a token without TLS", with_token("http://example.com"), false),
            ("a token without TLS to this machine", with_token("http://localhost:8080/hook"), true),
            ("a token without TLS to this machine's address", with_token("http://127.0.0.1:8080"), true),
            ("a token without TLS to this machine's other address", with_token("http://[::1]:8080"), true),
            ("a token to what only begins like this machine", with_token("http://127.0.0.1.example.com"), false),
            ("a token to what only looks like this machine", with_token("http://[::1].example.com"), false),
            ("a token to what is no address", with_token("http://[::1"), false),
            ("a token to an address as a number", with_token("http://2130706433"), false),
            ("no scheme", webhook("example.com"), false),
            ("no host", webhook("https:///hook"), false),
            ("credentials in the address", webhook("https://me:secret@example.com"), false),
            ("a space", webhook("https://example.com/a b"), false),
            ("a command", command(&["/usr/bin/notify", "gate"]), true),
            ("an empty word", command(&[""]), false),
            ("a zero byte", command(&["a\0b"]), false),
        ];
        for (name, notifications, is_sound) in rows {
            let mut errors = Errors::default();
            notifications.validate(&Path::of("spec"), &mut errors);
            assert_eq!(errors.is_empty(), is_sound, "{name}");
        }
    }
}
