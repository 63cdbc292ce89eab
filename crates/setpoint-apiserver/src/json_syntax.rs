//! Where a text stops being JSON, in the words of the parser that Kubernetes uses.
//!
//! Clients show these messages to people and some match on them, so a refused body or a refused `.dockerconfigjson` is
//! explained the same way here. The text is only checked: reading it is serde's work.

/// What is wrong with a text that should be JSON; none if it is.
pub fn fault(text: &[u8]) -> Option<String> {
    let mut scanner = Scanner { text, position: 0 };
    scanner.document().err()
}

/// The deepest nesting that is accepted.
const MAX_DEPTH: usize = 10_000;

struct Scanner<'t> {
    text: &'t [u8],
    position: usize,
}

/// What the scanner stands inside of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Object,
    Array,
}

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), String> {
        let mut nesting: Vec<Inside> = Vec::new();
        loop {
            if self.value(&mut nesting)? {
                continue;
            }
            // A value has ended: close what ends with it, up to the next that wants a value.
            loop {
                let Some(inside) = nesting.last() else {
                    return match self.next_after_space() {
                        None => Ok(()),
                        Some(byte) => Err(unexpected(byte, "after top-level value")),
                    };
                };
                match (inside, self.want_after_space()?) {
                    (Inside::Object, b',') => {
                        self.key()?;
                        break;
                    }
                    (Inside::Array, b',') => break,
                    (Inside::Object, b'}') | (Inside::Array, b']') => {
                        nesting.pop();
                    }
                    (Inside::Object, byte) => return Err(unexpected(byte, "after object key:value pair")),
                    (Inside::Array, byte) => return Err(unexpected(byte, "after array element")),
                }
            }
        }
    }

    /// Reads a value; true if it is an object or a list with something in it, whose first value comes next.
    fn value(&mut self, nesting: &mut Vec<Inside>) -> Result<bool, String> {
        let opened = match self.want_after_space()? {
            b'{' => Inside::Object,
            b'[' => Inside::Array,
            b'"' => return self.string().map(|()| false),
            b't' => return self.literal("true").map(|()| false),
            b'f' => return self.literal("false").map(|()| false),
            b'n' => return self.literal("null").map(|()| false),
            byte @ (b'-' | b'0'..=b'9') => return self.number(byte).map(|()| false),
            byte => return Err(unexpected(byte, "looking for beginning of value")),
        };
        if nesting.len() >= MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        let first = self.want_after_space()?;
        match (opened, first) {
            (Inside::Object, b'}') | (Inside::Array, b']') => return Ok(false),
            _ => self.position -= 1,
        }
        nesting.push(opened);
        if opened == Inside::Object {
            self.key()?;
        }
        Ok(true)
    }

    fn key(&mut self) -> Result<(), String> {
        match self.want_after_space()? {
            b'"' => self.string()?,
            byte => return Err(unexpected(byte, "looking for beginning of object key string")),
        }
        match self.want_after_space()? {
            b':' => Ok(()),
            byte => Err(unexpected(byte, "after object key")),
        }
    }

    fn string(&mut self) -> Result<(), String> {
        loop {
            match self.want()? {
                b'"' => return Ok(()),
                b'\\' => match self.want()? {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let byte = self.want()?;
                            if !byte.is_ascii_hexdigit() {
                                return Err(unexpected(byte, "in \\u hexadecimal character escape"));
                            }
                        }
                    }
                    byte => return Err(unexpected(byte, "in string escape code")),
                },
                byte if byte < 0x20 => return Err(unexpected(byte, "in string literal")),
                _ => {}
            }
        }
    }

    fn literal(&mut self, literal: &str) -> Result<(), String> {
        for expected in literal.bytes().skip(1) {
            let byte = self.want()?;
            if byte != expected {
                let context = format!("in literal {literal} (expecting {})", quote(expected));
                return Err(unexpected(byte, &context));
            }
        }
        Ok(())
    }

    fn number(&mut self, first: u8) -> Result<(), String> {
        let leading = if first == b'-' { self.digit("in numeric literal")? } else { first };
        if leading != b'0' {
            self.digits();
        }
        if self.peek() == Some(b'.') {
            self.position += 1;
            self.digit("after decimal point in numeric literal")?;
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.position += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.position += 1;
            }
            self.digit("in exponent of numeric literal")?;
            self.digits();
        }
        Ok(())
    }

    fn digit(&mut self, context: &str) -> Result<u8, String> {
        let byte = self.want()?;
        if byte.is_ascii_digit() { Ok(byte) } else { Err(unexpected(byte, context)) }
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.position += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.position).copied()
    }

    fn next_after_space(&mut self) -> Option<u8> {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.position += 1;
        }
        let byte = self.peek()?;
        self.position += 1;
        Some(byte)
    }

    fn want_after_space(&mut self) -> Result<u8, String> {
        self.next_after_space().ok_or_else(ended)
    }

    fn want(&mut self) -> Result<u8, String> {
        let byte = self.peek().ok_or_else(ended)?;
        self.position += 1;
        Ok(byte)
    }
}

