//! The life of a Revision, as tables over every phase and event.

use std::collections::BTreeMap;

use setpoint_api::revision::RevisionPhase::{self, Archived, Draining, Failed, Inactive, Ready, Staged, Warming};
use setpoint_api::revision::{AppRef, RevisionSpec};
use setpoint_core::lifecycle::{Event, Life, happen, runtime_config, step};
use setpoint_core::split::Split;

fn life(phase: RevisionPhase) -> Life {
    Life { phase, asked: 2, existing: 2, ready: 1 }
}

#[test]
fn every_verb_leads_somewhere_or_says_why_not() {
    let not_staged = |phase: &str| Err(format!("web-1 is {phase} and cannot be warmed: stage it first"));
    let draining =
        || Err("web-1 is still draining: it can be staged again when its 2 instances have stopped".to_owned());
    let archived = || Err("web-1 is archived and cannot come back: apply its template to the App again".to_owned());
    let runs = |phase: &str| Err(format!("web-1 is {phase} and cannot be archived: drain it first"));
    let stops =
        || Err("web-1 failed and 2 of its instances are still to stop: it can be archived when they have".to_owned());
    type Row = (&'static str, RevisionPhase, Event, Result<RevisionPhase, String>);
    let rows: [Row; 37] = [
        ("what is new is staged", Inactive, Event::Stage, Ok(Staged)),
        ("staging twice is as once", Staged, Event::Stage, Ok(Staged)),
        ("staging what warms changes nothing", Warming, Event::Stage, Ok(Warming)),
        ("staging what serves changes nothing", Ready, Event::Stage, Ok(Ready)),
        ("what failed can be staged again", Failed, Event::Stage, Ok(Staged)),
        ("what drains must finish first", Draining, Event::Stage, draining()),
        ("what is archived stays so", Archived, Event::Stage, archived()),
        ("what is not staged cannot be warmed", Inactive, Event::Warm, not_staged("Inactive")),
        ("a warm begins to warm, and does not jump to Ready", Staged, Event::Warm, Ok(Warming)),
        ("warming twice is as once", Warming, Event::Warm, Ok(Warming)),
        ("warming what serves changes nothing", Ready, Event::Warm, Ok(Ready)),
        ("what failed is staged before it is warmed", Failed, Event::Warm, not_staged("Failed")),
        ("what drains cannot be warmed", Draining, Event::Warm, draining()),
        ("what is archived cannot be warmed", Archived, Event::Warm, archived()),
        ("draining what does not run is done", Inactive, Event::Drain, Ok(Inactive)),
        ("what is staged is released", Staged, Event::Drain, Ok(Draining)),
        ("what warms can be given up", Warming, Event::Drain, Ok(Draining)),
        ("what has no traffic drains", Ready, Event::Drain, Ok(Draining)),
        ("draining twice is as once", Draining, Event::Drain, Ok(Draining)),
        ("what failed has nothing to finish", Failed, Event::Drain, Ok(Failed)),
        ("draining what is archived is done", Archived, Event::Drain, Ok(Archived)),
        ("what does not run is archived", Inactive, Event::Archive, Ok(Archived)),
        ("what is staged is not archived", Staged, Event::Archive, runs("Staged")),
        ("what warms is not archived", Warming, Event::Archive, runs("Warming")),
        ("what serves is not archived", Ready, Event::Archive, runs("Ready")),
        ("what drains is not archived", Draining, Event::Archive, runs("Draining")),
        ("what failed and still has instances is not archived", Failed, Event::Archive, stops()),
        ("archiving twice is as once", Archived, Event::Archive, Ok(Archived)),
        ("one of two ready is not Ready", Warming, Event::Observed, Ok(Warming)),
        ("what is Ready and lost an instance is still Ready", Ready, Event::Observed, Ok(Ready)),
        ("what still has instances still drains", Draining, Event::Observed, Ok(Draining)),
        ("staging fails", Inactive, Event::Failed, Ok(Failed)),
        ("what is staged can fail", Staged, Event::Failed, Ok(Failed)),
        ("what warms can fail", Warming, Event::Failed, Ok(Failed)),
        ("what serves does not become Failed under its traffic", Ready, Event::Failed, Ok(Ready)),
        ("failing twice is as once", Failed, Event::Failed, Ok(Failed)),
        ("what drains goes on draining", Draining, Event::Failed, Ok(Draining)),
    ];
    for (name, phase, event, expected) in rows {
        let next = step("web-1", &life(phase), event, &[]).map_err(|error| error.to_string());
        assert_eq!(next, expected, "{name}");
    }
}

#[test]
fn what_is_observed_moves_a_life_on() {
    let rows = [
        ("all seen ready", Life { phase: Warming, asked: 2, existing: 2, ready: 2 }, Ready),
        ("none seen yet", Life { phase: Warming, asked: 2, existing: 0, ready: 0 }, Warming),
        ("none asked for proves nothing", Life { phase: Warming, asked: 0, existing: 0, ready: 0 }, Warming),
        ("all stopped", Life { phase: Draining, asked: 0, existing: 0, ready: 0 }, Inactive),
        (
            "instances of what is not warmed prove nothing",
            Life { phase: Staged, asked: 2, existing: 2, ready: 2 },
            Staged,
        ),
    ];
    for (name, life, expected) in rows {
        assert_eq!(step("web-1", &life, Event::Observed, &[]), Ok(expected), "{name}");
    }
}

#[test]
fn a_drained_revision_comes_back() {
    let mut life = Life { phase: Ready, asked: 2, existing: 2, ready: 2 };
    let mut go = |event: Event, asked: u32| {
        (life.asked, life.existing, life.ready) = (asked, asked, asked);
        life.phase = step("web-1", &life, event, &[]).unwrap();
        life.phase
    };
    let way = [(Event::Drain, 0), (Event::Observed, 0), (Event::Stage, 0), (Event::Warm, 2), (Event::Observed, 2)];
    assert_eq!(way.map(|(event, asked)| go(event, asked)), [Draining, Inactive, Staged, Warming, Ready]);
}

#[test]
fn a_split_guards_what_it_names() {
    let all = Split::all_to("web-1");
    let preview = Split::all_to("web-2").with_weight("web-1", 0);
    let other = Split::all_to("web-2");
    let traffic = |bps: u32| {
        format!("web-1 gets {bps} basis points of the traffic and cannot be drained: move its traffic first")
    };
    let named = |split: &Split| {
        format!("web-1 stands in the split `{split}` and cannot be archived: remove it from the split first")
    };
    let rows = [
        ("what has all traffic is not drained", Ready, Event::Drain, all.clone(), Err(traffic(10_000))),
        ("one basis point is traffic", Ready, Event::Drain, other.with_weight("web-1", 1), Err(traffic(1))),
        ("weight 0 is no traffic", Ready, Event::Drain, preview.clone(), Ok(Draining)),
        ("what a split names is not archived", Inactive, Event::Archive, all.clone(), Err(named(&all))),
        ("nor at weight 0", Inactive, Event::Archive, preview.clone(), Err(named(&preview))),
        ("another's split does not matter", Inactive, Event::Archive, other, Ok(Archived)),
    ];
    for (name, phase, event, split, expected) in rows {
        let next = step("web-1", &life(phase), event, &[split]).map_err(|error| error.to_string());
        assert_eq!(next, expected, "{name}");
    }
}

#[test]
fn what_is_gone_is_unknown_except_to_archive() {
    let none = BTreeMap::new();
    for event in [Event::Stage, Event::Warm, Event::Drain, Event::Observed, Event::Failed] {
        let error = happen(&none, "web-9", event, &[]).unwrap_err().to_string();
        assert_eq!(error, "there is no revision web-9: `kubectl get revisions` shows those there are", "{event:?}");
    }
    assert_eq!(happen(&none, "web-9", Event::Archive, &[]), Ok(None), "archiving what is gone is done");
}

#[test]
fn runtime_config_is_the_split_in_its_order() {
    let spec = |app: &str, digest: &str| RevisionSpec {
        app_ref: AppRef { name: app.to_owned(), uid: None },
        number: 1,
        environment: "local".to_owned(),
        template: Default::default(),
        config: Vec::new(),
        parameters: BTreeMap::new(),
        drain_seconds: 30,
        digest: digest.to_owned(),
    };
    let revisions: BTreeMap<String, RevisionSpec> =
        [("web-1", spec("web", "d1")), ("web-2", spec("web", "d2")), ("shop-1", spec("shop", "d3"))]
            .map(|(name, spec)| (name.to_owned(), spec))
            .into();
    let rows = [
        ("no split is empty", None, Ok(vec![])),
        (
            "a block for each entry, in order, also at weight 0",
            Some(Split::all_to("web-2").with_weight("web-1", 0)),
            Ok(vec!["web-2 10000 in local", "web-1 0 in local"]),
        ),
        (
            "an unknown revision",
            Some(Split::all_to("web-9")),
            Err("there is no revision web-9 of web: `kubectl get revisions` shows those there are"),
        ),
        (
            "another App's revision",
            Some(Split::all_to("shop-1")),
            Err("shop-1 is a revision of shop, not of web: a split stays within its App"),
        ),
    ];
    for (name, split, expected) in rows {
        let blocks = runtime_config("web", split.as_ref(), &revisions);
        let shown = blocks.map(|blocks| blocks.iter().map(ToString::to_string).collect::<Vec<_>>());
        let expected = expected.map(|blocks| blocks.into_iter().map(str::to_owned).collect());
        assert_eq!(shown.map_err(|error| error.to_string()), expected.map_err(str::to_owned), "{name}");
    }
}
