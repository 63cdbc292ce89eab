//! How far a change set is, row by row.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use setpoint_api::change_set::{ChangeSet, ChangeSetSpec, ChangeSetStatus, Mode, Phase, StepState, StepStatus};
use setpoint_api::machine::{DoneStep, Intent, MAX_DONE};
use setpoint_api::step::{Action, Step};
use setpoint_core::authority::{Progress, Version, Wanted, Work, progress};
use setpoint_core::gate::{Approvals, Decision, Discount, Judged, Limit, Need, Outcome, Refusal, Reviewed, Verdict};

use crate::fixture::{scene, web};

pub(crate) const NOW: Timestamp = Timestamp::constant(1_794_744_000, 0);
/// When the change set was made, and a moment before and within that second.
const MADE: Timestamp = Timestamp::constant(1_794_743_000, 0);
const BEFORE: Timestamp = Timestamp::constant(1_794_742_999, 0);
const AT_ONCE: Timestamp = Timestamp::constant(1_794_743_000, 500_000_000);

pub(crate) fn step(action: Action) -> Step {
    let create = scene(vec![web()], vec![]).plan().steps.remove(0);
    Step { id: "shop/web/step".to_owned(), digest: "sha256:a".to_owned(), action, ..create }
}

pub(crate) fn change_set(mode: Mode, steps: Vec<Step>, step_states: Vec<StepStatus>) -> ChangeSet {
    let spec = ChangeSetSpec {
        environment: "lab".to_owned(),
        mode,
        objects: Vec::new(),
        deletes: Vec::new(),
        requested_by: "carol".to_owned(),
    };
    let mut change_set = ChangeSet::new("one", spec);
    change_set.metadata.uid = Some("uid".to_owned());
    change_set.metadata.creation_timestamp = Some(Time(MADE));
    let digest = Some("sha256:all".to_owned());
    change_set.status = Some(ChangeSetStatus { steps, step_states, digest, ..ChangeSetStatus::default() });
    change_set
}

pub(crate) fn recorded(digest: &str, state: StepState) -> StepStatus {
    StepStatus {
        id: "shop/web/step".to_owned(),
        digest: digest.to_owned(),
        state,
        message: None,
        since: NOW,
        spent: false,
        object: None,
        generation: None,
    }
}

fn waits() -> Verdict {
    let approvals = Approvals {
        class: setpoint_api::step::Class::Destructive,
        required: 1,
        approved: BTreeMap::new(),
        roles: BTreeSet::new(),
        signature: false,
        except: None,
    };
    Verdict::Wait { needs: vec![Need::Approvals(approvals)] }
}

pub(crate) fn rejected() -> Verdict {
    let (by, reviews) = (BTreeSet::from(["bob".to_owned()]), BTreeSet::from(["r".to_owned()]));
    Verdict::Refuse { reason: Refusal::Rejected { by, reviews } }
}

fn decision(verdict: Verdict) -> Decision {
    let judged = Judged { step: "shop/web/step".to_owned(), digest: "sha256:a".to_owned(), verdict };
    Decision { steps: vec![judged], reviews: Vec::new(), approved_until: None }
}

pub(crate) fn done(change_set: Option<&str>, at: Timestamp) -> Vec<DoneStep> {
    let change_set = change_set.map(str::to_owned);
    vec![DoneStep { action: Action::Create, digest: "sha256:a".to_owned(), at, change_set, unseen: false }]
}

pub(crate) fn intent() -> Vec<Intent> {
    vec![Intent {
        id: "call".to_owned(),
        action: Action::Create,
        class: None,
        digest: "sha256:a".to_owned(),
        started_at: NOW,
        epoch: 1,
        provider_id: None,
        change_set: Some("uid".to_owned()),
    }]
}

/// What is known of the one object, if it is there.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) intents: Vec<Intent>,
    pub(crate) done: Vec<DoneStep>,
    pub(crate) wanted: Option<BTreeSet<&'static str>>,
    pub(crate) outdated: Option<&'static str>,
    pub(crate) version: Option<Version>,
}

