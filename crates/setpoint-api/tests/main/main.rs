//! What a user of the kinds would notice: which documents are taken, and what is said of the others.

#![expect(clippy::print_stdout, reason = "what a test prints is shown when it fails")]

mod cel_rules;
mod change_set;
mod crds;
mod documents;
mod environment;
mod fixture;
mod interpolation;
mod machine;
mod review;
mod structural;
