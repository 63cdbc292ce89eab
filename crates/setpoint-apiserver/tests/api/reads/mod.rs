//! What can be read, and in which forms.

mod lists;
mod negotiation;
mod paging;
mod revisions;
mod selectors;