pub(crate) fn ask(
    change_set: &ChangeSet,
    verdict: Verdict,
    known: Option<&Known>,
    abandoned: Option<&str>,
) -> Progress {
    ask_of(change_set, &decision(verdict), known, abandoned)
}

fn ask_of(change_set: &ChangeSet, decision: &Decision, known: Option<&Known>, abandoned: Option<&str>) -> Progress {
    let target = step(Action::Create).target;
    let objects = known.map(|known| {
        let wanted = known.wanted.as_ref().map_or(Wanted::Unknown, Wanted::Only);
        (
            &target,
            Work {
                uid: Some("uid-web"),
                intents: &known.intents,
                done: &known.done,
                wanted,
                outdated: known.outdated,
                is_brought: false,
                version: known.version,
            },
        )
    });
    progress(change_set, decision, &objects.into_iter().collect(), abandoned, NOW)
}

#[test]
fn a_step_is_as_far_as_what_was_begun_and_done_for_it() {
    use StepState::{Approved, Done, Failed, Running, Stale, Waiting};
    let known = |wanted: Option<&[&'static str]>| {
        Some(Known { wanted: wanted.map(|digests| digests.iter().copied().collect()), ..Known::default() })
    };
    let with_done = |set| Some(Known { done: done(set, NOW), wanted: Some(BTreeSet::new()), ..Known::default() });
    let wanted_again =
        |set, at| Some(Known { done: done(set, at), wanted: Some(BTreeSet::from(["sha256:a"])), ..Known::default() });
    let full = || {
        let other =
            |number: usize| DoneStep { digest: format!("sha256:{number}"), ..done(Some("other"), NOW).remove(0) };
        let done: Vec<DoneStep> = (0..MAX_DONE).map(other).collect();
        Some(Known { done, wanted: Some(BTreeSet::from(["sha256:a"])), ..Known::default() })
    };
    let begun = Some(Known { intents: intent(), ..Known::default() });
    let elsewhere = || Some(Known { outdated: Some("people are asked elsewhere"), ..Known::default() });
    let late = Some("it is too late");
    let tried = || {
        let done = DoneStep { unseen: true, ..done(Some("uid"), NOW).remove(0) };
        Some(Known { done: vec![done], wanted: Some(BTreeSet::from(["sha256:a"])), ..Known::default() })
    };
    let begun_for = |uid: &str| StepStatus { object: Some(uid.to_owned()), ..recorded("sha256:a", Running) };
    let said_of = |uid: &str, generation: i64| {
        let object = Some(uid.to_owned());
        StepStatus { object, generation: Some(generation), ..recorded("sha256:a", Approved) }
    };
    let version = |generation: i64, is_as_said: bool| {
        Some(Known { version: Some(Version { generation, is_as_said }), ..Known::default() })
    };
    let recorded_as_tried = || StepStatus { spent: true, ..recorded("sha256:a", Stale) };
    let rows = [
        (
            "it was tried by its leave, and does not show",
            Action::Update,
            vec![recorded("sha256:a", Running)],
            Verdict::Run,
            tried(),
            None,
            Stale,
            Phase::Stale,
        ),
        (
            "what was tried is not approved any more when its object is gone",
            Action::Update,
            vec![recorded_as_tried()],
            Verdict::Run,
            None,
            None,
            Stale,
            Phase::Stale,
        ),
        (
            "it was begun, and its object is gone",
            Action::Create,
            vec![begun_for("uid-web")],
            Verdict::Run,
            None,
            None,
            Done,
            Phase::Succeeded,
        ),
        (
            "it was begun for another object of this name",
            Action::Create,
            vec![begun_for("uid-gone")],
            Verdict::Run,
            known(None),
            None,
            Done,
            Phase::Succeeded,
        ),
        (
            "it was begun, and surely had no effect",
            Action::Create,
            vec![begun_for("uid-web")],
            Verdict::Run,
            known(None),
            None,
            Approved,
            Phase::Running,
        ),
        (
            "its object was as it says, and is gone",
            Action::Update,
            vec![said_of("uid-web", 2)],
            Verdict::Run,
            None,
            None,
            Stale,
            Phase::Stale,
        ),
        (
            "another of this name is there",
            Action::Create,
            vec![said_of("uid-gone", 1)],
            Verdict::Run,
            known(None),
            None,
            Stale,
            Phase::Stale,
        ),
        (
            "the object is gone before anybody wrote it as it says",
            Action::Update,
            vec![StepStatus { generation: Some(2), ..recorded("sha256:a", Waiting) }],
            waits(),
            None,
            None,
            Stale,
            Phase::Stale,
        ),
        ("the object is gone, as it says", Action::Delete, vec![], Verdict::Run, None, None, Done, Phase::Succeeded),
        (
            "what was rejected of an object that is gone stays so",
            Action::Update,
            vec![said_of("uid-web", 2)],
            rejected(),
            None,
            None,
            Failed,
            Phase::Failed,
        ),
        (
            "the object is as it says",
            Action::Update,
            vec![said_of("uid-web", 2)],
            Verdict::Run,
            version(2, true),
            None,
            Approved,
            Phase::Running,
        ),
        (
            "the object is yet to be written",
            Action::Update,
            vec![said_of("uid-web", 2)],
            Verdict::Run,
            version(1, false),
            None,
            Approved,
            Phase::Running,
        ),
        (
            "the object was written otherwise",
            Action::Update,
            vec![said_of("uid-web", 2)],
            Verdict::Run,
            version(2, false),
            None,
            Stale,
            Phase::Stale,
        ),
        (
            "the object was written otherwise, and then as it says",
            Action::Update,
            vec![said_of("uid-web", 2)],
            Verdict::Run,
            version(3, true),
            None,
            Stale,
            Phase::Stale,
        ),
        (
            "much was done since somebody rejected it",
            Action::Create,
            vec![],
            rejected(),
            full(),
            None,
            Failed,
            Phase::Failed,
        ),
        ("people are waited for", Action::Create, vec![], waits(), known(None), None, Waiting, Phase::Waiting),
        ("it may be taken", Action::Create, vec![], Verdict::Run, known(None), None, Approved, Phase::Running),
        ("its object is not there yet", Action::Create, vec![], Verdict::Run, None, None, Approved, Phase::Running),
        ("it is being taken", Action::Create, vec![], Verdict::Run, begun, None, Running, Phase::Running),
        (
            "it was done by its leave",
            Action::Create,
            vec![],
            waits(),
            with_done(Some("uid")),
            None,
            Done,
            Phase::Succeeded,
        ),
        (
            "it was done by nobody's leave since",
            Action::Create,
            vec![],
            waits(),
            with_done(None),
            None,
            Done,
            Phase::Succeeded,
        ),
        (
            "it was done by nobody's leave at once",
            Action::Create,
            vec![],
            waits(),
            wanted_again(None, AT_ONCE),
            None,
            Done,
            Phase::Succeeded,
        ),
        (
            "it was done by nobody's leave before, and is gated now",
            Action::Create,
            vec![],
            waits(),
            wanted_again(None, BEFORE),
            None,
            Waiting,
            Phase::Waiting,
        ),
        (
            "it was done by another's before",
            Action::Create,
            vec![],
            waits(),
            wanted_again(Some("other"), BEFORE),
            None,
            Waiting,
            Phase::Waiting,
        ),
        (
            "it was done by another's since, and is wanted again",
            Action::Create,
            vec![],
            waits(),
            wanted_again(Some("other"), NOW),
            None,
            Stale,
            Phase::Stale,
        ),
        ("nobody remembers whether it was done", Action::Create, vec![], waits(), full(), None, Stale, Phase::Stale),
        (
            "it was done by another's",
            Action::Create,
            vec![],
            waits(),
            with_done(Some("other")),
            None,
            Stale,
            Phase::Stale,
        ),
        (
            "what was done stays done, also when its object is gone",
            Action::Delete,
            vec![recorded("sha256:a", Done)],
            waits(),
            None,
            None,
            Done,
            Phase::Succeeded,
        ),
        (
            "a removal that took its object along",
            Action::Delete,
            vec![recorded("sha256:a", Running)],
            Verdict::Run,
            None,
            None,
            Done,
            Phase::Succeeded,
        ),
        (
            "another step of the same name was done",
            Action::Create,
            vec![recorded("sha256:b", Done)],
            waits(),
            known(None),
            None,
            Waiting,
            Phase::Waiting,
        ),
        ("nobody wants it any more", Action::Create, vec![], waits(), known(Some(&[])), None, Stale, Phase::Stale),
        (
            "another step is wanted",
            Action::Create,
            vec![],
            waits(),
            known(Some(&["sha256:b"])),
            None,
            Stale,
            Phase::Stale,
        ),
        (
            "it is still wanted",
            Action::Create,
            vec![],
            waits(),
            known(Some(&["sha256:a"])),
            None,
            Waiting,
            Phase::Waiting,
        ),
        ("it is rejected", Action::Create, vec![], rejected(), known(None), None, Failed, Phase::Failed),
        ("people are asked elsewhere", Action::Create, vec![], waits(), elsewhere(), None, Stale, Phase::Stale),
        (
            "they are, and it was approved here",
            Action::Create,
            vec![],
            Verdict::Run,
            elsewhere(),
            None,
            Stale,
            Phase::Stale,
        ),
        (
            "they are, and it was rejected here",
            Action::Create,
            vec![],
            rejected(),
            elsewhere(),
            None,
            Failed,
            Phase::Failed,
        ),
        (
            "it was stale, and what is wanted is not known",
            Action::Create,
            vec![recorded("sha256:a", Stale)],
            waits(),
            known(None),
            None,
            Stale,
            Phase::Stale,
        ),
        (
            "it was stale, and is wanted again",
            Action::Create,
            vec![recorded("sha256:a", Stale)],
            waits(),
            known(Some(&["sha256:a"])),
            None,
            Waiting,
            Phase::Waiting,
        ),
        ("nobody will carry it out", Action::Create, vec![], waits(), None, late, Stale, Phase::Stale),
    ];
    for (name, action, old, verdict, known, abandoned, state, phase) in rows {
        let change_set = change_set(Mode::Execute, vec![step(action)], old);
        let progress = ask(&change_set, verdict, known.as_ref(), abandoned);
        assert_eq!(progress.step_states.last().map(|step| step.state), Some(state), "{name}");
        assert_eq!(progress.phase, phase, "{name}");
    }
}

