//! One whole head: whether it is beyond doubt, and where its message ends.

use memchr::memchr;

use super::{HeadLimits, Refusal};

/// What a sound head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub body: BodyLength,
    /// Another protocol may follow on this connection.
    pub wants_upgrade: bool,
}

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    Bytes(u64),
    Chunked,
}

/// What is gathered from the header lines.
#[derive(Default)]
struct Fields<'a> {
    host: Option<&'a [u8]>,
    length: Option<u64>,
    is_chunked: bool,
    names_upgrade: bool,
    upgrade: Option<&'a [u8]>,
}

/// Checks a head from its first byte to the empty line, both included. Every line is known to end with CRLF.
pub fn check(head: &[u8], limits: &HeadLimits) -> Result<Head, Refusal> {
    let mut lines = Lines(head);
    let request_line = lines.next().ok_or(Refusal::RequestLine)?;
    let (target, is_http10) = request_line_of(request_line, limits)?;
    let mut fields = Fields::default();
    let mut count = 0;
    for line in lines.take_while(|line| !line.is_empty()) {
        count += 1;
        if count > limits.fields {
            return Err(Refusal::TooLarge);
        }
        let (name, value) = field(line)?;
        fields.take(name, value, is_http10)?;
    }
    let is_with_host = fields.host.is_some() || is_http10;
    if !is_with_host {
        return Err(Refusal::NoHost);
    }
    if let Some(authority) = authority_of(target)?
        && fields.host.is_some_and(|host| !is_same_authority(host, authority, target))
    {
        return Err(Refusal::HostDisagrees);
    }
    if fields.is_chunked && fields.length.is_some() {
        return Err(Refusal::BothLengths);
    }
    let body = match fields.is_chunked {
        true => BodyLength::Chunked,
        false => BodyLength::Bytes(fields.length.unwrap_or(0)),
    };
    let is_h2c = fields.upgrade.is_some_and(|upgrade| upgrade.eq_ignore_ascii_case(b"h2c"));
    let wants_upgrade = fields.names_upgrade && fields.upgrade.is_some() && !is_h2c && !is_http10;
    Ok(Head { body, wants_upgrade })
}

/// Lines without their CRLF.
struct Lines<'a>(&'a [u8]);

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let end = memchr(b'\n', self.0)?;
        let line = &self.0[..end.saturating_sub(1)];
        self.0 = &self.0[end + 1..];
        Some(line)
    }
}

fn request_line_of<'a>(line: &'a [u8], limits: &HeadLimits) -> Result<(&'a [u8], bool), Refusal> {
    let mut parts = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Refusal::RequestLine);
    };
    if !is_token(method) {
        return Err(Refusal::Method);
    }
    if method == b"CONNECT" {
        return Err(Refusal::Connect);
    }
    let is_http10 = match version {
        b"HTTP/1.1" => false,
        b"HTTP/1.0" => true,
        _ => return Err(Refusal::Version),
    };
    if target.len() > limits.target_bytes {
        return Err(Refusal::TargetTooLong);
    }
    target_is_sound(method, target)?;
    Ok((target, is_http10))
}

fn target_is_sound(method: &[u8], target: &[u8]) -> Result<(), Refusal> {
    let is_sound =
        |byte: &u8| matches!(byte, 0x21..=0x7e) && !matches!(byte, b'#' | b'\\' | b'<' | b'>' | b'"' | b'^' | b'`');
    if target.is_empty() || !target.iter().all(is_sound) {
        return Err(Refusal::Target);
    }
    let is_escape =
        |place: usize| target.get(place + 1..place + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit));
    if !memchr::memchr_iter(b'%', target).all(is_escape) {
        return Err(Refusal::Target);
    }
    if target == b"*" {
        return if method == b"OPTIONS" { Ok(()) } else { Err(Refusal::Target) };
    }
    let path = match absolute(target) {
        Some((_, path)) => path,
        None if target.starts_with(b"/") => target,
        None => return Err(Refusal::Target),
    };
    let end = memchr(b'?', path).unwrap_or(path.len());
    match has_dot_segment(&path[..end]) {
        true => Err(Refusal::DotSegment),
        false => Ok(()),
    }
}

/// Whether a path would mean another one after its dots are resolved: rules and backends could then disagree.
pub(crate) fn has_dot_segment(path: &[u8]) -> bool {
    // Most paths have no dot and no escape at all.
    if memchr::memchr2(b'.', b'%', path).is_none() {
        return false;
    }
    path.split(|byte| *byte == b'/').any(is_dots)
}

fn is_dots(segment: &[u8]) -> bool {
    let mut rest = segment;
    let mut dots = 0;
    while !rest.is_empty() {
        rest = match rest {
            [b'.', rest @ ..] | [b'%', b'2', b'e' | b'E', rest @ ..] => rest,
            _ => return false,
        };
        dots += 1;
    }
    matches!(dots, 1 | 2)
}

