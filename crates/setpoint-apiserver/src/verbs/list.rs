//! Reading a collection, whole or a page at a time, at one revision.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use setpoint_store::{At, Page, Range, Revision};

use super::past;
use crate::custom;
use crate::failure::{Failure, Result};
use crate::fairness::Place;
use crate::filter::Filter;
use crate::negotiate;
use crate::object::Stored;
use crate::query::ListOptions;
use crate::registry::Resource;
use crate::render::{ListMeta, Renderer};
use crate::response::Response;
use crate::server::{Call, Shared};

/// How many objects a selector reads from the store in one go.
const SCAN: usize = 512;
/// How many objects a selector looks at before others have their turn.
pub(super) const PIECE: usize = 64;

/// Where a list goes on. Clients see it as an opaque word.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Token {
    /// The revision that the first page was read at, and so every other.
    rv: Revision,
    /// The last key returned, below the list's directory.
    start: String,
    /// How many keys came before.
    seen: u64,
}

impl Token {
    fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).expect("a token is plain data"))
    }

    fn decode(text: &str) -> Result<Token> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|error| {
            let at = match error {
                base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => at,
                _ => text.len() / 4 * 4,
            };
            Failure::bad_request(format!(
                "invalid continue token: continue key is not valid: illegal base64 data at input byte {at}"
            ))
        })?;
        let token = serde_json::from_slice(&bytes);
        token.map_err(|error| {
            Failure::bad_request(format!("invalid continue token: continue key is not valid: {error}"))
        })
    }
}

/// Where a list begins, and the state of the store that it is read from.
pub(super) struct Start {
    at: At,
    token: Option<Token>,
}

impl Start {
    pub(super) async fn of(server: &Shared, call: &Call, options: &ListOptions) -> Result<Start> {
        let start = Start::read(server, options)?;
        if let At::Revision(revision) = start.at {
            past::check(server, call, revision).await?;
        }
        Ok(start)
    }

    fn read(server: &Shared, options: &ListOptions) -> Result<Start> {
        let newest = server.store.revision();
        if !options.continue_token.is_empty() {
            let token = Token::decode(&options.continue_token)?;
            return if token.rv > newest {
                Err(Failure::bad_request("invalid continue token: it is from another server"))
            } else {
                Ok(Start { at: At::Revision(token.rv), token: Some(token) })
            };
        }
        let at = match options.revision {
            Some(revision) if revision > newest => return Err(Failure::revision_too_large(revision, newest)),
            Some(revision) if options.is_exact() => At::Revision(revision),
            _ => At::Now,
        };
        Ok(Start { at, token: None })
    }
}

/// A page of objects and what is said of it.
pub(super) struct Listed {
    pub meta: ListMeta,
    pub items: Vec<Stored>,
}

pub(super) async fn list(server: &Shared, mut call: Call) -> Result<Response> {
    let mut place = call.place.take();
    let form = negotiate::form(&call.headers)?;
    let options = ListOptions::parse(&call.query, false)?;
    let start = Start::of(server, &call, &options).await?;
    let resource = custom::resource_at(server, &call.resource, start.at).await;
    let resource = resource.map_err(|error| unreadable(error, &options))?;
    let renderer = Renderer::new(resource.clone(), form, &call.query, call.now)?;
    let listed = select(server, &resource, call.namespace(), &options, start, &mut place).await?;
    Ok(renderer.list(&listed.meta, listed.items))
}

/// The objects that the options ask for.
pub(super) async fn select(
    server: &Shared,
    resource: &Resource,
    namespace: Option<&str>,
    options: &ListOptions,
    start: Start,
    place: &mut Option<Place>,
) -> Result<Listed> {
    let filter = Filter::parse(resource, options)?;
    let directory = resource.directory(namespace);
    let scope = filter.scope(resource, namespace);
    let Start { mut at, token } = start;
    let mut after = token.as_ref().map(|token| format!("{directory}{}", token.start));
    let mut seen = token.map_or(0, |token| token.seen);
    // With a selector, more objects are read than a page holds; without one, exactly as many.
    let batch = if options.limit == 0 || filter.is_empty() { options.limit } else { options.limit.max(SCAN) };
    let mut items = Vec::new();
    loop {
        let page = read(server, Range { scope: &scope, after: after.as_deref(), limit: batch, at }, options).await?;
        at = At::Revision(page.revision);
        let mut meta = ListMeta { revision: page.revision, ..ListMeta::default() };
        for (index, entry) in page.entries.iter().enumerate() {
            seen = seen.saturating_add(1);
            let stored = Stored::from(entry);
            if filter.matches(resource, &stored) {
                items.push(stored);
            }
            if options.limit > 0 && items.len() == options.limit {
                if page.more || index + 1 < page.entries.len() {
                    let start = entry.key.strip_prefix(directory.as_str()).unwrap_or_default().to_owned();
                    meta.continue_token = Some(Token { rv: page.revision, start, seen }.encode());
                    let remaining = server.store.count(&directory).saturating_sub(seen).max(1);
                    meta.remaining = filter.is_empty().then_some(remaining);
                }
                return Ok(Listed { meta, items });
            }
            // Selectors read objects, which takes its time.
            if !filter.is_empty() && index % PIECE == PIECE - 1 {
                match place {
                    Some(place) => place.pass().await,
                    None => tokio::task::yield_now().await,
                }
            }
        }
        match page.entries.last() {
            Some(last) if page.more => after = Some(last.key.to_string()),
            _ => return Ok(Listed { meta, items }),
        }
    }
}

async fn read(server: &Shared, range: Range<'_>, options: &ListOptions) -> Result<Page> {
    server.store.range(range).await.map_err(|error| unreadable(error, options))
}

/// Why a list cannot be read.
fn unreadable(error: setpoint_store::Error, options: &ListOptions) -> Failure {
    match error {
        setpoint_store::Error::Compacted { oldest, .. } if options.continue_token.is_empty() => {
            Failure::forgotten("The resourceVersion for the provided list is too old.", oldest)
        }
        setpoint_store::Error::Compacted { .. } => Failure::expired(
            "The provided continue parameter is too old to display a consistent list result. \
             You can start a new list without the continue parameter.",
        ),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back() {
        let token = Token { rv: 42, start: "default/settings".into(), seen: 500 };
        assert_eq!(Token::decode(&token.encode()), Ok(token));
    }

    #[test]
    fn a_token_of_somebody_else_is_refused() {
        for bad in ["bogus", "", "e30", "é", "bnVsbA"] {
            assert!(Token::decode(bad).is_err(), "{bad}");
        }
    }
}
