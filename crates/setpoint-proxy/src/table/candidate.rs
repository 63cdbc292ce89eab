//! One rule at one place of a tree of paths: what else a request must have, and which of several rules comes first.

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use percent_encoding::percent_decode_str;

use super::{RequestHead, RouteId};

/// A match of a route, without its host and path.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) route: RouteId,
    /// The wildcard of its host covers one label.
    pub(crate) one_label: bool,
    pub(crate) method: Option<Method>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) rank: Rank,
}

/// Who comes first among equally specific matches: the older object, the lower name, the earlier rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub(crate) created_s: i64,
    pub(crate) name: String,
    pub(crate) order: (u32, u32),
}

impl Candidate {
    /// Gateway API's order for rules of the same host and path: a method, then more headers, then more query parameters.
    pub(crate) fn precedence(&self, other: &Self) -> Ordering {
        let specific = |it: &Self| Reverse((it.one_label, it.method.is_some(), it.headers.len(), it.query.len()));
        specific(self).cmp(&specific(other)).then_with(|| self.rank.cmp(&other.rank))
    }

    pub(crate) fn accepts(&self, request: &RequestHead<'_>) -> bool {
        self.method.as_ref().is_none_or(|method| method == request.method)
            && self.headers.iter().all(|(name, value)| has_header(request.headers, name, value))
            && self.query.iter().all(|(name, value)| has_query(request.query.unwrap_or(""), name, value))
    }
}

/// Whether a header has exactly this value; several lines count as one, joined by commas.
fn has_header(headers: &HeaderMap, name: &HeaderName, wanted: &HeaderValue) -> bool {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => false,
        (Some(value), None) => value == wanted,
        (Some(_), Some(_)) => {
            let lines: Vec<&[u8]> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
            lines.join(&b","[..]) == wanted.as_bytes()
        }
    }
}

/// Whether the first parameter of this name has exactly this value.
fn has_query(query: &str, name: &str, wanted: &str) -> bool {
    let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find(|(found, _)| decoded(found) == name).is_some_and(|(_, value)| decoded(value) == wanted)
}

fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let spaced = text.replace('+', " ");
    Cow::Owned(percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
}
