//! Which form of an answer a client wants, and which form its body has.

use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE};

use crate::failure::{Failure, Result};
use crate::schema::Body;

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    Json,
    Yaml,
}

/// What of an object an answer shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    Full,
    /// Rows and columns, as `kubectl get` prints them.
    Table,
    /// Metadata alone.
    Partial,
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Form {
    pub encoding: Encoding,
    pub shape: Shape,
}

impl Form {
    pub const JSON: Form = Form { encoding: Encoding::Json, shape: Shape::Full };
}

/// One media range of an Accept header and its parameters.
struct Media<'a> {
    range: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Media<'a> {
    fn parse(text: &'a str) -> Media<'a> {
        let mut parts = text.split(';').map(str::trim);
        let range = parts.next().unwrap_or_default();
        Media { range, parameters: parts.filter_map(|part| part.split_once('=')).collect() }
    }

    /// How much the client wants it; 1 if it does not say.
    fn quality(&self) -> f32 {
        self.parameter("q").and_then(|quality| quality.parse().ok()).unwrap_or(1.0)
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// Whether the range has this media type in it.
    fn covers(&self, media_type: &str) -> bool {
        match self.range.strip_suffix('*') {
            Some("*/") => true,
            Some(prefix) => prefix.ends_with('/') && media_type.starts_with(prefix),
            None => self.range == media_type,
        }
    }

    fn encoding(&self) -> Option<Encoding> {
        match self.range {
            "application/json" | "*/*" | "application/*" => Some(Encoding::Json),
            "application/yaml" => Some(Encoding::Yaml),
            _ => None,
        }
    }
}

fn accepted(headers: &HeaderMap) -> String {
    let values: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    if values.iter().all(|value| value.trim().is_empty()) { "*/*".to_owned() } else { values.join(",") }
}

/// The form the client wants most of those that this server has; the first of several that it wants the same.
pub fn form(headers: &HeaderMap) -> Result<Form> {
    let accept = accepted(headers);
    let mut known_type = false;
    let mut wanted: Vec<Media<'_>> = accept.split(',').map(Media::parse).collect();
    wanted.sort_by(|a, b| b.quality().total_cmp(&a.quality()));
    for media in wanted {
        let Some(encoding) = media.encoding() else { continue };
        known_type = true;
        let meta = media.parameter("g").is_none_or(|group| group == "meta.k8s.io")
            && media.parameter("v").is_none_or(|version| matches!(version, "v1" | "v1beta1"));
        let shape = match media.parameter("as") {
            None => Shape::Full,
            Some("Table") if meta => Shape::Table,
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") if meta => Shape::Partial,
            Some(_) => continue,
        };
        return Ok(Form { encoding, shape });
    }
    Err(if known_type { Failure::unknown_transform() } else { Failure::not_acceptable() })
}

/// What the client wants most of what is offered by media type; the first of several that it wants the same.
pub fn choose<T: Copy>(headers: &HeaderMap, offered: &[(&str, T)]) -> Option<T> {
    let accept = accepted(headers);
    let mut wanted: Vec<Media<'_>> = accept.split(',').map(Media::parse).collect();
    wanted.sort_by(|a, b| b.quality().total_cmp(&a.quality()));
    wanted.iter().find_map(|media| offered.iter().find(|(name, _)| media.covers(name)).map(|(_, choice)| *choice))
}

/// Whether the client asks for the aggregated form of discovery, and its exact media type if so.
pub fn aggregated_discovery(headers: &HeaderMap) -> Option<&'static str> {
    accepted(headers).split(',').map(Media::parse).find_map(|media| {
        let asked = media.range == "application/json"
            && media.parameter("g") == Some("apidiscovery.k8s.io")
            && media.parameter("as") == Some("APIGroupDiscoveryList");
        match media.parameter("v") {
            Some("v2") if asked => Some("v2"),
            Some("v2beta1") if asked => Some("v2beta1"),
            _ => None,
        }
    })
}

/// A body, by its media type. One without a type is JSON.
pub fn body<'b>(headers: &HeaderMap, bytes: &'b [u8]) -> Result<Body<'b>> {
    match media_type(headers).to_ascii_lowercase().as_str() {
        "" | "application/json" => Ok(Body::json(bytes)),
        "application/yaml" | "application/x-yaml" | "text/yaml" => Ok(Body::yaml(bytes)),
        "application/vnd.kubernetes.protobuf" => Ok(Body::protobuf(bytes)),
        _ => Err(Failure::unsupported_body()),
    }
}

/// The media type of a body, without parameters.
pub fn media_type(headers: &HeaderMap) -> &str {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

/// Bodies are not decompressed: a small one could become any size.
pub fn check_encoding(headers: &HeaderMap) -> Result<()> {
    let encodings = headers.get_all(CONTENT_ENCODING).iter().map(|value| value.to_str().unwrap_or("unreadable"));
    match encodings.flat_map(|value| value.split(',')).map(str::trim).find(|name| !matches!(*name, "" | "identity")) {
        None => Ok(()),
        Some(name) => Err(Failure::unsupported_encoding(name)),
    }
}

pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').map(Media::parse).any(|coding| coding.range == "gzip" && coding.parameter("q") != Some("0"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_what_is_wanted_most() {
        let offered = [("application/json", 1), ("application/a@b", 2)];
        let rows = [
            ("nothing said", "", Some(1)),
            ("anything", "*/*", Some(1)),
            ("any of a type", "application/*", Some(1)),
            ("any of another type", "text/*", None),
            ("one", "application/a@b", Some(2)),
            ("the first of two", "application/a@b, application/json", Some(2)),
            ("the one wanted most", "application/a@b;q=0.5, application/json", Some(1)),
            ("none that is offered", "text/html", None),
            ("half a range", "*", None),
        ];
        for (row, accept, expected) in rows {
            let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().expect("a header"))]);
            assert_eq!(choose(&headers, &offered), expected, "{row}");
        }
    }

    #[test]
    fn the_first_known_form_wins() {
        let table = Form { encoding: Encoding::Json, shape: Shape::Table };
        let rows = [
            ("kubectl get", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Some(table)),
            ("anything", "*/*", Some(Form::JSON)),
            ("protobuf first", "application/vnd.kubernetes.protobuf,application/json", Some(Form::JSON)),
            ("yaml", "application/yaml", Some(Form { encoding: Encoding::Yaml, shape: Shape::Full })),
            (
                "falls back from an unknown transformation",
                "application/json;as=Nope, application/json",
                Some(Form::JSON),
            ),
            ("an unknown transformation alone", "application/json;as=Nope", None),
            ("the one wanted most", "application/yaml;q=0.1, application/json;q=0.9", Some(Form::JSON)),
            ("html", "text/html", None),
        ];
        for (row, accept, expected) in rows {
            let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().expect("a header"))]);
            assert_eq!(form(&headers).ok(), expected, "{row}");
        }
    }
}
