//! Tokens to a tree, by recursive descent.
//!
//! Both the nesting of the text and the depth of the tree (`1+1+1+…` nests nothing and is still deep) are limited, so
//! that no later step can overflow the stack. Parsing ends at the first syntax error.

use super::issue::Issue;
use super::literal::{self, Literal};
use super::macros;
use super::syntax::{Access, Element, Entry, Expr, Kind};
use super::token::{self, Token, tokens};

/// The deepest tree that is accepted.
pub(super) const MAX_DEPTH: u16 = 250;

/// The longest expression that is accepted, in characters.
const MAX_CHARACTERS: usize = 100_000;

/// What may begin an operand, as it is listed in messages.
const OPERANDS: &str =
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// Words that may mean something one day.
pub(super) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Parsing stopped; what was wrong is among the issues.
struct Stopped;

type Parsed<T> = Result<T, Stopped>;

/// The tree of an expression, or what is wrong with it.
pub(super) fn parse(source: &str) -> Result<Expr, Vec<Issue>> {
    let size = source.chars().count();
    if size > MAX_CHARACTERS {
        let message = format!("expression code point size exceeds limit: size: {size}, limit {MAX_CHARACTERS}");
        return Err(vec![Issue::new(0, message)]);
    }
    let mut issues = Vec::new();
    let tokens = tokens(source, &mut issues);
    let mut parser = Parser { tokens, next: 0, nesting: 0, issues };
    match parser.whole() {
        Ok(tree) if parser.issues.is_empty() => Ok(tree),
        _ => Err(parser.issues),
    }
}

struct Parser<'t> {
    tokens: Vec<Token<'t>>,
    next: usize,
    nesting: u16,
    issues: Vec<Issue>,
}

impl<'t> Parser<'t> {
    fn whole(&mut self) -> Parsed<Expr> {
        let tree = self.expression()?;
        let token = self.peek();
        if token.kind != token::Kind::End {
            let message = format!("Syntax error: extraneous input '{}' expecting <EOF>", token.text);
            return self.stop(token.at, message);
        }
        Ok(tree)
    }

