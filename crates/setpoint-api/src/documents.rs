//! What a document says that its kind does not know.
