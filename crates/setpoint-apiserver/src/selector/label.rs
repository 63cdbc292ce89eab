//! Label queries such as `app=web,tier in (a,b),!canary`: their grammar, their text and what they match.
//!
//! A query is read in two steps, tokens and then requirements, because `in` and `notin` are operators after a key and
//! plain words everywhere else.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;
use thiserror::Error;

use setpoint_api::names;

/// A label query: every requirement must hold. Without requirements it matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    /// Sorted by key.
    requirements: Vec<Requirement>,
}

/// One condition on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    pub key: String,
    pub condition: Condition,
}

/// What must hold of a label's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    Exists,
    DoesNotExist,
    Equals(String),
    DoubleEquals(String),
    NotEquals(String),
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    GreaterThan(i64),
    LessThan(i64),
}

/// Why a text is no label query, in Kubernetes' words.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct LabelSelectorError(String);

impl LabelSelector {
    /// Whether it restricts nothing.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether a map of labels (null for none) meets every requirement.
    pub fn matches(&self, labels: &Value) -> bool {
        self.requirements.iter().all(|r| r.condition.holds(labels.get(&r.key).and_then(Value::as_str)))
    }
}

impl Condition {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|text| text.parse::<i64>().ok());
        match self {
            Condition::Exists => value.is_some(),
            Condition::DoesNotExist => value.is_none(),
            Condition::Equals(wanted) | Condition::DoubleEquals(wanted) => value == Some(wanted),
            Condition::NotEquals(unwanted) => value != Some(unwanted),
            Condition::In(wanted) => value.is_some_and(|text| wanted.contains(text)),
            Condition::NotIn(unwanted) => !value.is_some_and(|text| unwanted.contains(text)),
            Condition::GreaterThan(bound) => number().is_some_and(|number| number > *bound),
            Condition::LessThan(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

impl FromStr for LabelSelector {
    type Err = LabelSelectorError;

    fn from_str(text: &str) -> Result<Self, LabelSelectorError> {
        let mut requirements = Parser { tokens: tokens(text), position: 0 }.selector().map_err(LabelSelectorError)?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(LabelSelector { requirements })
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(f, "{separator}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let list = |values: &BTreeSet<String>| values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        match &self.condition {
            Condition::Exists => write!(f, "{key}"),
            Condition::DoesNotExist => write!(f, "!{key}"),
            Condition::Equals(value) => write!(f, "{key}={value}"),
            Condition::DoubleEquals(value) => write!(f, "{key}=={value}"),
            Condition::NotEquals(value) => write!(f, "{key}!={value}"),
            Condition::In(values) => write!(f, "{key} in ({})", list(values)),
            Condition::NotIn(values) => write!(f, "{key} notin ({})", list(values)),
            Condition::GreaterThan(bound) => write!(f, "{key}>{bound}"),
            Condition::LessThan(bound) => write!(f, "{key}<{bound}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    End,
    /// A key, a value, `in` or `notin`.
    Word(String),
    /// One of `= == != ! ( ) , > <`.
    Symbol(&'static str),
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Token::End => "",
            Token::Word(text) => text,
            Token::Symbol(text) => text,
        }
    }
}

const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

fn is_symbol(character: char) -> bool {
    "=!(),><".contains(character)
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

/// The tokens of a query; the last is [`Token::End`], and there is no other.
fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    // As in Kubernetes, a zero byte ends the text.
    let mut rest = text.split('\0').next().unwrap_or_default();
    loop {
        rest = rest.trim_start_matches(is_space);
        if rest.is_empty() {
            tokens.push(Token::End);
            return tokens;
        }
        let length = if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            tokens.push(Token::Symbol(symbol));
            symbol.len()
        } else {
            let length = rest.find(|c| is_symbol(c) || is_space(c)).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..length].to_owned()));
            length
        };
        rest = &rest[length..];
    }
}

