//! What can be read, and in which forms.

mod lists;
mod negotiation;
mod paging;
mod past;
mod revisions;
mod selectors;
