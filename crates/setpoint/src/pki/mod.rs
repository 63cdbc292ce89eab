//! Certificates: the authority of a data folder, and what it issues.

mod authority;
mod serving;

pub(crate) use authority::{Authority, ClientIdentity};
pub(crate) use serving::{SERVING_LIFE, Serving};
