//! What whoever acts on guests asks before it acts.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`approval`] | which steps may be taken now: by what the caches show, and by the server itself just before |
//! | [`rights`] | whether a reviewer has the right to approve |
//! | [`treasury`] | what may be spent where there are limits: one at a time decides, and calls are made side by side |
//! | [`account`] | the calls there that may not show yet |

pub mod account;
pub mod approval;
pub mod rights;
pub mod treasury;

pub use approval::{Asked, confirm, held, is_at_stake, judge};
pub use treasury::{Reservation, SharedAccount, Spending, Treasury};
