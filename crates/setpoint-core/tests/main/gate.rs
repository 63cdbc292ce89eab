//! Properties of the gate.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use setpoint_api::environment::{Approval, ApprovalRule, ApproverKey, Guardrails, LedgerEntry};
use setpoint_api::price::Price;
use setpoint_api::review::{self, Review, ReviewSpec};
use setpoint_api::step::{Action, Class, Origin, Step, Target};
use setpoint_core::gate::{
    Decision, Evidence, Gpus, Input, Requesters, Signature, Usage, Verdict, gate, ledger_entry, prune, record,
};

const ACTIONS: [Action; 6] =
    [Action::Create, Action::Update, Action::Start, Action::Stop, Action::Replace, Action::Delete];
const CLASSES: [Class; 4] = [Class::Benign, Class::Disruptive, Class::Spend, Class::Destructive];
const PEOPLE: [&str; 4] = ["alice", "bob", "carol", "dan"];
const ROLES: [&str; 2] = ["owner", "operator"];
const STEPS: usize = 6;
const HOUR_S: i64 = 3_600;
/// The ledger was written, and the provider not called.
const CRASH_BEFORE_CALL: u8 = 1;
/// The provider acted, and nobody knows.
const LOST_ANSWER: u8 = 2;

fn time(seconds: i64) -> Timestamp {
    Timestamp::constant(1_794_744_000, 0) + SignedDuration::from_secs(seconds)
}

/// Everything that a decision depends on.
#[derive(Debug, Clone)]
struct World {
    steps: Vec<Step>,
    approval: Approval,
    guardrails: Guardrails,
    evidence: Vec<Given>,
    ledger: Vec<LedgerEntry>,
    under_way: BTreeSet<String>,
    usage: Usage,
    gpus: BTreeMap<Target, Gpus>,
}

#[derive(Debug, Clone)]
struct Given {
    review: Review,
    created_at: Timestamp,
    /// The material of the key that signed it.
    key: Option<String>,
}

impl World {
    fn decide(&self) -> Decision {
        self.decide_at(time(0))
    }

    fn decide_at(&self, now: Timestamp) -> Decision {
        let evidence = self.evidence.iter().map(|given| Evidence {
            review: &given.review,
            created_at: given.created_at,
            signature: given.key.as_deref().map_or(Signature::Unsigned, |material| Signature::Valid { material }),
        });
        let evidence: Vec<Evidence<'_>> = evidence.collect();
        gate(&Input {
            steps: &self.steps,
            approval: Some(&self.approval),
            guardrails: Some(&self.guardrails),
            expires_at: None,
            evidence: &evidence,
            used_nonces: &BTreeSet::new(),
            ledger: &self.ledger,
            under_way: &self.under_way,
            usage: self.usage,
            gpus: &self.gpus,
            requesters: &Requesters::of_all(["carol"]),
            cluster_uid: "cluster",
            namespace: "shop",
            gate: "web",
            change_set_uid: "change-set",
            opened_at: time(-10 * HOUR_S),
            now,
        })
    }

    fn runs(&self) -> BTreeSet<String> {
        self.decide().runs().map(str::to_owned).collect()
    }

    /// The same without limits, where only people hold a step back.
    fn unlimited(mut self) -> World {
        self.guardrails = Guardrails::default();
        self
    }
}

fn target(name: &str) -> Target {
    Target { namespace: "shop".to_owned(), name: name.to_owned(), kind: "Machine".to_owned() }
}

