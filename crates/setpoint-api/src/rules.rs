//! Rules that the fields of several kinds share.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::field::{Errors, Path};
use crate::names;
use crate::quantity::Quantity;

/// The form of an amount of bytes in a schema, such as `512Mi` or `1.5Gi`.
pub(crate) const BYTES_PATTERN: &str = r"^[0-9]{1,15}(\.[0-9]{1,9})?(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$";

/// The form of a digest in a schema.
pub(crate) const DIGEST_PATTERN: &str = r"^(hmac-)?sha256:[0-9a-f]{64}$";

/// A grammar of `names`: the text, and what is wrong with it.
pub(crate) type Grammar = fn(&str) -> Vec<String>;

/// A text that is required and follows a grammar.
pub(crate) fn name(path: &Path<'_>, value: &str, grammar: Grammar, errors: &mut Errors) {
    if value.is_empty() {
        errors.required(path, "");
        return;
    }
    grammar(value).iter().for_each(|message| errors.invalid(path, value, message));
}

/// A reference to an object by its name, which every kind of ours keeps to the grammar of subdomains.
pub(crate) fn object_name(path: &Path<'_>, value: &str, errors: &mut Errors) {
    name(path, value, names::dns1123_subdomain, errors);
}

/// A text of at most `max` bytes.
pub(crate) fn length(path: &Path<'_>, value: &str, max: usize, errors: &mut Errors) {
    if value.len() > max {
        errors.too_long(path, max);
    }
}

/// A text of one line, so that it cannot pretend to be more than it is where it is shown or signed.
pub(crate) fn one_line(path: &Path<'_>, value: &str, max: usize, errors: &mut Errors) {
    length(path, value, max, errors);
    if value.chars().any(char::is_control) {
        errors.invalid(path, value, "must be one line without control characters");
    }
}

/// A text that is sent as it is written: a variable in it would be sent literally, by somebody who thinks otherwise.
pub(crate) fn no_variables(path: &Path<'_>, value: &str, errors: &mut Errors) {
    if value.contains("${") {
        errors.invalid(path, value, "variables are replaced in command, args and env of a Machine only");
    }
}

/// A number within bounds.
pub(crate) fn between(path: &Path<'_>, value: u32, bounds: RangeInclusive<u32>, errors: &mut Errors) {
    if !bounds.contains(&value) {
        let detail = format!("must be between {} and {}, inclusive", bounds.start(), bounds.end());
        errors.invalid(path, value, &detail);
    }
}

/// A list of at most `max` items.
pub(crate) fn count(path: &Path<'_>, actual: usize, max: usize, errors: &mut Errors) {
    if actual > max {
        errors.too_many(path, actual, max);
    }
}

/// An amount of bytes above zero.
pub(crate) fn bytes(path: &Path<'_>, value: &str, errors: &mut Errors) {
    match Quantity::parse(value) {
        Err(_) => errors.invalid(path, value, "must be an amount of bytes, such as \"512Mi\" or \"4Gi\""),
        Ok(amount) if amount.is_zero() || amount.is_negative() => {
            errors.invalid(path, value, "must be greater than zero");
        }
        Ok(amount) if !amount.is_whole() => errors.invalid(path, value, "must be whole bytes"),
        Ok(_) => {}
    }
}

/// The digest of a step.
pub(crate) fn digest(path: &Path<'_>, value: &str, errors: &mut Errors) {
    let is_hex = |text: &str| text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    // A keyed digest says so.
    if !value.strip_prefix("hmac-").unwrap_or(value).strip_prefix("sha256:").is_some_and(is_hex) {
        let detail = "must be \"sha256:\" or \"hmac-sha256:\" and 64 lower-case hexadecimal digits";
        errors.invalid(path, value, detail);
    }
}

/// Tells which items of a list were there before, by the key that they are merged by.
#[derive(Debug, Default)]
pub(crate) struct Seen(BTreeSet<String>);

impl Seen {
    /// Reports the key at `path` if it came before.
    pub(crate) fn check(&mut self, path: &Path<'_>, key: &str, errors: &mut Errors) {
        if !self.0.insert(key.to_owned()) {
            errors.duplicate(path, key);
        }
    }
}