    fn peek(&self) -> Token<'t> {
        self.tokens[self.next]
    }

    /// The next token; the end is never passed.
    fn take(&mut self) -> Token<'t> {
        let token = self.peek();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    fn take_if(&mut self, symbol: &str) -> Option<Token<'t>> {
        self.peek().is(symbol).then(|| self.take())
    }

    fn expect(&mut self, symbol: &str, expected: &str) -> Parsed<Token<'t>> {
        let token = self.peek();
        match self.take_if(symbol) {
            Some(token) => Ok(token),
            None => {
                self.stop(token.at, format!("Syntax error: mismatched input '{}' expecting {expected}", token.text))
            }
        }
    }

    fn stop<T>(&mut self, at: u32, message: String) -> Parsed<T> {
        self.issues.push(Issue::new(at, message));
        Err(Stopped)
    }

    /// A node, if the tree does not become too deep by it.
    fn node(&mut self, at: u32, kind: Kind) -> Parsed<Expr> {
        let node = Expr::new(at, kind);
        if node.depth > MAX_DEPTH { self.too_deep(at) } else { Ok(node) }
    }

    fn too_deep<T>(&mut self, at: u32) -> Parsed<T> {
        self.stop(at, format!("expression recursion limit exceeded: {MAX_DEPTH}"))
    }

    fn expression(&mut self) -> Parsed<Expr> {
        if self.nesting == MAX_DEPTH {
            let at = self.peek().at;
            return self.too_deep(at);
        }
        self.nesting += 1;
        let condition = self.disjunction()?;
        let tree = match self.take_if("?") {
            None => condition,
            Some(operator) => {
                let yes = self.disjunction()?;
                self.expect(":", "':'")?;
                let no = self.expression()?;
                self.call(operator.at, "_?_:_", vec![condition, yes, no])?
            }
        };
        self.nesting -= 1;
        Ok(tree)
    }

    fn call(&mut self, at: u32, function: &str, arguments: Vec<Expr>) -> Parsed<Expr> {
        self.node(at, Kind::Call { function: function.into(), target: None, arguments })
    }

    fn disjunction(&mut self) -> Parsed<Expr> {
        self.terms("||", Parser::conjunction, Kind::Or)
    }

    fn conjunction(&mut self) -> Parsed<Expr> {
        self.terms("&&", Parser::relation, Kind::And)
    }

    fn terms(
        &mut self,
        operator: &str,
        term: fn(&mut Self) -> Parsed<Expr>,
        joined: fn(Vec<Expr>) -> Kind,
    ) -> Parsed<Expr> {
        let first = term(self)?;
        let Some(token) = self.take_if(operator) else { return Ok(first) };
        let mut terms = vec![first, term(self)?];
        while self.take_if(operator).is_some() {
            terms.push(term(self)?);
        }
        self.node(token.at, joined(terms))
    }

    fn relation(&mut self) -> Parsed<Expr> {
        let mut left = self.sum()?;
        loop {
            let token = self.peek();
            let function = match token.kind {
                token::Kind::In => "@in",
                token::Kind::Symbol("<") => "_<_",
                token::Kind::Symbol("<=") => "_<=_",
                token::Kind::Symbol(">=") => "_>=_",
                token::Kind::Symbol(">") => "_>_",
                token::Kind::Symbol("==") => "_==_",
                token::Kind::Symbol("!=") => "_!=_",
                _ => return Ok(left),
            };
            self.take();
            let right = self.sum()?;
            left = self.call(token.at, function, vec![left, right])?;
        }
    }

    fn sum(&mut self) -> Parsed<Expr> {
        self.operations(&[("+", "_+_"), ("-", "_-_")], Parser::product)
    }

    fn product(&mut self) -> Parsed<Expr> {
        self.operations(&[("*", "_*_"), ("/", "_/_"), ("%", "_%_")], Parser::unary)
    }

    fn operations(&mut self, operators: &[(&str, &str)], operand: fn(&mut Self) -> Parsed<Expr>) -> Parsed<Expr> {
        let mut left = operand(self)?;
        loop {
            let token = self.peek();
            let Some((_, function)) = operators.iter().find(|(symbol, _)| token.is(symbol)) else { return Ok(left) };
            self.take();
            let right = operand(self)?;
            left = self.call(token.at, function, vec![left, right])?;
        }
    }

    fn unary(&mut self) -> Parsed<Expr> {
        for (symbol, function) in [("!", "!_"), ("-", "-_")] {
            let first = self.peek();
            let mut count = 0;
            while self.peek().is(symbol) && !(symbol == "-" && self.sign_of_number()) {
                self.take();
                count += 1;
            }
            if count > 0 {
                let operand = self.member()?;
                return if count % 2 == 0 { Ok(operand) } else { self.call(first.at, function, vec![operand]) };
            }
        }
        self.member()
    }

    /// Whether the minus that comes next belongs to a number.
    fn sign_of_number(&self) -> bool {
        let after = self.tokens.get(self.next + 1).map(|token| token.kind);
        matches!(after, Some(token::Kind::Int | token::Kind::Float))
    }

    fn member(&mut self) -> Parsed<Expr> {
        let mut operand = self.primary()?;
        loop {
            let token = self.peek();
            if self.take_if(".").is_some() {
                operand = self.field_or_call(token.at, operand)?;
            } else if self.take_if("[").is_some() {
                let function = if self.take_if("?").is_some() { "_[?_]" } else { "_[_]" };
                let index = self.expression()?;
                self.expect("]", "']'")?;
                operand = self.call(token.at, function, vec![operand, index])?;
            } else if token.is("{")
                && let Some(name) = operand.qualified_name()
            {
                self.take();
                operand = self.message(token.at, &name)?;
            } else {
                return Ok(operand);
            }
        }
    }

    fn field_or_call(&mut self, at: u32, operand: Expr) -> Parsed<Expr> {
        let optional = self.take_if("?").is_some();
        let name = self.take();
        let field = match name.kind {
            token::Kind::Identifier => name.text,
            token::Kind::Quoted => {
                self.issues.push(Issue::new(name.at, "unsupported syntax: '`'"));
                name.text
            }
            _ => {
                let text = name.text;
                return self.stop(name.at, format!("Syntax error: no viable alternative at input '.{text}'"));
            }
        };
        if let Some(open) = (!optional).then(|| self.take_if("(")).flatten() {
            let arguments = self.arguments()?;
            return self.call_or_macro(open.at, field, Some(operand), arguments);
        }
        let access = if optional { Access::Optional } else { Access::Value };
        self.node(at, Kind::Select { operand: Box::new(operand), field: field.into(), access })
    }

    fn call_or_macro(&mut self, at: u32, name: &str, target: Option<Expr>, arguments: Vec<Expr>) -> Parsed<Expr> {
        match macros::expand(at, name, target, arguments) {
            Ok(kind) => self.node(at, kind),
            Err(issue) => {
                self.issues.push(issue);
                Err(Stopped)
            }
        }
    }

    /// The arguments of a call, up to and with the closing parenthesis.
    fn arguments(&mut self) -> Parsed<Vec<Expr>> {
        let mut arguments = Vec::new();
        if self.take_if(")").is_some() {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression()?);
            if self.take_if(",").is_none() {
                self.expect(")", "{')', ','}")?;
                return Ok(arguments);
            }
        }
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let token = self.take();
        let at = token.at;
        let literal = match token.kind {
            token::Kind::Symbol("(") => {
                let inner = self.expression()?;
                self.expect(")", "')'")?;
                return Ok(inner);
            }
            token::Kind::Symbol("[") => return self.list(at),
            token::Kind::Symbol("{") => return self.map(at),
            token::Kind::Symbol(".") if self.peek().kind == token::Kind::Identifier => {
                let name = self.take();
                return self.name(name, true);
            }
            token::Kind::Identifier => return self.name(token, false),
            token::Kind::Symbol("-") => self.number(true),
            token::Kind::Int | token::Kind::Float | token::Kind::Uint => {
                self.next -= 1;
                self.number(false)
            }
            token::Kind::String => literal::string(token.text).map(Literal::String).ok_or("invalid string literal"),
            token::Kind::Bytes => literal::bytes(token.text).map(Literal::Bytes).ok_or("invalid bytes literal"),
            token::Kind::True => Ok(Literal::Bool(true)),
            token::Kind::False => Ok(Literal::Bool(false)),
            token::Kind::Null => Ok(Literal::Null),
            _ => {
                let text = token.text;
                return self.stop(at, format!("Syntax error: mismatched input '{text}' expecting {OPERANDS}"));
            }
        };
        match literal {
            Ok(literal) => self.node(at, Kind::Literal(literal)),
            Err(message) => self.stop(at, message.to_owned()),
        }
    }

    fn number(&mut self, negative: bool) -> Result<Literal, &'static str> {
        let token = self.take();
        match token.kind {
            token::Kind::Int => literal::int(token.text, negative).map(Literal::Int).ok_or("invalid int literal"),
            token::Kind::Uint => literal::uint(token.text).map(Literal::Uint).ok_or("invalid uint literal"),
            _ => literal::double(token.text, negative).map(Literal::Double).ok_or("invalid double literal"),
        }
    }

    fn name(&mut self, token: Token<'t>, rooted: bool) -> Parsed<Expr> {
        let name = token.text;
        if RESERVED.contains(&name) {
            return self.stop(token.at, format!("reserved identifier: {name}"));
        }
        if let Some(open) = self.take_if("(") {
            let arguments = self.arguments()?;
            return self.call_or_macro(open.at, name, None, arguments);
        }
        let name = if rooted { format!(".{name}") } else { name.to_owned() };
        self.node(token.at, Kind::Identifier(name.into()))
    }

    fn list(&mut self, at: u32) -> Parsed<Expr> {
        let mut elements = Vec::new();
        while self.take_if("]").is_none() {
            let optional = self.take_if("?").is_some();
            elements.push(Element { optional, value: self.expression()? });
            if self.take_if(",").is_none() {
                self.expect("]", "{']', ','}")?;
                break;
            }
        }
        self.node(at, Kind::List(elements))
    }

    fn map(&mut self, at: u32) -> Parsed<Expr> {
        let mut entries = Vec::new();
        while self.take_if("}").is_none() {
            let optional = self.take_if("?").is_some();
            let key = self.expression()?;
            self.expect(":", "':'")?;
            entries.push(Entry { optional, key, value: self.expression()? });
            if self.take_if(",").is_none() {
                self.expect("}", "{'}', ','}")?;
                break;
            }
        }
        self.node(at, Kind::Map(entries))
    }

    fn message(&mut self, at: u32, name: &str) -> Parsed<Expr> {
        self.map(at)?;
        self.node(at, Kind::Message(name.into()))
    }
}