fn step(id: &str, action: Action, class: Class, cost: Option<i64>) -> Step {
    Step {
        id: id.to_owned(),
        target: target(id),
        action,
        provider_id: None,
        reason: String::new(),
        origin: Origin::Desired,
        changes: Vec::new(),
        class,
        class_reason: String::new(),
        interrupts: false,
        create_first: false,
        hourly_cost_delta: cost.map(Price::from_micros),
        spends: false,
        depends_on: Vec::new(),
        old_spec_digest: None,
        new_spec_digest: None,
        digest: format!("sha256:{id}"),
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = (
        prop::sample::select(&ACTIONS[..]),
        prop::sample::select(&CLASSES[..]),
        prop::option::weighted(0.8, -5..8_i64),
        any::<(bool, bool)>(),
        prop::option::weighted(0.3, 0..STEPS),
    );
    prop::collection::vec(one, 0..=STEPS).prop_map(|drawn| {
        let named = drawn.into_iter().enumerate();
        let steps = named.map(|(place, (action, class, cost, (interrupts, create_first), needs))| Step {
            interrupts,
            create_first,
            depends_on: needs.filter(|needed| *needed < place).map(|needed| format!("s{needed}")).into_iter().collect(),
            ..step(&format!("s{place}"), action, class, cost)
        });
        steps.collect()
    })
}

fn approval() -> impl Strategy<Value = Approval> {
    let rule = (
        0..3_u32,
        prop::option::of(prop::sample::select(&ROLES[..])),
        any::<(bool, bool)>(),
        prop::sample::select(vec![600, 86_400]),
    );
    prop::collection::vec(rule, 4).prop_map(|drawn| {
        let rules = CLASSES.iter().zip(drawn);
        let rules = rules.map(|(class, (approvals, role, (signature, requester_may_approve), expiry_seconds))| {
            let roles: Vec<String> = role.map(str::to_owned).into_iter().collect();
            ApprovalRule { class: *class, approvals, roles, signature, requester_may_approve, expiry_seconds }
        });
        let keys = PEOPLE.iter().zip(ROLES.iter().cycle()).map(|(who, role)| ApproverKey {
            public_key: format!("ssh-ed25519 key-{who}"),
            principal: (*who).to_owned(),
            role: (*role).to_owned(),
        });
        Approval { rules: rules.collect(), keys: keys.collect() }
    })
}

fn given() -> impl Strategy<Value = Given> {
    (
        prop::sample::select(&PEOPLE[..]),
        prop::sample::select(vec![review::Decision::Approve, review::Decision::Approve, review::Decision::Reject]),
        prop::collection::vec(0..STEPS + 1, 1..4),
        -2 * HOUR_S..120,
        prop::option::weighted(0.7, prop::sample::select(&PEOPLE[..])),
        (any::<u32>(), 0..20_u8),
    )
        .prop_map(|(reviewer, decision, digests, created, key, (serial, nonce))| {
            let spec = ReviewSpec {
                gate: "web".to_owned(),
                decision,
                digests: digests.into_iter().map(|place| format!("sha256:s{place}")).collect(),
                reviewer: reviewer.to_owned(),
                comment: None,
                expires_at: Some(time(created + HOUR_S)),
                nonce: Some(format!("0123456789abcdef{nonce}")),
                cluster_uid: Some("cluster".to_owned()),
                change_set_uid: Some("change-set".to_owned()),
                signature: None,
            };
            let key = key.map(|holder| format!("key-{holder}"));
            let mut review = Review::new(&format!("review-{serial}"), spec);
            review.metadata.namespace = Some("shop".to_owned());
            Given { review, created_at: time(created), key }
        })
}

fn guardrails() -> impl Strategy<Value = Guardrails> {
    let price = || prop::option::of((0..12_i64).prop_map(Price::from_micros));
    let number = || prop::option::of(0..6_u32);
    (price(), price(), number(), number(), number()).prop_map(|(all, added, gpus, instances, destroys)| Guardrails {
        max_hourly_cost: all,
        max_added_cost_per_hour: added,
        max_gpus: gpus,
        max_instances: instances,
        max_destroys_per_hour: destroys,
        ..Guardrails::default()
    })
}

fn ledger() -> impl Strategy<Value = Vec<LedgerEntry>> {
    let intent = prop::option::of((0..4_u8).prop_map(|id| id.to_string()));
    let entry = (0..STEPS + 4, -2 * HOUR_S..60, any::<bool>(), 0..4_i64, intent);
    let entry = entry.prop_map(|(place, seconds, destroyed, cost, intent)| LedgerEntry {
        time: time(seconds),
        action: Some(Action::Delete),
        target: target(&format!("s{place}")),
        digest: format!("sha256:s{place}"),
        intent,
        destroyed,
        hourly_cost_delta: Some(Price::from_micros(cost)),
        moved_bps: None,
    });
    prop::collection::vec(entry, 0..6)
}

fn usage() -> impl Strategy<Value = (Usage, BTreeMap<Target, Gpus>)> {
    let now = (prop::option::weighted(0.9, 0..5_u32), prop::option::weighted(0.9, 0..5_u32), 0..8_i64);
    (now, prop::collection::vec((0..3_u32, 0..3_u32), STEPS)).prop_map(|((instances, gpus, cost), drawn)| {
        let usage = Usage { instances, gpus, hourly_cost: Some(Price::from_micros(cost)) };
        let gpus = drawn.into_iter().enumerate();
        (usage, gpus.map(|(place, (held, wanted))| (target(&format!("s{place}")), Gpus { held, wanted })).collect())
    })
}

fn world() -> impl Strategy<Value = World> {
    let reviews = prop::collection::vec(given(), 0..8).prop_map(|mut given| {
        given.dedup_by_key(|given| given.review.metadata.name.clone());
        given
    });
    (steps(), approval(), guardrails(), reviews, ledger(), usage()).prop_map(
        |(steps, approval, guardrails, evidence, ledger, (usage, gpus))| World {
            steps,
            approval,
            guardrails,
            evidence,
            ledger,
            under_way: BTreeSet::from(["0".to_owned(), "1".to_owned()]),
            usage,
            gpus,
        },
    )
}

/// The same with steps that depend on none, so that each verdict is the step's own.
fn independent(mut world: World) -> World {
    world.steps.iter_mut().for_each(|step| step.depends_on.clear());
    world
}

fn needs_approval(world: &World, step: &Step) -> bool {
    step.classes().into_iter().any(|class| world.approval.requirement(class).approvals > 0)
}

/// The items in another order.
fn shuffled<T: Clone>(items: &[T], order: &[usize]) -> Vec<T> {
    let mut keyed: Vec<(usize, T)> =
        items.iter().enumerate().map(|(place, item)| (order[place % order.len()], item.clone())).collect();
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, item)| item).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn an_approval_never_outlives_a_change_of_its_step(world in world(), place in 0..STEPS) {
        let before = independent(world.unlimited());
        let Some(place) = place.checked_rem(before.steps.len()) else { return Ok(()) };
        let mut after = before.clone();
        after.steps[place].digest = "sha256:changed".to_owned();
        let (decided, again) = (before.decide(), after.decide());
        for (index, step) in before.steps.iter().enumerate() {
            if index != place {
                prop_assert_eq!(&decided.steps[index], &again.steps[index], "another step lost or gained something");
            } else if needs_approval(&before, step) {
                prop_assert!(again.steps[index].verdict.waits_for_people(), "{}", again);
            } else {
                prop_assert_eq!(&again.steps[index].verdict, &Verdict::Run);
            }
        }
    }

    #[test]
    fn the_order_of_evidence_and_ledger_does_not_matter(
        world in world(),
        order in prop::collection::vec(0..100_usize, 8),
    ) {
        let mut permuted = world.clone();
        permuted.evidence = shuffled(&world.evidence, &order);
        permuted.ledger = shuffled(&world.ledger, &order);
        prop_assert_eq!(world.decide(), permuted.decide());
    }

    #[test]
    fn an_unrelated_review_changes_nothing(world in world(), other in given(), of_gate in any::<bool>()) {
        let mut more = world.clone();
        let mut other = other;
        other.review.metadata.name = Some("unrelated".to_owned());
        // Of the same gate and of nothing that is here, or of the same steps and another gate. A nonce is used once.
        if of_gate {
            other.review.spec.digests = vec!["sha256:elsewhere".to_owned()];
        } else {
            other.review.spec.gate = "db".to_owned();
        }
        other.review.spec.nonce = Some("another-nonce-entirely".to_owned());
        more.evidence.push(other);
        let (before, mut after) = (world.decide(), more.decide());
        after.reviews.retain(|reviewed| reviewed.review != "unrelated");
        prop_assert_eq!(before, after);
    }

    #[test]
    fn a_stricter_policy_never_runs_more(
        world in world(),
        class in 0..4_usize,
        stricter in 0..4_u8,
        limits in guardrails(),
    ) {
        let mut strict = world.clone();
        let rule = &mut strict.approval.rules[class];
        match stricter {
            0 => rule.approvals += 1,
            1 => rule.signature = true,
            2 => rule.requester_may_approve = false,
            _ => rule.expiry_seconds = 60,
        }
        // More signatures and fewer people may decide, so fewer may reject, too: it is approvals that are stricter.
        let without_rejections = |mut world: World| {
            world.evidence.retain(|given| given.review.spec.decision == review::Decision::Approve);
            world.unlimited()
        };
        let (lax, strict) = (without_rejections(world.clone()), without_rejections(strict));
        prop_assert!(strict.runs().is_subset(&lax.runs()), "{} and then {}", lax.decide(), strict.decide());

        // A limit on one step leaves room for a later one; so what is compared is each step alone.
        for place in 0..world.steps.len() {
            let mut lax = independent(world.clone());
            lax.steps = vec![lax.steps[place].clone()];
            let mut strict = lax.clone();
            strict.guardrails = tightest(&lax.guardrails, &limits);
            prop_assert!(strict.runs().is_subset(&lax.runs()), "{} and then {}", lax.decide(), strict.decide());
        }
    }

    #[test]
    fn what_runs_together_stays_within_every_limit(world in world()) {
        let runs = world.runs();
        let running: Vec<&Step> = world.steps.iter().filter(|step| runs.contains(&step.id)).collect();
        let limits = &world.guardrails;
        let instances = running.iter().filter(|step| {
            step.action == Action::Create || (step.action == Action::Replace && step.create_first)
        });
        let instances = u32::try_from(instances.count()).unwrap();
        if let (Some(limit), true) = (limits.max_instances, instances > 0) {
            prop_assert!(world.usage.instances.unwrap() + instances <= limit);
        }
        let costs = running.iter().filter_map(|step| step.hourly_cost_delta).filter(|cost| *cost > Price::ZERO);
        let cost: Price = costs.sum();
        if let (Some(limit), true) = (limits.max_hourly_cost, cost > Price::ZERO) {
            prop_assert!(world.usage.hourly_cost.unwrap() + cost <= limit);
        }
    }

    #[test]
    fn a_decision_survives_json(world in world()) {
        let decision = world.decide();
        let text = serde_json::to_string(&decision).unwrap();
        prop_assert_eq!(serde_json::from_str::<Decision>(&text).unwrap(), decision);
    }

    /// The world goes on for hours: guests come up for destruction, the control plane crashes before or after it acted,
    /// and tries again; a guest that was seen gone comes back, and up for destruction again. Whatever really was
    /// destroyed, and whenever, no hour has more of it than the limit.
    #[test]
    fn no_hour_has_more_destroys_than_allowed(
        limit in 1..4_u32,
        moments in prop::collection::vec((1..1_500_i64, prop::collection::vec(0..10_usize, 1..5), 0..3_u8), 1..40),
    ) {
        let limits = Guardrails { max_destroys_per_hour: Some(limit), ..Guardrails::default() };
        let free = ApprovalRule {
            class: Class::Destructive,
            approvals: 0,
            roles: Vec::new(),
            signature: false,
            requester_may_approve: true,
            expiry_seconds: 60,
        };
        let mut world = World {
            steps: Vec::new(),
            approval: Approval { rules: vec![free], keys: Vec::new() },
            guardrails: limits.clone(),
            evidence: Vec::new(),
            ledger: Vec::new(),
            under_way: BTreeSet::new(),
            usage: Usage::default(),
            gpus: BTreeMap::new(),
        };
        let mut now = 0;
        let mut destroyed: Vec<i64> = Vec::new();
        // The call under way for each guest, and whether the provider acted on it.
        let mut calls: BTreeMap<usize, (String, bool)> = BTreeMap::new();
        for (moment, (pause, guests, crash)) in moments.into_iter().enumerate() {
            now += pause;
            let wanted: BTreeSet<usize> = guests.into_iter().collect();
            world.under_way = calls.values().map(|(intent, _)| intent.clone()).collect();
            let delete = |guest: &usize| step(&format!("s{guest}"), Action::Delete, Class::Destructive, None);
            world.steps = wanted.iter().map(delete).collect();
            let decision = world.decide_at(time(now));
            let judged = wanted.iter().zip(&world.steps).zip(&decision.steps);
            for ((guest, step), _) in judged.filter(|(_, judged)| judged.verdict == Verdict::Run) {
                let (intent, acted) = calls.entry(*guest).or_insert_with(|| (format!("{guest} at {moment}"), false));
                let entry = ledger_entry(step, intent, &limits, time(now)).expect("a destroy counts");
                world.ledger = record(std::mem::take(&mut world.ledger), entry);
                if crash == CRASH_BEFORE_CALL {
                    break;
                }
                if !std::mem::replace(acted, true) {
                    destroyed.push(now);
                }
                if crash == LOST_ANSWER {
                    break;
                }
                calls.remove(guest);
            }
            world.ledger = prune(std::mem::take(&mut world.ledger), time(now));
        }
        for end in &destroyed {
            let within = destroyed.iter().filter(|at| **at <= *end && **at > *end - HOUR_S).count();
            prop_assert!(within <= limit as usize, "{within} within the hour before {end}: {destroyed:?}");
        }
    }
}

fn tightest(one: &Guardrails, other: &Guardrails) -> Guardrails {
    fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
        [one, other].into_iter().flatten().min()
    }
    Guardrails {
        max_hourly_cost: least(one.max_hourly_cost, other.max_hourly_cost),
        max_added_cost_per_hour: least(one.max_added_cost_per_hour, other.max_added_cost_per_hour),
        max_gpus: least(one.max_gpus, other.max_gpus),
        max_instances: least(one.max_instances, other.max_instances),
        max_destroys_per_hour: least(one.max_destroys_per_hour, other.max_destroys_per_hour),
        ..Guardrails::default()
    }
}
