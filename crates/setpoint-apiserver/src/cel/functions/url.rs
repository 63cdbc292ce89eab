//! URLs as Go reads them.

use std::collections::BTreeMap;
use std::rc::Rc;

use percent_encoding::percent_decode_str;

use crate::cel::evaluate::Context;
use crate::cel::function::{Function, global, member};
use crate::cel::map::Key;
use crate::cel::value::{Fault, Text, Value};

/// The parts of a URL, as they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cel) struct Url {
    scheme: String,
    /// With the port.
    host: String,
    path: String,
    query: String,
}

impl Url {
    /// Reads an absolute URL or an absolute path; the fragment counts as part of what stands before it.
    pub(super) fn parse_request(text: &str) -> Result<Url, String> {
        let problem = |what: &str| format!("parse {text:?}: {what}");
        if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
            return Err(problem("net/url: invalid control character in URL"));
        }
        if text.is_empty() {
            return Err(problem("empty url"));
        }
        let (scheme, rest) = split_scheme(text).map_err(problem)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !rest.starts_with('/') {
            if scheme.is_empty() && text != "*" {
                return Err(problem("invalid URI for request"));
            }
            return Ok(Url { scheme, host: String::new(), path: String::new(), query: query.to_owned() });
        }
        let (authority, path) = match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
            Some(after) => after.split_at(after.find('/').unwrap_or(after.len())),
            None => ("", rest),
        };
        let host = host_of(authority).map_err(|what| problem(&what))?;
        check_escapes(path).map_err(|what| problem(&what))?;
        Ok(Url { scheme, host, path: path.to_owned(), query: query.to_owned() })
    }

    pub(in crate::cel) fn len(&self) -> usize {
        self.scheme.len() + self.host.len() + self.path.len() + self.query.len()
    }

    fn parse(text: &str) -> Result<Url, String> {
        Url::parse_request(text)?;
        let without_fragment = text.split_once('#').map_or(text, |(before, _)| before);
        Url::parse_request(without_fragment).or_else(|_| Url::parse_request(text))
    }

    fn split_port(&self) -> (&str, &str) {
        let after_address = self.host.rfind(']').map_or(0, |end| end + 1);
        let port = self.host[after_address..].rfind(':').map(|colon| after_address + colon);
        let (name, port) = port.map_or((&*self.host, ""), |colon| (&self.host[..colon], &self.host[colon + 1..]));
        (name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name), port)
    }

    fn escaped_path(&self) -> String {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@/[]%".contains(&b);
        let mut escaped = String::with_capacity(self.path.len());
        for byte in self.path.bytes() {
            if plain(byte) {
                escaped.push(char::from(byte));
            } else {
                escaped.push('%');
                escaped.extend([byte >> 4, byte & 15].map(|digit| char::from(b"0123456789ABCDEF"[usize::from(digit)])));
            }
        }
        escaped
    }
}

/// The scheme in lower case, and what follows it.
fn split_scheme(text: &str) -> Result<(String, &str), &'static str> {
    for (place, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if place > 0 => {}
            b':' if place == 0 => return Err("missing protocol scheme"),
            b':' => return Ok((text[..place].to_ascii_lowercase(), &text[place + 1..])),
            _ => break,
        }
    }
    Ok((String::new(), text))
}

fn host_of(authority: &str) -> Result<String, String> {
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let in_user = |b: u8| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b);
    if !user.bytes().all(in_user) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    check_escapes(user)?;
    let port = match host.strip_prefix('[') {
        Some(_) => match host.rfind(']') {
            Some(end) => &host[end + 1..],
            None => return Err("missing ']' in host".to_owned()),
        },
        None => host.rfind(':').map_or("", |colon| &host[colon..]),
    };
    let port_is_good = port.is_empty() || port.strip_prefix(':').is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    if !port_is_good {
        return Err(format!("invalid port {port:?} after host"));
    }
    check_escapes(host)?;
    let in_host = |c: &char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(*c);
    if let Some(bad) = host.chars().find(|c| !in_host(c)) {
        return Err(format!("invalid character {:?} in host name", bad.to_string()));
    }
    Ok(percent_decode_str(host).decode_utf8_lossy().into_owned())
}

fn check_escapes(text: &str) -> Result<(), String> {
    let bytes = text.as_bytes();
    for (place, _) in text.match_indices('%') {
        let digits = bytes.get(place + 1..place + 3);
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            let shown: String = text[place..].chars().take(3).collect();
            return Err(format!("invalid URL escape {shown:?}"));
        }
    }
    Ok(())
}

const PART: &[&str] = &["(kubernetes.URL) -> string"];

pub(super) const FUNCTIONS: &[Function] = &[
    global("url", &["(string) -> kubernetes.URL"], |context, arguments| match arguments {
        [Value::String(text)] => {
            context.meter.charge_reading(text)?;
            context.meter.charge(PARTS_COST)?;
            match Url::parse(text) {
                Ok(url) => Ok(Value::Url(Rc::new(url))),
                Err(problem) => Err(Fault::failed(format!("URL parse error during conversion from string: {problem}"))),
            }
        }
        _ => Err(Fault::no_such_overload()),
    }),
    global("isURL", &["(string) -> bool"], |context, arguments| match arguments {
        [Value::String(text)] => {
            context.meter.charge_reading(text)?;
            Ok(Value::Bool(Url::parse_request(text).is_ok()))
        }
        _ => Err(Fault::no_such_overload()),
    }),
    member("getScheme", PART, |context, arguments| part(context, arguments, |url| url.scheme.clone())),
    member("getHost", PART, |context, arguments| part(context, arguments, |url| url.host.clone())),
    member("getHostname", PART, |context, arguments| part(context, arguments, |url| url.split_port().0.to_owned())),
    member("getPort", PART, |context, arguments| part(context, arguments, |url| url.split_port().1.to_owned())),
    member("getEscapedPath", PART, |context, arguments| part(context, arguments, Url::escaped_path)),
    member("getQuery", &["(kubernetes.URL) -> map(string, list(string))"], |context, arguments| match arguments {
        [Value::Url(url)] => {
            context.meter.charge_text(url.query.len())?;
            query(&url.query, context)
        }
        _ => Err(Fault::no_such_overload()),
    }),
];

fn part<'a>(
    context: &mut Context<'_, 'a>,
    arguments: &[Value<'a>],
    part: fn(&Url) -> String,
) -> Result<Value<'a>, Fault> {
    let [Value::Url(url)] = arguments else { return Err(Fault::no_such_overload()) };
    let part = part(url);
    context.meter.charge_text(part.len())?;
    Ok(Value::text(part))
}

/// What taking a URL apart costs, besides its length.
const PARTS_COST: u64 = 20;
/// What reading one pair of a query costs.
const PAIR_COST: u64 = 10;

/// The values of a query by name. A pair that is not well written is left out.
fn query<'a>(text: &str, context: &mut Context<'_, 'a>) -> Result<Value<'a>, Fault> {
    let mut values: BTreeMap<String, Vec<Value<'a>>> = BTreeMap::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';') && check_escapes(pair).is_ok()) {
        context.meter.charge(PAIR_COST)?;
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        values.entry(decoded(name)).or_default().push(Value::text(decoded(value)));
    }
    let entries = values.into_iter().map(|(name, values)| (Key::String(Text::Made(name.into())), Value::list(values)));
    Ok(Value::map(entries.collect()))
}
