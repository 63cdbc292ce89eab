//! Which reviews count, and the one reason why each other does not.

use setpoint_api::requester;

use super::*;

/// A destroy of `web` that needs one approval; signed by an owner, where `signed`.
fn world(signed: bool, evidence: Vec<Given>) -> World {
    let rule = if signed { signed_rule(Class::Destructive, 1, &["owner"]) } else { rule(Class::Destructive, 1) };
    World::of(vec![destroy("web")]).rules(vec![rule]).reviews(evidence)
}

fn ignored(world: &World, review: &str) -> Option<Discount> {
    let reviews = world.decide().reviews;
    let reviewed = reviews.into_iter().find(|reviewed| reviewed.review == review).expect("every review is judged");
    match reviewed.outcome {
        Outcome::Counted { .. } => None,
        Outcome::Ignored { reason } => Some(reason),
    }
}

#[test]
fn a_review_counts_or_says_the_one_reason_why_not() {
    let yes = || approve("alice", &["web"]);
    let owned = || yes().signed("alice-owner");
    let signature = |signature| Given { signature, ..owned() };
    let expires = |seconds: i64| move |spec: &mut ReviewSpec| spec.expires_at = Some(ahead(seconds));
    let later_no = || reject("alice", &["web"]).named("later").at(ago(30));
    let later_yes = || yes().named("later").at(ago(30));
    let roles = || BTreeSet::from(["owner".to_owned()]);
    let rows: [(&str, bool, Vec<Given>, Option<Discount>); 47] = [
        ("an approval counts", false, vec![yes()], None),
        ("a rejection counts", false, vec![reject("alice", &["web"])], None),
        (
            "a review of another gate",
            false,
            vec![yes().with(|spec| spec.gate = "db".to_owned())],
            Some(Discount::OtherGate { gate: "shop/db".to_owned() }),
        ),
        (
            "a review of the gate of this name in another namespace",
            false,
            vec![{
                let mut given = yes();
                given.review.metadata.namespace = Some("bank".to_owned());
                given
            }],
            Some(Discount::OtherGate { gate: "bank/web".to_owned() }),
        ),
        (
            "a review for another cluster",
            false,
            vec![yes().with(|spec| spec.cluster_uid = Some("other".to_owned()))],
            Some(Discount::OtherCluster),
        ),
        ("an unsigned review need not name the cluster", false, vec![yes()], None),
        (
            "a review of another change set whose gate had this name",
            false,
            vec![yes().with(|spec| spec.change_set_uid = Some("before".to_owned()))],
            Some(Discount::OtherChangeSet),
        ),
        (
            "a signed one",
            true,
            vec![owned().with(|spec| spec.change_set_uid = Some("before".to_owned()))],
            Some(Discount::OtherChangeSet),
        ),
        ("its nonce cannot be remembered", true, vec![signature(Signature::Unrecorded)], Some(Discount::Unrecorded)),
        ("a comment", false, vec![verdict("alice", review::Decision::Comment, &["web"])], Some(Discount::Comment)),
        (
            "a comment on nothing is a comment, not stale",
            false,
            vec![verdict("alice", review::Decision::Comment, &[])],
            Some(Discount::Comment),
        ),
        ("it holds for as long as it says", false, vec![yes().with(expires(1))], None),
        ("at its end it has expired", false, vec![yes().with(expires(0))], Some(Discount::Expired { at: now() })),
        ("it has expired", false, vec![yes().with(expires(-10))], Some(Discount::Expired { at: ago(10) })),
        ("policy may end it no later than it says", false, vec![yes().with(expires(40 * 24 * HOUR))], None),
        ("a rejection does not expire", false, vec![reject("alice", &["web"]).with(expires(-10))], None),
        ("it is as old as the gate", false, vec![yes().at(ago(HOUR))], None),
        ("it is older than the gate", false, vec![yes().at(ago(HOUR + 1))], Some(Discount::BeforeGate)),
        ("the server's clock is a little ahead", false, vec![yes().at(ahead(CLOCK_SKEW_S))], None),
        (
            "it is dated in the future",
            false,
            vec![yes().at(ahead(CLOCK_SKEW_S + 1))],
            Some(Discount::FutureDated { created_at: ahead(CLOCK_SKEW_S + 1) }),
        ),
        (
            "a rejection counts though our clock is behind",
            false,
            vec![reject("alice", &["web"]).at(ahead(CLOCK_SKEW_S + 1))],
            None,
        ),
        ("the step changed since", false, vec![approve("alice", &["old"])], Some(Discount::Stale)),
        ("one of several steps changed since", false, vec![approve("alice", &["old", "web"])], None),
        ("a step that is named twice is named once", false, vec![approve("alice", &["web", "web"])], None),
        ("it must be signed, and is not", true, vec![yes()], Some(Discount::Unsigned)),
        ("signed by an owner where an owner must", true, vec![owned()], None),
        (
            "the signature is not valid",
            true,
            vec![signature(Signature::Invalid { material: "alice-owner", reason: "of another text" })],
            Some(Discount::InvalidSignature { reason: "of another text".to_owned() }),
        ),
        (
            "the signature cannot be read",
            true,
            vec![signature(Signature::Malformed { reason: "no armor" })],
            Some(Discount::MalformedSignature { reason: "no armor".to_owned() }),
        ),
        (
            "the signature was made for something else",
            true,
            vec![signature(Signature::OtherNamespace { namespace: "git" })],
            Some(Discount::OtherNamespace { namespace: "git".to_owned() }),
        ),
        (
            "the key is judged before its signature",
            true,
            vec![signature(Signature::Invalid { material: "stranger", reason: "of another text" })],
            Some(Discount::KeyNotListed),
        ),
        (
            "a signature that is not valid spoils a review that need not be signed",
            false,
            vec![signature(Signature::Invalid { material: "stranger", reason: "of another text" })],
            Some(Discount::InvalidSignature { reason: "of another text".to_owned() }),
        ),
        ("signed without a nonce", true, vec![owned().with(|spec| spec.nonce = None)], Some(Discount::Unbound)),
        ("signed without an expiry", true, vec![owned().with(|spec| spec.expires_at = None)], Some(Discount::Unbound)),
        ("signed without a cluster", true, vec![owned().with(|spec| spec.cluster_uid = None)], Some(Discount::Unbound)),
        (
            "signed without a change set",
            true,
            vec![owned().with(|spec| spec.change_set_uid = None)],
            Some(Discount::Unbound),
        ),
        ("signed with a key that is not listed", true, vec![yes().signed("stranger")], Some(Discount::KeyNotListed)),
        ("an unlisted key where none is asked for is as good as no signature", false, vec![yes().signed("any")], None),
        (
            "signed with the key of somebody else",
            true,
            vec![yes().signed("bob")],
            Some(Discount::KeyOfAnother { principal: "bob".to_owned() }),
        ),
        (
            "signed with the key of somebody else where none is asked for",
            false,
            vec![yes().signed("bob")],
            Some(Discount::KeyOfAnother { principal: "bob".to_owned() }),
        ),
        (
            "signed with the reviewer's key of another role",
            true,
            vec![yes().signed("alice-laptop")],
            Some(Discount::RoleNotAllowed { roles: roles() }),
        ),
        (
            "a copy of a signed review under another name",
            true,
            vec![owned(), owned().named("copy").at(ago(30)), owned().named("alice-0").at(ago(90))],
            Some(Discount::NonceUsed),
        ),
        (
            "somebody else's use of the nonce does not spoil it",
            true,
            vec![
                owned(),
                approve("mallory", &["web"]).at(ago(90)).with(|spec| spec.nonce = Some(format!("{NONCE}-alice"))),
            ],
            None,
        ),
        (
            "the same person rejected later",
            false,
            vec![yes(), later_no()],
            Some(Discount::Superseded { by: "later".to_owned() }),
        ),
        (
            "the same person approved again",
            false,
            vec![yes(), later_yes()],
            Some(Discount::Repeated { by: "later".to_owned() }),
        ),
        (
            "a later comment undoes nothing",
            false,
            vec![
                yes(),
                later_no().with(|spec| {
                    spec.decision = review::Decision::Comment;
                }),
            ],
            None,
        ),
        ("a later verdict that may not be given undoes nothing", true, vec![owned(), later_no()], None),
        ("somebody else's later verdict undoes nothing", false, vec![yes(), reject("bob", &["web"]).at(ago(30))], None),
    ];
    for (name, signed, evidence, expected) in rows {
        assert_eq!(ignored(&world(signed, evidence), "alice"), expected, "{name}");
    }
}

