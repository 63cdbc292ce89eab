//! Follows the messages of one connection: which bytes may be passed on, which have to wait, and when it is over.

use memchr::memchr;

use super::chunked::Chunked;
use super::rules::{BodyLength, check};
use super::{HeadLimits, Refusal};

/// Follows one connection, from its first byte.
#[derive(Debug)]
pub struct Scanner {
    limits: HeadLimits,
    state: State,
    /// The body of this message is followed by a wish to change the protocol.
    is_upgrade_wanted: bool,
}

#[derive(Debug)]
enum State {
    /// Within a head, of which so many bytes were looked at, and whose line began at `line`.
    Head {
        looked: usize,
        line: usize,
    },
    Bytes {
        left: u64,
    },
    Chunks(Chunked),
    /// Whether another protocol begins is decided by the answer.
    Undecided,
    /// Another protocol: its bytes are nobody's business here.
    Passing,
    Refused,
}

/// What the next bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// These many bytes are an empty line before a head: they are dropped.
    Skip(usize),
    /// These many bytes are a whole head, and it is sound.
    Head(usize),
    /// These many bytes belong to a body, or to another protocol.
    Pass(usize),
    /// More bytes are needed.
    More,
    /// Nothing may be passed on until the answer is known.
    Hold,
    /// The head is refused; nothing of it was passed on.
    RefusedHead(Refusal),
    /// The body is refused; a part of it was passed on.
    RefusedBody(Refusal),
}

impl Scanner {
    pub fn new(limits: HeadLimits) -> Self {
        Self { limits, state: State::Head { looked: 0, line: 0 }, is_upgrade_wanted: false }
    }

    /// Looks at bytes of which none was passed on yet. What it returns has to be taken before the next call; bytes that are
    /// not taken are given again.
    pub fn scan(&mut self, input: &[u8]) -> Scan {
        let scan = match &mut self.state {
            State::Head { .. } => self.head(input),
            State::Bytes { left } => {
                let here = (*left).min(input.len() as u64);
                *left -= here;
                if *left == 0 {
                    self.message_ends();
                }
                if here == 0 { Scan::More } else { Scan::Pass(here as usize) }
            }
            State::Chunks(chunked) => match chunked.follow(input) {
                Ok(0) => Scan::More,
                Ok(bytes) => {
                    if matches!(chunked, Chunked::End) {
                        self.message_ends();
                    }
                    Scan::Pass(bytes)
                }
                Err(refusal) => Scan::RefusedBody(refusal),
            },
            State::Undecided => Scan::Hold,
            State::Passing if input.is_empty() => Scan::More,
            State::Passing => Scan::Pass(input.len()),
            State::Refused => Scan::Hold,
        };
        if matches!(scan, Scan::RefusedHead(_) | Scan::RefusedBody(_)) {
            self.state = State::Refused;
        }
        scan
    }

    /// The answer to a wish to change the protocol is known.
    pub fn decide_upgrade(&mut self, is_accepted: bool) {
        if matches!(self.state, State::Undecided) {
            self.state = if is_accepted { State::Passing } else { State::Head { looked: 0, line: 0 } };
        }
    }

    /// Whether the last head asked for another protocol, and is not answered yet.
    pub fn awaits_upgrade(&self) -> bool {
        self.is_upgrade_wanted || matches!(self.state, State::Undecided)
    }

    /// Whether nothing of a message has been seen since the last one ended.
    pub fn is_between_messages(&self) -> bool {
        matches!(self.state, State::Head { looked: 0, .. })
    }

    /// Whether a part of a head has been seen.
    pub fn is_within_head(&self) -> bool {
        matches!(self.state, State::Head { looked: 1.., .. })
    }

    pub fn is_within_body(&self) -> bool {
        matches!(self.state, State::Bytes { .. } | State::Chunks(_))
    }

    fn message_ends(&mut self) {
        self.state = match std::mem::take(&mut self.is_upgrade_wanted) {
            true => State::Undecided,
            false => State::Head { looked: 0, line: 0 },
        };
    }

    fn head(&mut self, input: &[u8]) -> Scan {
        let State::Head { looked, line } = &mut self.state else { return Scan::More };
        if *looked == 0 {
            match input {
                [] | [b'\r'] => return Scan::More,
                [b'\r', b'\n', ..] => return Scan::Skip(2),
                [b'\r', ..] => return Scan::RefusedHead(Refusal::BareCr),
                [b'\n', ..] => return Scan::RefusedHead(Refusal::BareLf),
                // What cannot become a method is refused at once: TLS on a plain port, for one.
                [first, ..] if !first.is_ascii_alphanumeric() && !b"!#$%&'*+-.^_`|~".contains(first) => {
                    return Scan::RefusedHead(Refusal::Method);
                }
                _ => {}
            }
        }
        while let Some(found) = memchr(b'\n', &input[*looked..]) {
            let end = *looked + found;
            if end == *line || input[end - 1] != b'\r' {
                return Scan::RefusedHead(Refusal::BareLf);
            }
            if memchr(b'\r', &input[*line..end - 1]).is_some() {
                return Scan::RefusedHead(Refusal::BareCr);
            }
            let is_empty = end - 1 == *line;
            *looked = end + 1;
            *line = end + 1;
            if is_empty || end > self.limits.bytes {
                return self.whole_head(&input[..=end]);
            }
        }
        *looked = input.len();
        match input.len() > self.limits.bytes {
            true => Scan::RefusedHead(Refusal::TooLarge),
            false => Scan::More,
        }
    }

    fn whole_head(&mut self, head: &[u8]) -> Scan {
        if head.len() > self.limits.bytes {
            return Scan::RefusedHead(Refusal::TooLarge);
        }
        match check(head, &self.limits) {
            Err(refusal) => Scan::RefusedHead(refusal),
            Ok(sound) => {
                self.is_upgrade_wanted = sound.wants_upgrade;
                match sound.body {
                    BodyLength::Bytes(0) => self.message_ends(),
                    BodyLength::Bytes(left) => self.state = State::Bytes { left },
                    BodyLength::Chunked => self.state = State::Chunks(Chunked::start()),
                }
                Scan::Head(head.len())
            }
        }
    }
}
