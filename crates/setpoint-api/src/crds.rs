//! The CustomResourceDefinitions of all kinds.