#[test]
fn reasons_are_told_in_their_order() {
    // What is wrong with a review is put right one by one, in the order in which it is judged.
    let mut review = approve("alice", &["old"]).signed("stranger").at(ahead(HOUR)).with(|spec| {
        spec.gate = "db".to_owned();
        spec.cluster_uid = Some("other".to_owned());
        spec.change_set_uid = Some("before".to_owned());
        spec.decision = review::Decision::Comment;
        spec.expires_at = None;
        spec.nonce = Some(format!("{NONCE}-used"));
    });
    let rule = ApprovalRule { requester_may_approve: false, ..signed_rule(Class::Destructive, 1, &["owner"]) };
    let mut told = Vec::new();
    let mut ask = |review: &Given| {
        let mut world = World::of(vec![destroy("web")]).rules(vec![rule.clone()]).reviews(vec![review.clone()]);
        world.used_nonces.insert(("alice".to_owned(), format!("{NONCE}-used")));
        told.push(ignored(&world, "alice").map(|discount| discount.reason()));
    };
    let malformed = Signature::Malformed { reason: "no armor" };
    let invalid = |material| Signature::Invalid { material, reason: "of another text" };
    let repairs: [&dyn Fn(&mut Given); 17] = [
        &|given| given.signature = Signature::Unsigned,
        &|given| given.review.spec.decision = review::Decision::Approve,
        &|given| given.review.spec.digests = vec!["sha256:web".to_owned()],
        &|given| given.signature = malformed,
        &|given| given.signature = Signature::OtherNamespace { namespace: "git" },
        &|given| given.signature = Signature::Unrecorded,
        &|given| given.signature = invalid("stranger"),
        &|given| given.review.spec.expires_at = Some(ago(1)),
        &|given| given.signature = invalid("bob"),
        &|given| given.signature = invalid("alice-laptop"),
        &|given| given.signature = invalid("alice-owner"),
        &|given| given.signature = Signature::Valid { material: "alice-owner" },
        &|given| given.review.spec.gate = "web".to_owned(),
        &|given| given.review.spec.cluster_uid = Some("cluster".to_owned()),
        &|given| given.review.spec.change_set_uid = Some("change-set".to_owned()),
        &|given| given.created_at = ago(60),
        &|given| given.review.spec.expires_at = Some(ahead(HOUR)),
    ];
    for repair in repairs {
        repair(&mut review);
        ask(&review);
    }
    let expected = [
        "Comment",
        "OtherGate",
        "Unsigned",
        "MalformedSignature",
        "OtherNamespace",
        "Unrecorded",
        "Unbound",
        "KeyNotListed",
        "KeyOfAnother",
        "RoleNotAllowed",
        "InvalidSignature",
        "OtherGate",
        "OtherCluster",
        "OtherChangeSet",
        "FutureDated",
        "Expired",
        "NonceUsed",
    ];
    assert_eq!(told, expected.map(Some));
}

