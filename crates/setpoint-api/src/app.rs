//! `App`: something served, and how a new revision of it takes over.
