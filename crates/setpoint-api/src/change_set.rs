//! `ChangeSet`: what will be done, and what was allowed of it.
