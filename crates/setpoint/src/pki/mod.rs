//! Certificates: the authority of a data folder, and what it issues.

mod authority;
mod serving;
mod subject;

pub(crate) use authority::{Authority, CA_CERTIFICATE, ClientIdentity};
pub(crate) use serving::{SERVING_LIFE, Serving};
