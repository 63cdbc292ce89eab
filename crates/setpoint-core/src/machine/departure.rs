//! What is held while the Environment of a Machine is being deleted: a guest that came now could outlive the only way to it.

use std::collections::BTreeSet;

use setpoint_api::step::{Action, Step};

/// Takes out of a plan what would bring a guest, and whatever comes only after that; gives it back.
pub fn hold_arrivals(steps: &mut Vec<Step>) -> Vec<Step> {
    let mut ids: BTreeSet<String> = BTreeSet::new();
    let is_held = |step: &mut Step| {
        let is_held = brings_a_guest(step.action) || step.depends_on.iter().any(|id| ids.contains(id));
        if is_held {
            ids.insert(step.id.clone());
        }
        is_held
    };
    steps.extract_if(.., is_held).collect()
}

fn brings_a_guest(action: Action) -> bool {
    match action {
        Action::Create | Action::Replace | Action::Adopt => true,
        Action::Update
        | Action::Grow
        | Action::Start
        | Action::Stop
        | Action::Restart
        | Action::Delete
        | Action::Release => false,
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::step::{Class, Origin, Refusal, Target};

    use super::*;
    use crate::machine::{Standing, concerns_people};

    fn step(action: Action, after: &[Action]) -> Step {
        Step {
            id: format!("{action:?}"),
            target: Target { namespace: "shop".into(), name: "web".into(), kind: "Machine".into() },
            action,
            provider_id: None,
            reason: "spec changed".to_owned(),
            origin: Origin::Desired,
            changes: Vec::new(),
            class: Class::Benign,
            class_reason: "nothing is lost".to_owned(),
            interrupts: false,
            create_first: false,
            hourly_cost_delta: None,
            spends: false,
            depends_on: after.iter().map(|action| format!("{action:?}")).collect(),
            old_spec_digest: None,
            new_spec_digest: None,
            digest: "digest".to_owned(),
        }
    }

    #[test]
    fn nothing_comes_to_a_place_that_goes_and_what_is_there_is_seen_to() {
        use Action::{Adopt, Create, Delete, Grow, Release, Replace, Restart, Start, Stop, Update};
        let rows = vec![
            ("a new guest does not come", vec![step(Create, &[])], vec![]),
            ("nor does one in place of another", vec![step(Replace, &[])], vec![]),
            ("nor one that was there before", vec![step(Adopt, &[]), step(Update, &[Adopt])], vec![]),
            ("what follows does not happen either", vec![step(Create, &[]), step(Start, &[Create])], vec![]),
            (
                "nor what follows from that",
                vec![step(Create, &[]), step(Start, &[Create]), step(Delete, &[Start])],
                vec![],
            ),
            ("what has nothing to do with it does", vec![step(Create, &[]), step(Delete, &[])], vec![Delete]),
            ("a guest goes", vec![step(Delete, &[])], vec![Delete]),
            ("a guest is let go", vec![step(Release, &[])], vec![Release]),
            (
                "a guest is changed",
                vec![step(Stop, &[]), step(Update, &[Stop]), step(Grow, &[Update]), step(Start, &[Grow])],
                vec![Stop, Update, Grow, Start],
            ),
            ("a guest is started again", vec![step(Restart, &[])], vec![Restart]),
        ];
        for (name, mut steps, expected) in rows {
            let all = steps.len();
            let held = hold_arrivals(&mut steps);
            assert_eq!(steps.iter().map(|step| step.action).collect::<Vec<_>>(), expected, "{name}");
            assert_eq!(held.len() + steps.len(), all, "{name}");
        }
    }

    #[test]
    fn a_machine_says_what_its_environment_does_not_get_any_more() {
        let create = || vec![step(Action::Create, &[])];
        let refusal =
            Refusal { target: create().remove(0).target, field: "spec.disk".into(), message: "it shrinks".into() };
        let leaving = "the Environment lab is being deleted, and nothing comes there any more (spec changed): delete this Machine";
        let rows = [
            ("something is held", Standing::unobserved("not all was seen"), create(), ("EnvironmentLeaving", leaving)),
            ("nothing is", Standing::unobserved("not all was seen"), vec![], ("Unobserved", "not all was seen")),
            ("it is refused anyway", Standing::refused(&[refusal]), create(), ("Refused", "spec.disk: it shrinks")),
        ];
        for (name, standing, held, expected) in rows {
            let standing = standing.or_leaving("lab", &held);
            assert_eq!((standing.reason, standing.message.as_str()), expected, "{name}");
        }
        assert!(concerns_people("EnvironmentLeaving"));
    }
}
