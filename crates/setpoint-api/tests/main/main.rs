//! What a user of the kinds would notice: which documents are taken, and what is said of the others.

mod bounds;
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
