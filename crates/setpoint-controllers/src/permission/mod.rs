//! What whoever acts on guests asks before it acts.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`leave`] | which steps may be taken now |
//! | [`confirmation`] | the same asked of the server itself, just before something is done |
//! | [`treasury`] | what may be spent where there are limits: one at a time decides, and calls are made side by side |
//! | [`account`] | the calls there that may not show yet |
//! | [`asking`] | the ChangeSet of steps that wait for people |

pub mod account;
pub mod asking;
pub mod confirmation;
pub mod leave;
pub mod treasury;

pub use asking::{Asker, Hearing, Petition};
pub use confirmation::{confirm, is_at_stake};
pub use leave::{Asked, held, is_remembered_here_alone, judge, waits_for_people};
pub use treasury::{Reservation, SharedAccount, Spending, Treasury};