#[test]
fn what_was_tried_stays_on_record_as_that() {
    let tried = vec![DoneStep { unseen: true, ..done(Some("uid"), NOW).remove(0) }];
    let change_set = change_set(Mode::Execute, vec![step(Action::Update)], vec![]);
    let progress = ask(&change_set, Verdict::Run, Some(&Known { done: tried, ..Known::default() }), None);
    let told = progress.step_states.last().expect("a state");
    let message = "it was tried, and does not show: it has to be approved anew";
    assert_eq!((told.spent, told.message.as_deref()), (true, Some(message)));
    let elsewhere = Known { done: done(Some("other"), NOW), ..Known::default() };
    let spent = |known: &Known| ask(&change_set, Verdict::Run, Some(known), None).step_states[0].spent;
    assert!(spent(&elsewhere), "nobody can approve it here any more");
    assert!(!spent(&Known { intents: intent(), ..Known::default() }));
    let abandoned = ask(&change_set, waits(), Some(&Known::default()), Some("nobody wrote it"));
    assert!(abandoned.step_states[0].spent, "the question is asked elsewhere");
    let unwanted = Known { wanted: Some(BTreeSet::new()), ..Known::default() };
    let rejected = ask(&change_set, rejected(), Some(&unwanted), Some("nobody wrote it"));
    assert!(!rejected.step_states[0].spent, "a rejection holds if it is wanted again");
}

