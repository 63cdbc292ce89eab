//! Who must approve what, and what happens when somebody says no.

use super::*;

const LACKS_ONE: &str = "web: waits: Destructive: 0 of 1 approval";

#[test]
fn steps_run_once_enough_people_approved() {
    let disruptive_destroy = || Step { interrupts: true, ..destroy("web") };
    let two = || vec![rule(Class::Destructive, 2)];
    let not_requester = || vec![ApprovalRule { requester_may_approve: false, ..rule(Class::Destructive, 1) }];
    let owner_and_anybody =
        || vec![signed_rule(Class::Destructive, 1, &["owner"]), signed_rule(Class::Disruptive, 2, &[])];
    let web = |evidence: Vec<Given>| World::of(vec![destroy("web")]).reviews(evidence);
    assert_verdicts([
        ("nothing to do, nothing decided", World::of(vec![]), &[]),
        ("a benign step runs", World::of(vec![create("web")]), &["web: may run"]),
        (
            "without a policy, downtime needs nobody",
            World::of(vec![Step { class: Class::Disruptive, ..step("web", Action::Stop) }]),
            &["web: may run"],
        ),
        ("without a policy, money needs nobody", World::of(vec![spend("web", "1")]), &["web: may run"]),
        (
            "what destroys at a price nobody knows still asks who decides on money",
            World::of(vec![Step { spends: true, hourly_cost_delta: None, ..destroy("web") }])
                .reviews(vec![approve("alice", &["web"])])
                .rules(vec![rule(Class::Spend, 2)]),
            &["web: waits: Spend: 1 of 2 approvals (alice until 2026-11-16T11:59:00Z)"],
        ),
        ("without a policy, what destroys needs one approval", web(vec![]), &[LACKS_ONE]),
        ("and runs with it", web(vec![approve("alice", &["web"])]), &["web: may run"]),
        (
            "whoever asked may approve, unless policy says otherwise",
            web(vec![approve("carol", &["web"])]),
            &["web: may run"],
        ),
        (
            "whoever asked may not approve, where policy says so",
            web(vec![approve("carol", &["web"])]).rules(not_requester()),
            &["web: waits: Destructive: 0 of 1 approval, not by carol"],
        ),
        ("somebody else may", web(vec![approve("alice", &["web"])]).rules(not_requester()), &["web: may run"]),
        (
            "whoever asked may always reject",
            web(vec![approve("alice", &["web"]), reject("carol", &["web"])]).rules(not_requester()),
            &["web: refused: rejected by carol"],
        ),
        ("a class that is not listed is as by default", web(vec![]).rules(vec![rule(Class::Benign, 0)]), &[LACKS_ONE]),
        ("policy may ask nobody", web(vec![]).rules(vec![rule(Class::Destructive, 0)]), &["web: may run"]),
        (
            "policy may ask for a benign step, too",
            World::of(vec![create("web")]).rules(vec![rule(Class::Benign, 1)]),
            &["web: waits: Benign: 0 of 1 approval"],
        ),
        (
            "one of two approved, and it says until when that holds",
            web(vec![approve("alice", &["web"])]).rules(two()),
            &["web: waits: Destructive: 1 of 2 approvals (alice until 2026-11-16T11:59:00Z)"],
        ),
        (
            "two approved",
            web(vec![approve("alice", &["web"]), approve("bob", &["web"])]).rules(two()),
            &["web: may run"],
        ),
        (
            "one person who approves twice is one",
            web(vec![approve("alice", &["web"]), approve("alice", &["web"]).named("again").at(ago(59))]).rules(two()),
            &["web: waits: Destructive: 1 of 2 approvals (alice until 2026-11-16T11:59:01Z)"],
        ),
        (
            "one person with two keys is one",
            web(vec![
                approve("alice", &["web"]).signed("alice-owner"),
                approve("alice", &["web"])
                    .signed("alice-laptop")
                    .named("again")
                    .with(|s| s.nonce = Some(NONCE.to_owned())),
            ])
            .rules(vec![signed_rule(Class::Destructive, 2, &[])]),
            &["web: waits: Destructive: 1 of 2 approvals, signed (alice until 2026-11-15T13:00:00Z)"],
        ),
        (
            "the roles that are asked for are said",
            web(vec![]).rules(vec![signed_rule(Class::Destructive, 2, &["owner", "operator"])]),
            &["web: waits: Destructive: 0 of 2 approvals, signed by operator or owner"],
        ),
        (
            "roles without a signature ask for one all the same",
            web(vec![approve("alice", &["web"])])
                .rules(vec![ApprovalRule { signature: false, ..signed_rule(Class::Destructive, 1, &["owner"]) }]),
            &["web: waits: Destructive: 0 of 1 approval, signed by owner"],
        ),
        (
            "an approval that policy ended",
            web(vec![approve("alice", &["web"]).at(ago(60))])
                .rules(vec![ApprovalRule { expiry_seconds: 60, ..rule(Class::Destructive, 1) }]),
            &[LACKS_ONE],
        ),
        (
            "every class of a step has its own quorum, and all are said at once",
            World::of(vec![disruptive_destroy()])
                .rules(owner_and_anybody())
                .reviews(vec![approve("bob", &["web"]).signed("bob")]),
            &["web: waits: Disruptive: 1 of 2 approvals, signed (bob until 2026-11-15T13:00:00Z); \
               Destructive: 0 of 1 approval, signed by owner"],
        ),
        (
            "one approval may serve several classes",
            World::of(vec![disruptive_destroy()]).rules(owner_and_anybody()).reviews(vec![
                approve("bob", &["web"]).signed("bob"),
                approve("alice", &["web"]).signed("alice-owner"),
            ]),
            &["web: may run"],
        ),
        (
            "a destructive step that also spends needs what spending needs",
            World::of(vec![Step { hourly_cost_delta: Some(price("1")), ..destroy("web") }])
                .rules(vec![rule(Class::Spend, 2)])
                .reviews(vec![approve("alice", &["web"])]),
            &["web: waits: Spend: 1 of 2 approvals (alice until 2026-11-16T11:59:00Z)"],
        ),
        (
            "one approval may be of several steps, and the others wait",
            World::of(vec![destroy("a"), destroy("b"), destroy("c")]).reviews(vec![approve("alice", &["a", "c"])]),
            &["a: may run", "b: waits: Destructive: 0 of 1 approval", "c: may run"],
        ),
    ]);
}

