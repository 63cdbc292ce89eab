//! What a step could cost.

use setpoint_api::price::Price;
use setpoint_api::step::{Action, Class};
use setpoint_core::classify::{Stake, classify};
use setpoint_core::observation::{Guest, Mark, Reading};

use crate::fixture::{guest, machine, small};

#[test]
fn classes() {
    let ours = guest("101", &machine("web"), small());
    let holds = |data: Reading<bool>| Guest { holds_data: data, ..ours.clone() };
    let adopted = Guest { mark: ours.mark.clone().map(|mark| Mark { intent: None, ..mark }), ..ours.clone() };
    let unmarked = Guest { mark: None, ..ours.clone() };
    let with_data = holds(Reading::Known(true));
    let unknown = holds(Reading::Unknown);
    let silent = holds(Reading::Absent);
    let nothing = Stake {
        action: Action::Create,
        guest: None,
        data_lost: None,
        interrupts: false,
        hourly_cost_delta: None,
        bills: false,
    };
    let done = |action, guest| Stake { action, guest: Some(guest), ..nothing };
    let dollars = |text: &str| Some(text.parse::<Price>().unwrap());
    for (name, stake, class, reason) in [
        ("a create for nothing", nothing, Class::Benign, "nothing is there yet"),
        (
            "a create with a price",
            Stake { hourly_cost_delta: dollars("0.34"), ..nothing },
            Class::Spend,
            "costs $0.34 more an hour",
        ),
        (
            "a create where everything is billed and the price is not known",
            Stake { bills: true, ..nothing },
            Class::Spend,
            "costs money, and the price is not known",
        ),
        (
            "a create that costs nothing where others are billed",
            Stake { bills: true, hourly_cost_delta: dollars("0"), ..nothing },
            Class::Benign,
            "nothing is there yet",
        ),
        ("an adoption", done(Action::Adopt, &unmarked), Class::Benign, "only our mark is written"),
        ("a release", done(Action::Release, &ours), Class::Benign, "only our mark is taken off"),
        ("an update in place", done(Action::Update, &with_data), Class::Benign, "nothing is interrupted"),
        (
            "an update that restarts",
            Stake { interrupts: true, ..done(Action::Update, &ours) },
            Class::Disruptive,
            "it runs and is interrupted",
        ),
        (
            "an update that costs more and restarts",
            Stake { interrupts: true, hourly_cost_delta: dollars("1"), ..done(Action::Update, &ours) },
            Class::Spend,
            "costs $1.00 more an hour, and what runs is interrupted",
        ),
        (
            "an update that takes a volume out, whatever else it is",
            Stake { data_lost: Some("volumes.data"), hourly_cost_delta: dollars("-1"), ..done(Action::Update, &ours) },
            Class::Destructive,
            "the data of volumes.data would be lost",
        ),
        (
            "a restart of what runs",
            Stake { interrupts: true, hourly_cost_delta: dollars("0"), bills: true, ..done(Action::Restart, &ours) },
            Class::Disruptive,
            "it runs and is interrupted",
        ),
        (
            "a delete of what no answer says whether it holds data",
            done(Action::Delete, &silent),
            Class::Destructive,
            "whether it holds data is not known",
        ),
        (
            "an update that costs less",
            Stake { bills: true, hourly_cost_delta: dollars("-1"), ..done(Action::Update, &ours) },
            Class::Benign,
            "nothing is interrupted",
        ),
        (
            "a stop of what runs",
            Stake { interrupts: true, ..done(Action::Stop, &ours) },
            Class::Disruptive,
            "it runs and is interrupted",
        ),
        ("a start", done(Action::Start, &ours), Class::Benign, "it does not run"),
        (
            "a start where everything is billed",
            Stake { bills: true, ..done(Action::Start, &ours) },
            Class::Spend,
            "costs money, and the price is not known",
        ),
        ("a grown disk", done(Action::Grow, &with_data), Class::Benign, "nothing is interrupted"),
        (
            "a delete of what we made and that holds nothing",
            done(Action::Delete, &ours),
            Class::Benign,
            "made by us, and holds no data",
        ),
        ("a delete of data", done(Action::Delete, &with_data), Class::Destructive, "its data would be lost"),
        (
            "a delete of what may hold data",
            done(Action::Delete, &unknown),
            Class::Destructive,
            "whether it holds data is not known",
        ),
        ("a delete of what was adopted", done(Action::Delete, &adopted), Class::Destructive, "it was not made by us"),
        (
            "a delete of what is not marked",
            done(Action::Delete, &unmarked),
            Class::Destructive,
            "it was not made by us",
        ),
        (
            "a delete of something that was not observed",
            Stake { action: Action::Delete, ..nothing },
            Class::Destructive,
            "what would be lost is not known",
        ),
        (
            "a replacement without data",
            Stake { interrupts: true, ..done(Action::Replace, &ours) },
            Class::Disruptive,
            "it is down while it is replaced",
        ),
        ("a replacement with data", done(Action::Replace, &with_data), Class::Destructive, "its data would be lost"),
        (
            "a replacement of what was adopted, though it costs more too",
            Stake { hourly_cost_delta: dollars("5"), ..done(Action::Replace, &adopted) },
            Class::Destructive,
            "it was not made by us",
        ),
    ] {
        assert_eq!(classify(&stake), (class, reason.to_owned()), "{name}");
    }
}
