//! Changes of headers, parsed once and applied to each request or response.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{HeaderChanges, NameValue};

/// Changes of headers, ready to be applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompiledChanges {
    set: Vec<(HeaderName, HeaderValue)>,
    add: Vec<(HeaderName, HeaderValue)>,
    remove: Vec<HeaderName>,
}

/// Headers that say where a message ends or to whom it goes: no route may change them.
const FIXED: [HeaderName; 4] =
    [http::header::CONTENT_LENGTH, http::header::TRANSFER_ENCODING, http::header::CONNECTION, http::header::HOST];

impl CompiledChanges {
    pub(super) fn new(changes: &HeaderChanges) -> Result<Self, String> {
        let pairs = |pairs: &[NameValue]| pairs.iter().map(pair).collect::<Result<Vec<_>, _>>();
        Ok(Self {
            set: pairs(&changes.set)?,
            add: pairs(&changes.add)?,
            remove: changes.remove.iter().map(|it| name(it)).collect::<Result<_, _>>()?,
        })
    }

    pub fn apply(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.set {
            headers.insert(name.clone(), value.clone());
        }
        for (name, value) in &self.add {
            headers.append(name.clone(), value.clone());
        }
        for name in &self.remove {
            headers.remove(name);
        }
    }
}

fn pair(pair: &NameValue) -> Result<(HeaderName, HeaderValue), String> {
    let value = HeaderValue::from_str(&pair.value).map_err(|_| format!("the value of {:?} is no text", pair.name))?;
    Ok((name(&pair.name)?, value))
}

fn name(name: &str) -> Result<HeaderName, String> {
    let parsed: HeaderName = name.parse().map_err(|_| format!("{name:?} is not a header"))?;
    match FIXED.contains(&parsed) {
        true => Err(format!("{name:?} may not be changed")),
        false => Ok(parsed),
    }
}
