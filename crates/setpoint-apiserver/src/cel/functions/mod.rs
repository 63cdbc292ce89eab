//! The functions of CEL's standard library and of Kubernetes' own, a file for each.

mod convert;
pub(super) mod format;
pub(super) mod lists;
pub(super) mod network;
mod operators;
mod optional;
mod quantity;
mod regex;
pub(super) mod semver;
mod sets;
mod strings;
pub(super) mod strings_format;
mod times;
pub(super) mod url;

use super::function::Function;

/// All functions.
pub(super) static LIBRARIES: [&[Function]; 14] = [
    operators::FUNCTIONS,
    convert::FUNCTIONS,
    times::FUNCTIONS,
    strings::FUNCTIONS,
    strings_format::FUNCTIONS,
    lists::FUNCTIONS,
    sets::FUNCTIONS,
    regex::FUNCTIONS,
    optional::FUNCTIONS,
    url::FUNCTIONS,
    network::FUNCTIONS,
    quantity::FUNCTIONS,
    format::FUNCTIONS,
    semver::FUNCTIONS,
];