/// The authority and the path of a target in absolute form.
fn absolute(target: &[u8]) -> Option<(&[u8], &[u8])> {
    let scheme_bytes = [&b"http://"[..], b"https://"].into_iter().find_map(|scheme| {
        target.get(..scheme.len()).filter(|start| start.eq_ignore_ascii_case(scheme)).map(<[u8]>::len)
    })?;
    let rest = &target[scheme_bytes..];
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    Some(rest.split_at(end))
}

fn authority_of(target: &[u8]) -> Result<Option<&[u8]>, Refusal> {
    match absolute(target) {
        None => Ok(None),
        Some((authority, _)) if is_authority(authority) => Ok(Some(authority)),
        Some(_) => Err(Refusal::Target),
    }
}

/// Whether two authorities are the same, also where one names the port that its scheme implies.
fn is_same_authority(host: &[u8], authority: &[u8], target: &[u8]) -> bool {
    let is_https = target.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"https"));
    let plain = |it: &[u8]| -> Vec<u8> {
        let port: &[u8] = if is_https { b":443" } else { b":80" };
        it.strip_suffix(port).unwrap_or(it).to_ascii_lowercase()
    };
    plain(host) == plain(authority)
}

/// A header line as name and value, without the spaces around the value.
pub(super) fn field(line: &[u8]) -> Result<(&[u8], &[u8]), Refusal> {
    if matches!(line.first(), Some(b' ' | b'\t')) {
        return Err(Refusal::FoldedLine);
    }
    let colon = memchr(b':', line).ok_or(Refusal::NoColon)?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    if !is_token(name) {
        return Err(Refusal::FieldName);
    }
    if !value.iter().all(|byte| matches!(byte, b'\t' | 0x20..=0x7e | 0x80..)) {
        return Err(Refusal::FieldValue);
    }
    Ok((name, trimmed(value)))
}

impl<'a> Fields<'a> {
    fn take(&mut self, name: &'a [u8], value: &'a [u8], is_http10: bool) -> Result<(), Refusal> {
        // The length tells most names apart from those that matter.
        match name.len() {
            4 if is(name, "host") => {
                if self.host.replace(value).is_some() {
                    return Err(Refusal::ManyHosts);
                }
                if !is_authority(value) {
                    return Err(Refusal::Host);
                }
            }
            14 if is(name, "content-length") => {
                let before = self.length.replace(length(value)?);
                if before.is_some() {
                    return Err(Refusal::ManyContentLengths);
                }
            }
            17 if is(name, "transfer-encoding") => {
                if std::mem::replace(&mut self.is_chunked, true) {
                    return Err(Refusal::ManyTransferEncodings);
                }
                if is_http10 {
                    return Err(Refusal::TransferEncodingInHttp10);
                }
                if !is(value, "chunked") {
                    return Err(Refusal::TransferEncoding);
                }
            }
            14 if is(name, "content_length") => return Err(Refusal::DisguisedLength),
            17 if is(name, "transfer_encoding") => return Err(Refusal::DisguisedLength),
            7 if is(name, "upgrade") => {
                self.upgrade.get_or_insert(value);
            }
            10 if is(name, "connection") => {
                for named in value.split(|byte| *byte == b',').map(trimmed) {
                    self.names_upgrade |= is(named, "upgrade");
                    if is(named, "content-length") || is(named, "transfer-encoding") || is(named, "host") {
                        return Err(Refusal::ConnectionNamesLength);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn is(text: &[u8], wanted: &str) -> bool {
    text.eq_ignore_ascii_case(wanted.as_bytes())
}

fn length(value: &[u8]) -> Result<u64, Refusal> {
    let is_number = !value.is_empty() && value.len() <= 18 && value.iter().all(u8::is_ascii_digit);
    if !is_number {
        return Err(Refusal::ContentLength);
    }
    Ok(value.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

fn trimmed(value: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t');
    let start = value.iter().position(is_text).unwrap_or(value.len());
    let end = value.iter().rposition(is_text).map_or(start, |last| last + 1);
    &value[start..end]
}

/// A host and perhaps a port: no user, no list, no path.
fn is_authority(value: &[u8]) -> bool {
    let (host, port) = match value {
        [b'[', rest @ ..] => {
            let Some(end) = memchr(b']', rest) else { return false };
            let is_address = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
            if end == 0 || !rest[..end].iter().all(is_address) {
                return false;
            }
            match &rest[end + 1..] {
                [] => return true,
                [b':', port @ ..] => (&rest[..end], Some(port)),
                _ => return false,
            }
        }
        _ => match memchr(b':', value) {
            Some(colon) => (&value[..colon], Some(&value[colon + 1..])),
            None => (value, None),
        },
    };
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':');
    let is_port = |port: &[u8]| {
        port.len() <= 5
            && port.iter().all(u8::is_ascii_digit)
            && port.iter().fold(0_u32, |sum, digit| sum * 10 + u32::from(digit - b'0')) <= 65_535
    };
    !host.is_empty() && host.len() <= 255 && host.iter().all(is_name) && port.is_none_or(is_port)
}

fn is_token(name: &[u8]) -> bool {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !name.is_empty() && name.iter().all(is_token)
}