#[test]
fn who_asked_is_told_before_the_date_and_a_changed_step_before_both() {
    let rule = ApprovalRule { requester_may_approve: false, ..rule(Class::Destructive, 1) };
    let told = |given: Given| {
        let world = World::of(vec![destroy("web")]).rules(vec![rule.clone()]).reviews(vec![given]);
        ignored(&world, "carol").map(|discount| discount.reason())
    };
    let expired = |given: Given| given.with(|spec| spec.expires_at = Some(ago(1)));
    assert_eq!(told(expired(approve("carol", &["old"]))), Some("Stale"));
    assert_eq!(told(expired(approve("carol", &["web"]))), Some("Requester"));
}

#[test]
fn who_may_have_asked_does_not_approve() {
    let rule = ApprovalRule { requester_may_approve: false, ..rule(Class::Destructive, 1) };
    let world = World::of(vec![destroy("web")]).rules(vec![rule]).reviews(vec![approve("alice", &["web"])]);
    let rows: [(&str, &[&str], bool); 7] = [
        ("another asked", &["carol"], true),
        ("the reviewer asked", &["alice"], false),
        ("the reviewer is one of who asked", &["alice", "carol"], false),
        ("nobody says who asked", &[], false),
        ("it is not known who asked", &[requester::UNKNOWN], false),
        ("it is not known who wrote what another asks about", &["carol", requester::UNKNOWN], false),
        ("nobody asked: it was found", &[requester::NOBODY], true),
    ];
    for (name, requesters, counts) in rows {
        let requesters = Requesters::of_all(requesters.iter().copied());
        let decision = world.ask(|input| gate(&Input { requesters: &requesters, ..*input }));
        assert_eq!(decision.steps[0].verdict == Verdict::Run, counts, "{name}: {decision}");
    }
}