fn ended() -> String {
    "unexpected end of JSON input".to_owned()
}

fn unexpected(byte: u8, context: &str) -> String {
    format!("invalid character {} {context}", quote(byte))
}

/// A character in single quotes, as Go writes it.
fn quote(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        b'\\' => "'\\\\'".to_owned(),
        7 => "'\\a'".to_owned(),
        8 => "'\\b'".to_owned(),
        b'\t' => "'\\t'".to_owned(),
        b'\n' => "'\\n'".to_owned(),
        0x0b => "'\\v'".to_owned(),
        0x0c => "'\\f'".to_owned(),
        b'\r' => "'\\r'".to_owned(),
        0..0x20 | 0x7f => format!("'\\x{byte:02x}'"),
        0x80..0xa0 | 0xad => format!("'\\u{byte:04x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn faults_are_explained() {
        let rows = [
            (r#" {"a": [1, -2.5e+3, true, null, "x\u00e9"], "b": {}} "#, None),
            ("", Some("unexpected end of JSON input")),
            (r#"{"a": 1"#, Some("unexpected end of JSON input")),
            ("no", Some("invalid character 'o' in literal null (expecting 'u')")),
            ("{nope}", Some("invalid character 'n' looking for beginning of object key string")),
            (r#"{"a" 1}"#, Some("invalid character '1' after object key")),
            (r#"{"a": 1 2}"#, Some("invalid character '2' after object key:value pair")),
            (r#"{"a": 1,}"#, Some("invalid character '}' looking for beginning of object key string")),
            ("[1 2]", Some("invalid character '2' after array element")),
            ("[1,]", Some("invalid character ']' looking for beginning of value")),
            ("{} x", Some("invalid character 'x' after top-level value")),
            ("'a'", Some("invalid character '\\'' looking for beginning of value")),
            ("\"a\nb\"", Some("invalid character '\\n' in string literal")),
            (r#""\x""#, Some("invalid character 'x' in string escape code")),
            ("-x", Some("invalid character 'x' in numeric literal")),
            ("1.x", Some("invalid character 'x' after decimal point in numeric literal")),
        ];
        for (text, expected) in rows {
            assert_eq!(fault(text.as_bytes()).as_deref(), expected, "{text}");
        }
        assert_eq!(fault(&[b'['; MAX_DEPTH + 1]).as_deref(), Some("exceeded max depth"));
    }

    proptest! {
        #[test]
        fn it_agrees_with_serde(text in r#"[\[\]{}:,"\\a1.e truefalsn-]{0,12}"#) {
            let accepted = serde_json::from_str::<serde_json::Value>(&text);
            // A number too large for serde is still JSON.
            prop_assume!(!accepted.as_ref().is_err_and(|error| error.to_string().contains("out of range")));
            prop_assert_eq!(fault(text.as_bytes()).is_none(), accepted.is_ok(), "{}", text);
        }
    }
}