#[test]
fn a_rejection_refuses_the_step_until_its_author_thinks_better_of_it() {
    let web = |evidence: Vec<Given>| World::of(vec![destroy("web"), create("db")]).reviews(evidence);
    let refused: &[&str] = &["web: refused: rejected by bob", "db: may run"];
    let runs: &[&str] = &["web: may run", "db: may run"];
    let later = |given: Given| given.named("later").at(ago(30));
    assert_verdicts([
        ("a rejection outweighs approvals", web(vec![approve("alice", &["web"]), reject("bob", &["web"])]), refused),
        ("in whatever order", web(vec![approve("alice", &["web"]).at(ago(10)), reject("bob", &["web"])]), refused),
        (
            "two rejections name both",
            web(vec![reject("alice", &["web"]), reject("bob", &["web"])]),
            &["web: refused: rejected by alice and bob", "db: may run"],
        ),
        (
            "a step that needs nobody can be rejected",
            web(vec![approve("alice", &["web"]), reject("bob", &["db"])]),
            &["web: may run", "db: refused: rejected by bob"],
        ),
        ("its author approves later", web(vec![reject("bob", &["web"]), later(approve("bob", &["web"]))]), runs),
        (
            "the approval that undid it expired: the step waits and is not refused again",
            web(vec![
                reject("bob", &["web"]),
                later(approve("bob", &["web"])).with(|spec| spec.expires_at = Some(ago(1))),
            ]),
            &[LACKS_ONE, "db: may run"],
        ),
        (
            "of two verdicts of one second, the rejection holds",
            web(vec![reject("bob", &["web"]).named("a"), approve("bob", &["web"]).named("b")]),
            refused,
        ),
        (
            "the step changed: the rejection was of what it was",
            web(vec![reject("bob", &["old"]), approve("alice", &["web"])]),
            runs,
        ),
        (
            "a rejection by somebody who may not decide",
            web(vec![reject("mallory", &["web"]), approve("alice", &["web"]).signed("alice-owner")])
                .rules(vec![signed_rule(Class::Destructive, 1, &[])]),
            runs,
        ),
    ]);
}

#[test]
fn a_step_waits_for_the_steps_it_depends_on() {
    let chain = || vec![destroy("a"), after(create("b"), &["a"]), after(create("c"), &["b"]), create("d")];
    assert_verdicts([
        (
            "what depends on a step that waits, waits; the rest goes on",
            World::of(chain()),
            &[
                "a: waits: Destructive: 0 of 1 approval",
                "b: waits: a must be done first",
                "c: waits: b must be done first",
                "d: may run",
            ],
        ),
        (
            "and runs with it",
            World::of(chain()).reviews(vec![approve("alice", &["a"])]),
            &["a: may run", "b: may run", "c: may run", "d: may run"],
        ),
        (
            "what depends on a refused step waits",
            World::of(vec![destroy("a"), after(create("b"), &["a"])]).reviews(vec![reject("bob", &["a"])]),
            &["a: refused: rejected by bob", "b: waits: a must be done first"],
        ),
        (
            "approvals and steps are waited for together, so that nobody is asked twice",
            World::of(vec![destroy("a"), after(destroy("b"), &["a"])]),
            &["a: waits: Destructive: 0 of 1 approval", "b: waits: Destructive: 0 of 1 approval; a must be done first"],
        ),
        (
            "a step that is not in the change set is not done",
            World::of(vec![after(create("b"), &["a"])]),
            &["b: waits: a must be done first"],
        ),
        (
            "steps that wait for each other wait",
            World::of(vec![after(create("a"), &["b"]), after(create("b"), &["a"])]),
            &["a: waits: b must be done first", "b: waits: a must be done first"],
        ),
    ]);
}

#[test]
fn a_class_that_is_not_known_cannot_be_read_as_harmless() {
    let mut text = serde_json::to_value(create("web")).unwrap();
    text["class"] = "Future".into();
    assert!(serde_json::from_value::<Step>(text).is_err());
}