#[test]
fn what_was_done_was_done_for_one_object() {
    let done = StepStatus { object: Some("uid-gone".to_owned()), ..recorded("sha256:a", StepState::Done) };
    let change_set = change_set(Mode::Execute, vec![step(Action::Create)], vec![done]);
    let state = ask(&change_set, Verdict::Run, Some(&Known::default()), None).step_states.remove(0);
    assert_eq!((state.state, state.object.as_deref()), (StepState::Done, Some("uid-gone")));
}

#[test]
fn a_review_counts_for_nothing_that_has_no_leave_by_it_any_more() {
    let counted = || Outcome::Counted { steps: BTreeSet::from(["shop/web/step".to_owned()]) };
    let outdated = || Outcome::Ignored { reason: Discount::Outdated };
    let unwanted = || Known { wanted: Some(BTreeSet::new()), ..Known::default() };
    let elsewhere = || Known { outdated: Some("people are asked elsewhere"), ..Known::default() };
    let tried = || Known { done: vec![DoneStep { unseen: true, ..done(Some("uid"), NOW).remove(0) }], ..unwanted() };
    let rows = [
        ("it is asked about", Verdict::Run, Known::default(), counted()),
        ("it is not wanted for now, and would still have leave by it", Verdict::Run, unwanted(), counted()),
        ("people are asked elsewhere", waits(), elsewhere(), counted()),
        ("it was tried in vain", Verdict::Run, tried(), outdated()),
        ("a rejection holds all the same", rejected(), unwanted(), counted()),
        ("it was done by it", waits(), Known { done: done(Some("uid"), NOW), ..unwanted() }, counted()),
    ];
    for (name, verdict, known, expected) in rows {
        let change_set = change_set(Mode::Execute, vec![step(Action::Create)], vec![]);
        let review = Reviewed { review: "r".to_owned(), reviewer: "bob".to_owned(), outcome: counted() };
        let decision = Decision { reviews: vec![review], ..decision(verdict) };
        let told = ask_of(&change_set, &decision, Some(&known), None).decision.reviews;
        assert_eq!(told[0].outcome, expected, "{name}");
    }
}

