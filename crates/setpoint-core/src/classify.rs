//! What a step could cost, judged by where the guest comes from and what would be lost, not by the verb.

use setpoint_api::price::Price;
use setpoint_api::step::{Action, Class};

use crate::observation::{Guest, Reading};
use crate::registry::Capabilities;

/// What a step puts at stake.
#[derive(Debug, Clone, Copy)]
pub struct Stake<'a> {
    pub action: Action,
    pub capabilities: &'a Capabilities,
    /// The guest it is done to; absent where there is none yet.
    pub guest: Option<&'a Guest>,
    /// The data that is lost though the guest stays, as a sentence: a volume is taken out, or the disk made anew.
    pub data_lost: Option<&'a str>,
    /// Whether the guest or a volume of it was protected since the object was last as desired.
    pub was_protected: bool,
    /// Whether the guest runs and is interrupted by it.
    pub interrupts: bool,
    /// By how much the hourly cost changes; absent where prices are not known.
    pub hourly_cost_delta: Option<Price>,
}

/// The class of a step, and why it is of that class.
pub fn classify(stake: &Stake<'_>) -> (Class, String) {
    let loss = match stake.action {
        Action::Delete | Action::Replace if stake.was_protected => {
            Some("its protection was only just taken off".to_owned())
        }
        Action::Delete | Action::Replace => loss(stake),
        // From then on it is changed and stopped as any other guest of ours, and may hold what others rely on.
        Action::Adopt => Some("it was not made by us, and is managed from then on".to_owned()),
        _ => stake.data_lost.map(str::to_owned),
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
        Action::Delete => (Class::Benign, "made by us, does not run, and holds no data".to_owned()),
        Action::Adopt | Action::Release => (Class::Benign, "only our mark is taken off".to_owned()),
        Action::Create => (Class::Benign, "nothing is there yet".to_owned()),
        Action::Start | Action::Stop | Action::Restart => (Class::Benign, "it does not run".to_owned()),
        Action::Update | Action::Grow | Action::Loosen => (Class::Benign, "nothing is interrupted".to_owned()),
    }
}

/// Whether a step costs money, or may, as far as is known.
pub fn spends(stake: &Stake<'_>) -> bool {
    spend(stake).is_some()
}

/// What would be lost with the guest. What is not known counts as lost.
fn loss(stake: &Stake<'_>) -> Option<String> {
    let Some(guest) = stake.guest else { return Some("what would be lost is not known".to_owned()) };
    let made_by_us = guest.mark.as_ref().is_some_and(|mark| mark.intent.is_some());
    match (guest.holds_data, guest.has_lasting_disk(stake.capabilities)) {
        (Reading::Known(true), _) => Some("its data would be lost".to_owned()),
        (Reading::Absent | Reading::Unknown, _) => Some("whether it holds data is not known".to_owned()),
        (Reading::Known(false), _) if !made_by_us => Some("it was not made by us".to_owned()),
        (Reading::Known(false), Reading::Known(true)) => Some("the data on its disk would be lost".to_owned()),
        (Reading::Known(false), Reading::Known(false)) => None,
        (Reading::Known(false), _) => Some("whether its disk holds data is not known".to_owned()),
    }
}

fn spend(stake: &Stake<'_>) -> Option<String> {
    let bills = stake.capabilities.bills;
    if stake.action == Action::Release {
        return match stake.guest.and_then(|guest| guest.hourly_price) {
            Some(price) if price > Price::ZERO => Some(format!("goes on costing ${price} an hour")),
            Some(_) => None,
            None => bills.then(|| "goes on costing money, and the price is not known".to_owned()),
        };
    }
    match stake.hourly_cost_delta {
        Some(delta) if delta > Price::ZERO => Some(format!("costs ${delta} more an hour")),
        Some(_) => None,
        None => {
            let may_cost_more = matches!(
                stake.action,
                Action::Create | Action::Update | Action::Grow | Action::Start | Action::Replace
            );
            (bills && may_cost_more).then(|| "costs money, and the price is not known".to_owned())
        }
    }
}
