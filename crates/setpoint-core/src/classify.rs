//! What a step could cost, judged by where the guest comes from and what would be lost, not by the verb.

use setpoint_api::price::Price;
use setpoint_api::step::{Action, Class};

use crate::observation::{Guest, Reading};

/// What a step puts at stake.
#[derive(Debug, Clone, Copy)]
pub struct Stake<'a> {
    pub action: Action,
    /// The guest it is done to; absent where there is none yet.
    pub guest: Option<&'a Guest>,
    /// A field whose change loses data though the guest stays, such as a volume that is taken out.
    pub data_lost: Option<&'a str>,
    /// Whether the guest runs and is interrupted by it.
    pub interrupts: bool,
    /// By how much the hourly cost changes; absent where prices are not known.
    pub hourly_cost_delta: Option<Price>,
    /// Whether what runs here costs money.
    pub bills: bool,
}

/// The class of a step, and why it is of that class.
pub fn classify(stake: &Stake<'_>) -> (Class, String) {
    let loss = match stake.action {
        Action::Delete | Action::Replace => loss(stake.guest),
        _ => stake.data_lost.map(|field| format!("the data of {field} would be lost")),
    };
    if let Some(loss) = loss {
        return (Class::Destructive, loss);
    }
    if let Some(spend) = spend(stake) {
        let interruption = if stake.interrupts { ", and what runs is interrupted" } else { "" };
        return (Class::Spend, format!("{spend}{interruption}"));
    }
    match stake.action {
        Action::Replace => (Class::Disruptive, "it is down while it is replaced".to_owned()),
        _ if stake.interrupts => (Class::Disruptive, "it runs and is interrupted".to_owned()),
        Action::Delete => (Class::Benign, "made by us, and holds no data".to_owned()),
        Action::Adopt => (Class::Benign, "only our mark is written".to_owned()),
        Action::Release => (Class::Benign, "only our mark is taken off".to_owned()),
        Action::Create => (Class::Benign, "nothing is there yet".to_owned()),
        Action::Start | Action::Stop | Action::Restart => (Class::Benign, "it does not run".to_owned()),
        Action::Update | Action::Grow => (Class::Benign, "nothing is interrupted".to_owned()),
    }
}

/// Whether a step costs money, or may, as far as is known.
pub fn spends(stake: &Stake<'_>) -> bool {
    spend(stake).is_some()
}

/// What would be lost with the guest. What is not known counts as lost.
fn loss(guest: Option<&Guest>) -> Option<String> {
    let Some(guest) = guest else { return Some("what would be lost is not known".to_owned()) };
    let made_by_us = guest.mark.as_ref().is_some_and(|mark| mark.intent.is_some());
    match guest.holds_data {
        Reading::Known(true) => Some("its data would be lost".to_owned()),
        Reading::Absent | Reading::Unknown => Some("whether it holds data is not known".to_owned()),
        Reading::Known(false) if !made_by_us => Some("it was not made by us".to_owned()),
        Reading::Known(false) => None,
    }
}

fn spend(stake: &Stake<'_>) -> Option<String> {
    match stake.hourly_cost_delta {
        Some(delta) if delta > Price::ZERO => Some(format!("costs ${delta} more an hour")),
        Some(_) => None,
        None => {
            let may_cost_more = matches!(
                stake.action,
                Action::Create | Action::Update | Action::Grow | Action::Start | Action::Replace
            );
            (stake.bills && may_cost_more).then(|| "costs money, and the price is not known".to_owned())
        }
    }
}