#[test]
fn what_was_done_is_remembered_though_it_is_no_longer_listed() {
    let change_set = change_set(Mode::Execute, vec![], vec![recorded("sha256:z", StepState::Done)]);
    let nothing = Decision { steps: Vec::new(), reviews: Vec::new(), approved_until: None };
    let progress = progress(&change_set, &nothing, &BTreeMap::new(), None, NOW);
    assert_eq!((progress.phase, progress.step_states.len()), (Phase::Succeeded, 1));
}

#[test]
fn conditions_say_for_whom_it_waits_and_what_became_of_it() {
    let told = |verdict: Verdict, known: Option<&Known>| {
        let change_set = change_set(Mode::Execute, vec![step(Action::Create)], vec![]);
        let conditions = ask(&change_set, verdict, known, None).conditions;
        let told = conditions.iter().map(|condition| {
            format!("{}={:?} {}", condition.type_, condition.status, condition.reason.as_deref().unwrap_or_default())
        });
        told.collect::<Vec<_>>()
    };
    assert_eq!(told(waits(), None), ["Planned=True Planned", "Approved=False Waiting", "Complete=False Waiting"]);
    let stale = Known { wanted: Some(BTreeSet::new()), ..Known::default() };
    let outdated = ["Planned=True Planned", "Approved=False Stale", "Complete=False Stale"];
    assert_eq!(told(waits(), Some(&stale)), outdated, "nobody is waited for any more");
    assert_eq!(told(rejected(), None), ["Planned=True Planned", "Approved=False Rejected", "Complete=False Failed"]);
    let done = Known { done: done(Some("uid"), NOW), ..Known::default() };
    let finished = ["Planned=True Planned", "Approved=True Approved", "Complete=True Succeeded"];
    assert_eq!(told(Verdict::Run, Some(&done)), finished);
    assert_eq!(told(waits(), Some(&done)), finished, "whatever would be asked by now");
    let over = Verdict::Wait { needs: vec![Need::Budget { limit: Limit::Instances(1), until: None }] };
    let held =
        ["Planned=True Planned", "Approved=True Approved", "Complete=False Running", "WithinLimits=False HeldBack"];
    assert_eq!(told(over, None), held);
    let preview = change_set(Mode::Preview, vec![step(Action::Create)], vec![]);
    let shown = ask(&preview, waits(), None, None);
    assert_eq!((shown.phase, shown.step_states, shown.conditions.len()), (Phase::Planned, vec![], 1));
}
