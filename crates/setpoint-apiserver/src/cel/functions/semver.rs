//! Versions as semver.org defines them.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::cel::evaluate::Context;
use crate::cel::function::{Function, global, member};
use crate::cel::value::{Fault, Value};

/// A version. What it was built from (after `+`) does not count when versions are compared.
#[derive(Debug, Clone)]
pub(in crate::cel) struct Semver {
    numbers: [u64; 3],
    /// What comes before the release; none if this is the release.
    prerelease: Vec<Identifier>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Text(Box<str>),
}

impl Semver {
    fn parse(text: &str) -> Result<Semver, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, prerelease) = rest.split_once('-').map_or((rest, None), |(rest, pre)| (rest, Some(pre)));
        let numbers = [number("major", major)?, number("minor", minor)?, number("patch", patch)?];
        let prerelease =
            prerelease.into_iter().flat_map(|text| text.split('.')).map(identifier).collect::<Result<_, _>>()?;
        for part in build.into_iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_plain(part) {
                return Err(format!("Invalid character(s) found in build meta data {part:?}"));
            }
        }
        Ok(Semver { numbers, prerelease })
    }

    /// How much there is to compare.
    pub(in crate::cel) fn weight(&self) -> u64 {
        let bytes = |identifier: &Identifier| match identifier {
            Identifier::Number(_) => 0,
            Identifier::Text(text) => text.len() as u64 / 10,
        };
        self.prerelease.iter().map(|identifier| 1 + bytes(identifier)).sum()
    }

    /// Reads what people write: `v1`, `1.2`, `01.2.3`.
    fn parse_loosely(text: &str) -> Result<Semver, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_leading_zeros).collect();
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data".to_owned());
        }
        parts.resize(3, "0".to_owned());
        Semver::parse(&parts.join("."))
    }
}

impl PartialEq for Semver {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Semver {}

impl PartialOrd for Semver {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Semver {
    fn cmp(&self, other: &Self) -> Ordering {
        let prerelease = match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            _ => self.prerelease.cmp(&other.prerelease),
        };
        self.numbers.cmp(&other.numbers).then(prerelease)
    }
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn without_leading_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let kept = part.trim_start_matches('0');
    if kept.starts_with(|c: char| c.is_ascii_digit()) { kept.to_owned() } else { format!("0{kept}") }
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    if !is_digits(text) {
        return Err(format!("Invalid character(s) found in {name} number {text:?}"));
    }
    if text.len() > 1 && text.starts_with('0') {
        let name = name[..1].to_uppercase() + &name[1..];
        return Err(format!("{name} number must not contain leading zeroes {text:?}"));
    }
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {text:?}: invalid syntax"))
}

fn identifier(text: &str) -> Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if is_digits(text) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {text:?}"));
        }
        return text.parse().map(Identifier::Number).map_err(|_| format!("{text:?} is out of range"));
    }
    if is_plain(text) {
        Ok(Identifier::Text(text.into()))
    } else {
        Err(format!("Invalid character(s) found in prerelease {text:?}"))
    }
}

const TEST: &[&str] = &["(kubernetes.Semver, kubernetes.Semver) -> bool"];
const PART: &[&str] = &["(kubernetes.Semver) -> int"];

pub(super) const FUNCTIONS: &[Function] = &[
    global(
        "semver",
        &["(string) -> kubernetes.Semver", "(string, bool) -> kubernetes.Semver"],
        |context, arguments| match read(context, arguments)? {
            Ok(version) => Ok(Value::Semver(Rc::new(version))),
            Err(problem) => Err(Fault::failed(problem)),
        },
    ),
    global("isSemver", &["(string) -> bool", "(string, bool) -> bool"], |context, arguments| {
        Ok(Value::Bool(read(context, arguments)?.is_ok()))
    }),
    member("isGreaterThan", TEST, |context, arguments| {
        compare(context, arguments).map(|ordering| Value::Bool(ordering.is_gt()))
    }),
    member("isLessThan", TEST, |context, arguments| {
        compare(context, arguments).map(|ordering| Value::Bool(ordering.is_lt()))
    }),
    member("compareTo", &["(kubernetes.Semver, kubernetes.Semver) -> int"], |context, arguments| {
        compare(context, arguments).map(|ordering| Value::Int(ordering as i64))
    }),
    member("major", PART, |_, arguments| part(arguments, 0)),
    member("minor", PART, |_, arguments| part(arguments, 1)),
    member("patch", PART, |_, arguments| part(arguments, 2)),
];

fn read(context: &mut Context<'_, '_>, arguments: &[Value<'_>]) -> Result<Result<Semver, String>, Fault> {
    let (text, loosely) = match arguments {
        [Value::String(text)] => (text, false),
        [Value::String(text), Value::Bool(loosely)] => (text, *loosely),
        _ => return Err(Fault::no_such_overload()),
    };
    // A text of dots has as many parts as it has dots.
    context.meter.charge_reading(text)?;
    context.meter.charge(text.len() as u64)?;
    Ok(if loosely { Semver::parse_loosely(text) } else { Semver::parse(text) })
}

fn compare(context: &mut Context<'_, '_>, arguments: &[Value<'_>]) -> Result<Ordering, Fault> {
    match arguments {
        [Value::Semver(left), Value::Semver(right)] => {
            context.meter.charge(left.weight().min(right.weight()))?;
            Ok(left.cmp(right))
        }
        _ => Err(Fault::no_such_overload()),
    }
}

fn part<'a>(arguments: &[Value<'a>], place: usize) -> Result<Value<'a>, Fault> {
    match arguments {
        [Value::Semver(version)] => Ok(Value::Int(version.numbers[place] as i64)),
        _ => Err(Fault::no_such_overload()),
    }
}
