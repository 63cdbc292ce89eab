//! Acting as somebody else: whom a request wants to be, and what one has to be allowed for that.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use super::identity::{self, ANONYMOUS, AUTHENTICATED, Identity, UNAUTHENTICATED};
use crate::authorization::{Access, Policy};
use crate::failure;

/// The right that every part of another's identity needs.
const VERB: &str = "impersonate";

/// The group of the resources that only exist to be named by rules.
const GROUP: &str = "authentication.k8s.io";

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const UID: HeaderName = HeaderName::from_static("impersonate-uid");
const MEMBERSHIP: HeaderName = HeaderName::from_static("impersonate-group");
const EXTRA_PREFIX: &str = "impersonate-extra-";

/// How many groups and extra values a request may ask for, and how long each name may be. Each is a decision to take.
const PARTS_LIMIT: usize = 128;
const PART_LIMIT_BYTES: usize = 1024;

/// What cannot be asked for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("requested {0} without impersonating a user name")]
    NoUser(String),
    #[error("the header {0} is not text, or is longer than {PART_LIMIT_BYTES} bytes")]
    Unreadable(HeaderName),
    #[error("a request can impersonate no more than {PARTS_LIMIT} groups and extra values")]
    TooMany,
}

/// Who acts as somebody else, and whom they wished to be; they must be allowed that for as long as they do.
#[derive(Debug, Clone)]
pub struct Impersonator {
    pub identity: Arc<Identity>,
    pub wanted: Arc<Identity>,
}

impl Impersonator {
    /// Refuses what a policy does not allow.
    pub fn check(&self, policy: &Policy) -> failure::Result<()> {
        needed(&self.wanted).iter().try_for_each(|access| access.check(policy, &self.identity).map(drop))
    }
}

/// Whom a request wants to be; none if it is content with who it is.
pub fn wanted(headers: &HeaderMap) -> Result<Option<Identity>, Error> {
    let first = |name: HeaderName| headers.get(&name).map_or(Ok(""), |value| text(&name, value));
    let mut wanted = Identity { user: first(USER)?.to_owned(), uid: first(UID)?.to_owned(), ..Identity::default() };
    let mut parts = 0;
    for (name, value) in headers {
        let key = name.as_str().strip_prefix(EXTRA_PREFIX);
        if key.is_none() && name != MEMBERSHIP {
            continue;
        }
        parts += 1;
        if parts > PARTS_LIMIT {
            return Err(Error::TooMany);
        }
        let value = text(name, value)?.to_owned();
        match key {
            Some(key) => wanted.extra.entry(extra_key(key)).or_default().push(value),
            None => wanted.groups.push(value),
        }
    }
    if !wanted.user.is_empty() {
        return Ok(Some(wanted));
    }
    if wanted == Identity::default() { Ok(None) } else { Err(Error::NoUser(in_go_syntax(&wanted))) }
}

/// What one has to be allowed in order to be somebody.
pub fn needed(wanted: &Identity) -> Vec<Access<'_>> {
    let mut needed = vec![match identity::service_account_of(&wanted.user) {
        Some((namespace, name)) => Access::to_object(VERB, ["", "serviceaccounts", ""], name, namespace),
        None => Access::to_object(VERB, ["", "users", ""], &wanted.user, ""),
    }];
    if !wanted.uid.is_empty() {
        needed.push(Access::to_object(VERB, [GROUP, "uids", ""], &wanted.uid, ""));
    }
    needed.extend(wanted.groups.iter().map(|group| Access::to_object(VERB, ["", "groups", ""], group, "")));
    for (key, values) in &wanted.extra {
        needed.extend(values.iter().map(|value| Access::to_object(VERB, [GROUP, "userextras", key], value, "")));
    }
    needed
}

/// The identity that comes of a wish that was granted: with the groups that its user always has. Who names groups says
/// which; only whether somebody proved who they are is added.
pub fn granted(mut wanted: Identity) -> Identity {
    if wanted.groups.is_empty()
        && let Some((namespace, _)) = identity::service_account_of(&wanted.user)
    {
        wanted.groups = identity::service_account_groups(namespace).into();
    }
    if wanted.user == ANONYMOUS {
        wanted.join(UNAUTHENTICATED);
    } else if !wanted.is_in(UNAUTHENTICATED) {
        wanted.join(AUTHENTICATED);
    }
    wanted
}