#[test]
fn who_wrote_one_object_may_approve_what_is_for_another() {
    let rule = ApprovalRule { requester_may_approve: false, ..rule(Class::Destructive, 1) };
    let steps = vec![destroy("web"), destroy("db")];
    let (web, db) = (steps[0].target.clone(), steps[1].target.clone());
    let both = vec![approve("bob", &["web", "db"])];
    let world = World::of(steps).rules(vec![rule]).reviews(both);
    let of_targets = BTreeMap::from([(&web, "alice"), (&db, "bob")]);
    let requesters = Requesters { of_targets, ..Requesters::of_all(["alice"]) };
    let decision = world.ask(|input| gate(&Input { requesters: &requesters, ..*input }));
    let may_run: Vec<bool> = decision.steps.iter().map(|judged| judged.verdict == Verdict::Run).collect();
    assert_eq!(may_run, [true, false], "{decision}");
    let counted = Outcome::Counted { steps: BTreeSet::from([decision.steps[0].step.clone()]) };
    assert_eq!(decision.reviews[0].outcome, counted);
    assert!(decision.steps[1].verdict.to_string().contains("not by alice or bob"), "{decision}");
}

#[test]
fn a_nonce_that_was_used_elsewhere_is_used() {
    let mut world = world(true, vec![approve("alice", &["web"]).signed("alice-owner")]);
    world.used_nonces.insert(("bob".to_owned(), format!("{NONCE}-alice")));
    assert_eq!(ignored(&world, "alice"), None, "by another reviewer");
    world.used_nonces.insert(("alice".to_owned(), format!("{NONCE}-alice")));
    assert_eq!(ignored(&world, "alice"), Some(Discount::NonceUsed), "by the same reviewer");
}

#[test]
fn a_review_tells_how_far_it_got_with_the_step_it_got_furthest_with() {
    let steps = vec![destroy("web"), spend("gpu", "1")];
    let rules = vec![signed_rule(Class::Destructive, 1, &["owner"]), signed_rule(Class::Spend, 1, &[])];
    let both = approve("alice", &["web", "gpu"]).signed("alice-laptop");
    let world = World::of(steps.clone()).rules(rules.clone()).reviews(vec![both]);
    let counted = Outcome::Counted { steps: BTreeSet::from(["gpu".to_owned()]) };
    assert_eq!(world.decide().reviews[0].outcome, counted, "it counts where it may");
    let neither = approve("alice", &["web", "gpu"]).signed("stranger");
    let world = World::of(steps).rules(rules).reviews(vec![neither]);
    assert_eq!(ignored(&world, "alice"), Some(Discount::KeyNotListed), "it counts nowhere");
}

#[test]
fn reviews_read_as_sentences() {
    let reviewed = |outcome| Reviewed { review: "r".to_owned(), reviewer: "alice".to_owned(), outcome };
    let steps = BTreeSet::from(["a".to_owned(), "b".to_owned(), "c".to_owned()]);
    assert_eq!(reviewed(Outcome::Counted { steps }).to_string(), "review r by alice counts for a, b and c");
    let ignored = Outcome::Ignored { reason: Discount::Expired { at: now() } };
    let expected = "review r by alice does not count: it expired at 2026-11-15T12:00:00Z";
    assert_eq!(reviewed(ignored).to_string(), expected);
}

#[test]
fn an_approval_counts_for_what_people_are_asked_about() {
    let strict = || ApprovalRule { requester_may_approve: false, ..rule(Class::Destructive, 1) };
    let given = |who: &str| vec![approve(who, &["web"]).named("it")];
    let interrupts = || Step { interrupts: true, ..destroy("web") };
    let rows = [
        (
            "by who asked, of what also interrupts, which anybody may approve and nobody must",
            interrupts(),
            strict(),
            "carol",
            Some(Discount::Requester),
        ),
        ("by another", interrupts(), strict(), "alice", None),
        ("by who asked, where nobody must be asked", interrupts(), rule(Class::Destructive, 0), "carol", None),
    ];
    for (name, step, rule, who, expected) in rows {
        let world = World::of(vec![step]).rules(vec![rule]).reviews(given(who));
        assert_eq!(ignored(&world, "it"), expected, "{name}");
    }
}
