//! What a step could cost.

use setpoint_api::price::Price;
use setpoint_api::step::{Action, Class};
use setpoint_core::classify::{Stake, classify};
use setpoint_core::observation::{Guest, Mark, Reading};

use crate::fixture::{GIB, RACK, guest, limited, machine, small, with};

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
        capabilities: &RACK,
        guest: None,
        data_lost: None,
        was_protected: false,
        interrupts: false,
        hourly_cost_delta: None,
    };
    let billed = limited(|rack| rack.bills = true);
    let lasting = limited(|rack| rack.ephemeral_disks = false);
    let silent_on_disks = limited(|rack| (rack.ephemeral_disks, rack.fields) = (false, &[]));
    let with_disk = guest("101", &machine("web"), with(small(), "disk", 10 * GIB));
    let costly = |guest: &Guest, price: &str| Guest { hourly_price: price.parse().ok(), ..guest.clone() };
    let (at_ten_cents, for_nothing) = (costly(&ours, "0.10"), costly(&ours, "0"));
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
            Stake { capabilities: billed, ..nothing },
            Class::Spend,
            "costs money, and the price is not known",
        ),
        (
            "a create that costs nothing where others are billed",
            Stake { capabilities: billed, hourly_cost_delta: dollars("0"), ..nothing },
            Class::Benign,
            "nothing is there yet",
        ),
        (
            "an adoption",
            done(Action::Adopt, &unmarked),
            Class::Destructive,
            "it was not made by us, and is managed from then on",
        ),
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
            Stake {
                data_lost: Some("the data of volumes.data would be lost"),
                hourly_cost_delta: dollars("-1"),
                ..done(Action::Update, &ours)
            },
            Class::Destructive,
            "the data of volumes.data would be lost",
        ),
        (
            "a restart of what runs",
            Stake {
                interrupts: true,
                hourly_cost_delta: dollars("0"),
                capabilities: billed,
                ..done(Action::Restart, &ours)
            },
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
            Stake { capabilities: billed, hourly_cost_delta: dollars("-1"), ..done(Action::Update, &ours) },
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
            Stake { capabilities: billed, ..done(Action::Start, &ours) },
            Class::Spend,
            "costs money, and the price is not known",
        ),
        ("a grown disk", done(Action::Grow, &with_data), Class::Benign, "nothing is interrupted"),
        (
            "a delete of what we made and that holds nothing",
            done(Action::Delete, &ours),
            Class::Benign,
            "made by us, does not run, and holds no data",
        ),
        (
            "a delete of what runs",
            Stake { interrupts: true, ..done(Action::Delete, &ours) },
            Class::Disruptive,
            "it runs and is interrupted",
        ),
        (
            "a delete of a disk that survives a stop",
            Stake { capabilities: lasting, ..done(Action::Delete, &with_disk) },
            Class::Destructive,
            "the data on its disk would be lost",
        ),
        (
            "a replacement of a disk that survives a stop",
            Stake { capabilities: lasting, ..done(Action::Replace, &with_disk) },
            Class::Destructive,
            "the data on its disk would be lost",
        ),
        (
            "a delete of a disk where every stop empties it",
            done(Action::Delete, &with_disk),
            Class::Benign,
            "made by us, does not run, and holds no data",
        ),
        (
            "a delete of what has no disk of its own",
            Stake { capabilities: lasting, ..done(Action::Delete, &ours) },
            Class::Benign,
            "made by us, does not run, and holds no data",
        ),
        (
            "a delete where the deployer says nothing of disks",
            Stake { capabilities: silent_on_disks, ..done(Action::Delete, &ours) },
            Class::Destructive,
            "whether its disk holds data is not known",
        ),
        (
            "a delete just after its protection was taken off",
            Stake { was_protected: true, ..done(Action::Delete, &ours) },
            Class::Destructive,
            "its protection was only just taken off",
        ),
        (
            "an update just after its protection was taken off",
            Stake { was_protected: true, ..done(Action::Update, &ours) },
            Class::Benign,
            "nothing is interrupted",
        ),
        (
            "a release of what costs money",
            done(Action::Release, &at_ten_cents),
            Class::Spend,
            "goes on costing $0.10 an hour",
        ),
        (
            "a release of what costs nothing where others are billed",
            Stake { capabilities: billed, ..done(Action::Release, &for_nothing) },
            Class::Benign,
            "only our mark is taken off",
        ),
        (
            "a release where everything is billed and the price is not known",
            Stake { capabilities: billed, ..done(Action::Release, &ours) },
            Class::Spend,
            "goes on costing money, and the price is not known",
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
