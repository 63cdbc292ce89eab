//! An expression cut into tokens.

use super::issue::Issue;

/// What a token is. The words of the grammar that are no symbols have kinds of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Identifier,
    /// A field's name between backquotes.
    Quoted,
    Int,
    Uint,
    Float,
    String,
    Bytes,
    True,
    False,
    Null,
    In,
    Symbol(&'static str),
    End,
}

/// A piece of the text, and the number of characters before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'t> {
    pub kind: Kind,
    pub text: &'t str,
    pub at: u32,
}

impl Token<'_> {
    pub(super) fn is(&self, symbol: &str) -> bool {
        matches!(self.kind, Kind::Symbol(own) if own == symbol)
    }
}

/// Longer symbols stand before those they begin with.
const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "+", "*",
    "/", "%",
];

fn symbol_of(text: &str) -> Option<&'static str> {
    SYMBOLS.into_iter().find(|symbol| text.starts_with(symbol))
}

/// All tokens, the last one being the end; what is no token is reported and skipped.
pub(super) fn tokens<'t>(source: &'t str, issues: &mut Vec<Issue>) -> Vec<Token<'t>> {
    let mut tokens = Vec::new();
    let (mut rest, mut at) = (source, 0);
    loop {
        let blank = blank_length(rest);
        at += count(&rest[..blank]);
        rest = &rest[blank..];
        if rest.is_empty() {
            tokens.push(Token { kind: Kind::End, text: "<EOF>", at });
            return tokens;
        }
        let (kind, length) = first(rest);
        let text = &rest[..length];
        match kind {
            Some(kind) => tokens.push(Token { kind, text, at }),
            None => issues.push(Issue::new(at, format!("Syntax error: token recognition error at: '{text}'"))),
        }
        at += count(text);
        rest = &rest[length..];
    }
}

fn count(text: &str) -> u32 {
    u32::try_from(text.chars().count()).unwrap_or(u32::MAX)
}

/// The length of the spaces and comments at the start.
fn blank_length(text: &str) -> usize {
    let mut length = 0;
    loop {
        let rest = &text[length..];
        let spaces = rest.len() - rest.trim_start_matches(['\t', ' ', '\r', '\n', '\u{c}']).len();
        let comment = match rest[spaces..].starts_with("//") {
            true => rest[spaces..].find('\n').unwrap_or(rest.len() - spaces),
            false => 0,
        };
        if spaces + comment == 0 {
            return length;
        }
        length += spaces + comment;
    }
}

/// The token at the start of a text that is not empty: its kind (none if it is no token) and its length.
fn first(text: &str) -> (Option<Kind>, usize) {
    if let Some(found) = string(text).or_else(|| number(text)) {
        return found;
    }
    if text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        let length = text.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        let kind = match &text[..length] {
            "true" => Kind::True,
            "false" => Kind::False,
            "null" => Kind::Null,
            "in" => Kind::In,
            _ => Kind::Identifier,
        };
        return (Some(kind), length);
    }
    if let Some(name) = text.strip_prefix('`') {
        let length = name.bytes().take_while(|b| b.is_ascii_alphanumeric() || b"_.-/ ".contains(b)).count();
        if length > 0 && name[length..].starts_with('`') {
            return (Some(Kind::Quoted), length + 2);
        }
    }
    match symbol_of(text) {
        Some(symbol) => (Some(Kind::Symbol(symbol)), symbol.len()),
        None => (None, text.chars().next().map_or(1, char::len_utf8)),
    }
}

fn number(text: &str) -> Option<(Option<Kind>, usize)> {
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    if let Some(hex) = text.strip_prefix("0x") {
        let length = 2 + hex.bytes().take_while(u8::is_ascii_hexdigit).count();
        if length > 2 {
            return Some(unsigned_or(Kind::Int, text, length));
        }
    }
    let whole = digits(0);
    let mut length = whole;
    let mut kind = Kind::Int;
    if text[length..].starts_with('.') && digits(length + 1) > 0 {
        length += 1 + digits(length + 1);
        kind = Kind::Float;
    }
    if length == 0 {
        return None;
    }
    if text[length..].starts_with(['e', 'E']) {
        let sign = usize::from(text[length + 1..].starts_with(['+', '-']));
        let exponent = digits(length + 1 + sign);
        if exponent > 0 {
            length += 1 + sign + exponent;
            kind = Kind::Float;
        }
    }
    Some(if kind == Kind::Int { unsigned_or(kind, text, length) } else { (Some(kind), length) })
}

fn unsigned_or(kind: Kind, text: &str, length: usize) -> (Option<Kind>, usize) {
    if text[length..].starts_with(['u', 'U']) { (Some(Kind::Uint), length + 1) } else { (Some(kind), length) }
}

/// A string or bytes literal. One that does not end is no token.
fn string(text: &str) -> Option<(Option<Kind>, usize)> {
    let bytes = text.starts_with(['b', 'B']);
    let after_b = &text[usize::from(bytes)..];
    let raw = after_b.starts_with(['r', 'R']);
    let start = usize::from(bytes) + usize::from(raw);
    let body = &text[start..];
    let quote = body.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let triple = ["\"\"\"", "'''"].into_iter().find(|q| body.starts_with(q));
    let mark = triple.unwrap_or(if quote == '"' { "\"" } else { "'" });
    let mut length = mark.len();
    loop {
        let rest = &body[length..];
        if rest.starts_with(mark) {
            let kind = if bytes { Kind::Bytes } else { Kind::String };
            return Some((Some(kind), start + length + mark.len()));
        }
        match rest.chars().next() {
            Some('\n' | '\r') if triple.is_none() => return Some((None, start + length)),
            Some('\\') if !raw => {
                length += 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
            }
            Some(c) => length += c.len_utf8(),
            None => return Some((None, start + length)),
        }
    }
}
