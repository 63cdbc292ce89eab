//! What whoever acts on guests asks before it acts.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`leave`] | which steps may be taken now |
//! | [`treasury`] | what may be spent where there are limits, by one at a time |
//! | [`asking`] | the ChangeSet of steps that wait for people |

pub mod asking;
pub mod leave;
pub mod treasury;

pub use asking::{Asker, Petition};
pub use leave::{Asked, held, is_remembered_here_alone, judge, waits_for_people};
pub use treasury::{Spending, Treasury};
