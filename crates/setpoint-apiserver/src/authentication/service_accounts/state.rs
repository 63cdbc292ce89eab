//! Whether the objects that a token was made for are still there.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use setpoint_store::At;

use super::Invalid;
use super::claims::{Claims, Holder, Reference};
use crate::failure::Result;
use crate::object::Stored;
use crate::server::Shared;

/// How long what is being deleted still counts after its time. A Pod may use its token until it is gone.
const GRACE: SignedDuration = SignedDuration::from_secs(60);

/// How often it is looked whether a token still holds, for who does not ask again: open watches.
const LOOK: Duration = Duration::from_secs(5);

/// What is to be known of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Found {
    uid: String,
    deletion_timestamp: Option<String>,
}

/// What became of an object.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Same,
    Gone,
    /// Another has its name.
    Replaced {
        by: String,
    },
    Deleted,
}

/// Checks that the account and what the token is bound to are those it was made for.
pub async fn check_state(server: &Shared, claims: &Claims, now: Timestamp) -> Result<std::result::Result<(), Invalid>> {
    let Holder { namespace, serviceaccount: account, secret, pod, node } = &claims.holder;
    let namespace = Some(namespace.as_str());
    let found = find(server, "serviceaccounts", namespace, account).await?;
    if let Err(invalid) = judge_account(claims, fate(account, found, now)) {
        return Ok(Err(invalid));
    }
    // The node of a Pod is only told.
    let node = node.as_ref().filter(|_| pod.is_none());
    let bound = [
        ("secret", "secrets", namespace, secret.as_ref()),
        ("pod", "pods", namespace, pod.as_ref()),
        ("node", "nodes", None, node),
    ];
    for (kind, plural, namespace, reference) in bound {
        let Some(reference) = reference else { continue };
        let found = find(server, plural, namespace, reference).await?;
        if let Err(invalid) = judge_bound(kind, reference, fate(reference, found, now)) {
            return Ok(Err(invalid));
        }
    }
    Ok(Ok(()))
}

/// Resolves when a token no longer holds because of what became of those objects. While the store cannot be read, nothing
/// is known against it.
pub async fn until_invalid(server: &Shared, claims: &Claims) {
    while !matches!(check_state(server, claims, Timestamp::now()).await, Ok(Err(_))) {
        tokio::time::sleep(LOOK).await;
    }
}

async fn find(server: &Shared, plural: &str, namespace: Option<&str>, reference: &Reference) -> Result<Option<Found>> {
    let key = server.registry().built_in("", "v1", plural).key(namespace, &reference.name);
    let entry = server.store.get(&key, At::Now).await?.value;
    Ok(entry.map(|entry| Stored::from(&entry).metadata_as()))
}

fn fate(reference: &Reference, found: Option<Found>, now: Timestamp) -> Fate {
    let Some(Found { uid, deletion_timestamp }) = found else { return Fate::Gone };
    if uid != reference.uid {
        return Fate::Replaced { by: uid };
    }
    let is_over =
        |time: String| time.parse::<Timestamp>().is_ok_and(|time| time.checked_add(GRACE).is_ok_and(|end| end < now));
    if deletion_timestamp.is_some_and(is_over) { Fate::Deleted } else { Fate::Same }
}

fn judge_account(claims: &Claims, fate: Fate) -> std::result::Result<(), Invalid> {
    let Holder { namespace, serviceaccount: Reference { name, uid }, .. } = &claims.holder;
    match fate {
        Fate::Same => Ok(()),
        Fate::Gone => Err(Invalid::NoAccount(name.clone())),
        Fate::Replaced { by } => Err(Invalid::OtherAccount { found: by, claimed: uid.clone() }),
        Fate::Deleted => Err(Invalid::AccountDeleted(format!("{namespace}/{name}"))),
    }
}

fn judge_bound(kind: &'static str, reference: &Reference, fate: Fate) -> std::result::Result<(), Invalid> {
    match fate {
        Fate::Same => Ok(()),
        Fate::Gone | Fate::Deleted => Err(Invalid::Unbound),
        Fate::Replaced { by } => Err(Invalid::OtherObject { kind, found: by, claimed: reference.uid.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_the_same_until_it_is_gone_for_good() {
        let now: Timestamp = "2030-01-01T00:10:00Z".parse().expect("a time");
        let reference = Reference { name: "a".to_owned(), uid: "u-1".to_owned() };
        let found = |uid: &str, deleted: Option<&str>| {
            Some(Found { uid: uid.to_owned(), deletion_timestamp: deleted.map(str::to_owned) })
        };
        let rows = [
            ("there", found("u-1", None), Fate::Same),
            ("gone", None, Fate::Gone),
            ("made again", found("u-2", None), Fate::Replaced { by: "u-2".to_owned() }),
            ("to go later", found("u-1", Some("2030-01-01T00:10:30Z")), Fate::Same),
            ("just deleted", found("u-1", Some("2030-01-01T00:09:30Z")), Fate::Same),
            ("deleted a minute ago", found("u-1", Some("2030-01-01T00:08:59Z")), Fate::Deleted),
        ];
        for (row, found, expected) in rows {
            assert_eq!(fate(&reference, found, now), expected, "{row}");
        }
    }
}