struct Parser {
    tokens: Vec<Token>,
    position: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.position).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.position += 1;
        token
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        match self.peek() {
            Token::End => return Ok(requirements),
            Token::Word(_) | Token::Symbol("!") => {}
            other => return Err(format!("found '{}', expected: !, identifier, or 'end of string'", other.text())),
        }
        loop {
            let requirement = self.requirement().map_err(|e| format!("unable to parse requirement: {e}"))?;
            requirements.push(requirement);
            match self.next() {
                Token::End => return Ok(requirements),
                Token::Symbol(",") => match self.peek() {
                    Token::Word(_) | Token::Symbol("!") => {}
                    other => return Err(format!("found '{}', expected: identifier after ','", other.text())),
                },
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = *self.peek() == Token::Symbol("!");
        if negated {
            self.next();
        }
        let key = match self.next() {
            Token::Word(key) => key,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        check_key(&key)?;
        // Whatever stands after a negated key is for the caller to refuse.
        let condition = if negated {
            Condition::DoesNotExist
        } else if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            Condition::Exists
        } else {
            self.condition(&key)?
        };
        Ok(Requirement { key, condition })
    }

    fn condition(&mut self, key: &str) -> Result<Condition, String> {
        let operator = self.next();
        Ok(match (&operator, operator.text()) {
            (Token::Symbol(_), "=") => Condition::Equals(self.value(key)?),
            (Token::Symbol(_), "==") => Condition::DoubleEquals(self.value(key)?),
            (Token::Symbol(_), "!=") => Condition::NotEquals(self.value(key)?),
            (Token::Symbol(_), ">") => Condition::GreaterThan(self.number(key)?),
            (Token::Symbol(_), "<") => Condition::LessThan(self.number(key)?),
            (Token::Word(_), "in") => Condition::In(self.values(key)?),
            (Token::Word(_), "notin") => Condition::NotIn(self.values(key)?),
            (_, other) => return Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")),
        })
    }

    fn value(&mut self, key: &str) -> Result<String, String> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(String::new());
        }
        match self.next() {
            Token::Word(value) => check_value(key, 0, &value).map(|()| value),
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn number(&mut self, key: &str) -> Result<i64, String> {
        let value = self.value(key)?;
        value.parse().map_err(|_| {
            let shown = Value::from(value);
            format!("values[0]: Invalid value: {shown}: for 'Gt', 'Lt' operators, the value must be an integer")
        })
    }

    /// A parenthesised list. A missing value between commas is the empty one.
    fn values(&mut self, key: &str) -> Result<BTreeSet<String>, String> {
        match self.next() {
            Token::Symbol("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut values = BTreeSet::new();
        match self.peek() {
            Token::Word(_) | Token::Symbol(",") => {}
            Token::Symbol(")") => {
                self.next();
                values.insert(String::new());
                return Ok(values);
            }
            other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
        }
        loop {
            match self.next() {
                Token::Word(value) => {
                    values.insert(value);
                    match self.peek() {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => break,
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                    }
                }
                Token::Symbol(",") => {
                    let ends = *self.peek() == Token::Symbol(")");
                    if values.is_empty() || ends || *self.peek() == Token::Symbol(",") {
                        values.insert(String::new());
                    }
                    if ends {
                        break;
                    }
                }
                other => return Err(format!("found '{}', expected: ',', or identifier", other.text())),
            }
        }
        self.next();
        values.iter().enumerate().try_for_each(|(index, value)| check_value(key, index, value))?;
        Ok(values)
    }
}

fn check_key(key: &str) -> Result<(), String> {
    let messages = names::qualified_name(key);
    if messages.is_empty() {
        return Ok(());
    }
    Err(format!("<nil>: Invalid value: {}: {}", Value::from(key), messages.join("; ")))
}

fn check_value(key: &str, index: usize, value: &str) -> Result<(), String> {
    let messages = names::label_value(value);
    if messages.is_empty() {
        return Ok(());
    }
    Err(format!("values[{index}][{key}]: Invalid value: {}: {}", Value::from(value), messages.join("; ")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn parse(text: &str) -> Result<LabelSelector, String> {
        text.parse().map_err(|error: LabelSelectorError| error.to_string())
    }

    #[test]
    fn queries_match() {
        let labels = json!({"app": "web", "tier": "", "size": "5"});
        let rows = [
            ("", true),
            ("app", true),
            ("!app", false),
            ("!none", true),
            ("app=web", true),
            (" app == web ", true),
            ("app!=web", false),
            ("none!=web", true),
            ("none=web", false),
            ("tier=", true),
            ("tier=,app", true),
            ("app in (db, web)", true),
            ("app notin (db,web)", false),
            ("none notin (x)", true),
            ("none in (x)", false),
            ("tier in ()", true),
            ("tier in (,a)", true),
            ("size>4,size<6", true),
            ("size>5", false),
            ("app>1", false),
            ("app=web,tier", true),
            ("app=web,!tier", false),
        ];
        for (query, expected) in rows {
            assert_eq!(parse(query).expect(query).matches(&labels), expected, "{query}");
        }
        assert!(!parse("app").expect("a query").matches(&Value::Null));
    }

    #[test]
    fn words_that_are_operators_elsewhere() {
        let labels = json!({"in": "notin"});
        assert!(parse("in=notin").expect("a query").matches(&labels));
        assert!(parse("in in (in,notin)").expect("a query").matches(&labels));
    }

    #[test]
    fn bad_queries_are_explained() {
        let rows = [
            (",", "found ',', expected: !, identifier, or 'end of string'"),
            ("a,", "found '', expected: identifier after ','"),
            ("a=1=2", "found '=', expected: ',' or 'end of string'"),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            ("a in x", "unable to parse requirement: found 'x' expected: '('"),
            ("a in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
            ("a in (x) y", "found 'y', expected: ',' or 'end of string'"),
            ("a=(", "unable to parse requirement: found '(', expected: identifier"),
            (
                "a>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be \
                 an integer",
            ),
        ];
        for (query, expected) in rows {
            assert_eq!(parse(query).expect_err(query), expected, "{query}");
        }
        assert!(
            parse("-a")
                .expect_err("a bad key")
                .starts_with("unable to parse requirement: <nil>: Invalid value: \"-a\"")
        );
        assert!(parse("a=-").expect_err("a bad value").contains("values[0][a]: Invalid value: \"-\": a valid label"));
    }

    fn condition() -> impl Strategy<Value = Condition> {
        let value = "([a-z0-9]([a-z0-9._-]{0,5}[a-z0-9])?)?";
        let values = proptest::collection::btree_set(value, 1..4);
        prop_oneof![
            Just(Condition::Exists),
            Just(Condition::DoesNotExist),
            value.prop_map(Condition::Equals),
            value.prop_map(Condition::DoubleEquals),
            value.prop_map(Condition::NotEquals),
            values.clone().prop_map(Condition::In),
            values.prop_map(Condition::NotIn),
            (0..i64::MAX).prop_map(Condition::GreaterThan),
            (0..i64::MAX).prop_map(Condition::LessThan),
        ]
    }

    proptest! {
        #[test]
        fn a_query_reads_back_from_its_text(
            mut requirements in proptest::collection::vec(
                ("([a-z]{1,4}\\.[a-z]{1,4}/)?[a-z]{1,5}", condition())
                    .prop_map(|(key, condition)| Requirement { key, condition }),
                0..5,
            )
        ) {
            requirements.sort_by(|a, b| a.key.cmp(&b.key));
            let selector = LabelSelector { requirements };
            prop_assert_eq!(parse(&selector.to_string()), Ok(selector));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[a!=<>(), in\\PC]{0,20}") {
            let _ = parse(&text);
        }
    }
}