fn text<'h>(name: &HeaderName, value: &'h HeaderValue) -> Result<&'h str, Error> {
    let text = std::str::from_utf8(value.as_bytes()).ok().filter(|text| text.len() <= PART_LIMIT_BYTES);
    text.ok_or_else(|| Error::Unreadable(name.clone()))
}

/// A key may have what a header's name may not, percent-encoded. One that is not well encoded stands for itself.
fn extra_key(encoded: &str) -> String {
    let is_encoded = |rest: &str| rest.as_bytes().get(..2).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
    if !encoded.split('%').skip(1).all(is_encoded) {
        return encoded.to_owned();
    }
    percent_decode_str(encoded).decode_utf8().map_or_else(|_| encoded.to_owned(), Into::into)
}

/// The wish as Kubernetes repeats it.
fn in_go_syntax(wanted: &Identity) -> String {
    let list = |values: &[String]| {
        let values: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
        if values.is_empty() { "[]string(nil)".to_owned() } else { format!("[]string{{{}}}", values.join(", ")) }
    };
    let extra = |extra: &BTreeMap<String, Vec<String>>| {
        let entries: Vec<String> = extra.iter().map(|(key, values)| format!("{key:?}:{}", list(values))).collect();
        match entries.as_slice() {
            [] => "map[string][]string(nil)".to_owned(),
            entries => format!("map[string][]string{{{}}}", entries.join(", ")),
        }
    };
    let Identity { user, uid, groups, extra: facts } = wanted;
    format!("&user.DefaultInfo{{Name:{user:?}, UID:{uid:?}, Groups:{}, Extra:{}}}", list(groups), extra(facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |&(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().expect("a header"), HeaderValue::from_bytes(value.as_bytes()).expect("a value"))
        };
        let mut headers = HeaderMap::new();
        for (name, value) in pairs.iter().map(pair) {
            headers.append(name, value);
        }
        headers
    }

    fn identity(user: &str, uid: &str, groups: &[&str], extra: &[(&str, &[&str])]) -> Identity {
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let extra = extra.iter().map(|&(key, values)| (key.to_owned(), texts(values))).collect();
        Identity { user: user.to_owned(), uid: uid.to_owned(), groups: texts(groups), extra }
    }

    #[test]
    fn headers_say_whom_a_request_wants_to_be() {
        type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<Identity>);
        let rows: &[Row<'_>] = &[
            ("nothing", &[("accept", "*/*")], None),
            ("an empty user", &[("Impersonate-User", "")], None),
            ("a header that means nothing", &[("Impersonate-Foo", "x")], None),
            ("a user", &[("Impersonate-User", "alice")], Some(identity("alice", "", &[], &[]))),
            ("a user beyond ASCII", &[("Impersonate-User", "zoë")], Some(identity("zoë", "", &[], &[]))),
            (
                "the first of two users",
                &[("Impersonate-User", "alice"), ("Impersonate-User", "bob")],
                Some(identity("alice", "", &[], &[])),
            ),
            (
                "groups in their order",
                &[("Impersonate-User", "a"), ("Impersonate-Group", "z"), ("Impersonate-Group", "b")],
                Some(identity("a", "", &["z", "b"], &[])),
            ),
            ("a uid", &[("Impersonate-User", "a"), ("Impersonate-Uid", "u-1")], Some(identity("a", "u-1", &[], &[]))),
            (
                "extras, their keys in lower case",
                &[
                    ("Impersonate-User", "a"),
                    ("Impersonate-Extra-Team", "blue"),
                    ("Impersonate-Extra-team", "red"),
                    ("Impersonate-Extra-Acme.com%2FProject", "x"),
                ],
                Some(identity("a", "", &[], &[("acme.com/project", &["x"]), ("team", &["blue", "red"])])),
            ),
            (
                "a key that is not well encoded",
                &[("Impersonate-User", "a"), ("Impersonate-Extra-A%2", "x"), ("Impersonate-Extra-b%ff", "y")],
                Some(identity("a", "", &[], &[("a%2", &["x"]), ("b%ff", &["y"])])),
            ),
        ];
        for (row, given, expected) in rows {
            assert_eq!(wanted(&headers(given)).as_ref(), Ok(expected), "{row}");
        }
    }

    #[test]
    fn what_cannot_be_asked_for_is_refused() {
        let said = |given: &[(&str, &str)]| wanted(&headers(given)).map_err(|error| error.to_string());
        type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);
        let rows: &[Row<'_>] = &[
            (
                "a group without a user",
                &[("Impersonate-Group", "g")],
                r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"g"}, Extra:map[string][]string(nil)} without impersonating a user name"#,
            ),
            (
                "a uid without a user",
                &[("Impersonate-Uid", "u")],
                r#"requested &user.DefaultInfo{Name:"", UID:"u", Groups:[]string(nil), Extra:map[string][]string(nil)} without impersonating a user name"#,
            ),
            (
                "extras without a user",
                &[("Impersonate-Extra-X", "g"), ("Impersonate-Extra-A", "1"), ("Impersonate-Extra-A", "2")],
                r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string(nil), Extra:map[string][]string{"a":[]string{"1", "2"}, "x":[]string{"g"}}} without impersonating a user name"#,
            ),
        ];
        for (row, given, expected) in rows {
            assert_eq!(said(given), Err((*expected).to_owned()), "{row}");
        }
        let long = "x".repeat(PART_LIMIT_BYTES + 1);
        assert_eq!(wanted(&headers(&[("Impersonate-User", &long)])), Err(Error::Unreadable(USER)));
        let mut many = headers(&[("Impersonate-User", "a")]);
        (0..=PARTS_LIMIT).for_each(|_| {
            many.append(MEMBERSHIP, HeaderValue::from_static("g"));
        });
        assert_eq!(wanted(&many), Err(Error::TooMany));
        let odd = HeaderMap::from_iter([(USER, HeaderValue::from_bytes(b"a\xff").expect("a value"))]);
        assert_eq!(wanted(&odd), Err(Error::Unreadable(USER)));
    }

    #[test]
    fn every_part_needs_a_right_of_its_own() {
        let everything = identity("alice", "u-1", &["system:masters", "g"], &[("team", &["blue", "red"])]);
        assert_eq!(
            needed(&everything),
            [
                Access::to_object(VERB, ["", "users", ""], "alice", ""),
                Access::to_object(VERB, [GROUP, "uids", ""], "u-1", ""),
                Access::to_object(VERB, ["", "groups", ""], "system:masters", ""),
                Access::to_object(VERB, ["", "groups", ""], "g", ""),
                Access::to_object(VERB, [GROUP, "userextras", "team"], "blue", ""),
                Access::to_object(VERB, [GROUP, "userextras", "team"], "red", ""),
            ]
        );
        let account = identity("system:serviceaccount:shop:web", "", &[], &[]);
        assert_eq!(needed(&account), [Access::to_object(VERB, ["", "serviceaccounts", ""], "web", "shop")]);
    }

    #[test]
    fn the_groups_that_somebody_always_has_are_added() {
        let account = "system:serviceaccount:shop:web";
        let rows: &[(&str, &str, &[&str], &[&str])] = &[
            ("a user", "alice", &[], &[AUTHENTICATED]),
            ("a user with groups", "alice", &["g"], &["g", AUTHENTICATED]),
            ("a user who names the group", "alice", &[AUTHENTICATED, "g"], &[AUTHENTICATED, "g"]),
            ("a user who wants to be nobody", "alice", &[UNAUTHENTICATED], &[UNAUTHENTICATED]),
            ("nobody", ANONYMOUS, &[], &[UNAUTHENTICATED]),
            ("nobody, with a group", ANONYMOUS, &["g"], &["g", UNAUTHENTICATED]),
            (
                "a service account",
                account,
                &[],
                &["system:serviceaccounts", "system:serviceaccounts:shop", AUTHENTICATED],
            ),
            ("a service account with groups", account, &["g"], &["g", AUTHENTICATED]),
        ];
        for (row, user, groups, expected) in rows {
            assert_eq!(granted(identity(user, "", groups, &[])).groups, *expected, "{row}");
        }
    }
}
