//! What the gate decides, row by row.

mod budgets;
mod ledgers;
mod quorums;
mod reviews;
mod statuses;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use setpoint_api::environment::{Approval, ApprovalRule, ApproverKey, Guardrails, LedgerEntry};
use setpoint_api::price::Price;
use setpoint_api::review::{self, Review, ReviewSpec};
use setpoint_api::step::{Action, Class, Origin, Step, Target};

use super::*;

const NONCE: &str = "0123456789abcdef";
const HOUR: i64 = 3_600;

/// The moment of every decision here.
fn now() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

fn ahead(seconds: i64) -> Timestamp {
    ago(-seconds)
}

fn price(text: &str) -> Price {
    text.parse().unwrap()
}

fn target(name: &str) -> Target {
    Target { namespace: "shop".to_owned(), name: name.to_owned(), kind: "Machine".to_owned() }
}

/// A step on `name`, free and harmless, with the digest `sha256:NAME`.
fn step(name: &str, action: Action) -> Step {
    Step {
        id: name.to_owned(),
        target: target(name),
        action,
        provider_id: None,
        reason: String::new(),
        origin: Origin::Desired,
        changes: Vec::new(),
        class: Class::Benign,
        class_reason: String::new(),
        interrupts: false,
        create_first: false,
        hourly_cost_delta: Some(Price::ZERO),
        spends: false,
        depends_on: Vec::new(),
        old_spec_digest: None,
        new_spec_digest: None,
        digest: format!("sha256:{name}"),
    }
}

fn create(name: &str) -> Step {
    step(name, Action::Create)
}

/// A delete that destroys something.
fn destroy(name: &str) -> Step {
    Step { class: Class::Destructive, ..step(name, Action::Delete) }
}

/// A create that costs so much more an hour.
fn spend(name: &str, delta: &str) -> Step {
    Step { class: Class::Spend, hourly_cost_delta: Some(price(delta)), ..create(name) }
}

fn after(step: Step, depends_on: &[&str]) -> Step {
    Step { depends_on: depends_on.iter().map(|id| (*id).to_owned()).collect(), ..step }
}

/// A review with what is known of it.
#[derive(Debug, Clone)]
struct Given {
    review: Review,
    created_at: Timestamp,
    signature: Signature<'static>,
}

/// A review of a minute ago, of the given steps, named as its reviewer.
fn verdict(reviewer: &str, decision: review::Decision, steps: &[&str]) -> Given {
    let spec = ReviewSpec {
        gate: "web".to_owned(),
        decision,
        digests: steps.iter().map(|name| format!("sha256:{name}")).collect(),
        reviewer: reviewer.to_owned(),
        comment: None,
        expires_at: None,
        nonce: None,
        cluster_uid: None,
        change_set_uid: None,
        signature: None,
    };
    let mut review = Review::new(reviewer, spec);
    review.metadata.namespace = Some("shop".to_owned());
    Given { review, created_at: ago(60), signature: Signature::Unsigned }
}

fn approve(reviewer: &str, steps: &[&str]) -> Given {
    verdict(reviewer, review::Decision::Approve, steps)
}

fn reject(reviewer: &str, steps: &[&str]) -> Given {
    verdict(reviewer, review::Decision::Reject, steps)
}

impl Given {
    fn at(self, created_at: Timestamp) -> Given {
        Given { created_at, ..self }
    }

    fn named(mut self, name: &str) -> Given {
        self.review.metadata.name = Some(name.to_owned());
        self
    }

    fn with(mut self, change: impl FnOnce(&mut ReviewSpec)) -> Given {
        change(&mut self.review.spec);
        self
    }

    /// Signed by a key, with all that a signature binds.
    fn signed(self, material: &'static str) -> Given {
        let signed = self.with(|spec| {
            spec.nonce = Some(format!("{NONCE}-{}", spec.reviewer));
            spec.expires_at = Some(ahead(HOUR));
            spec.cluster_uid = Some("cluster".to_owned());
            spec.change_set_uid = Some("change-set".to_owned());
            spec.signature = Some("armored".to_owned());
        });
        Given { signature: Signature::Valid { material }, ..signed }
    }
}

/// What a step of a class needs: so many approvals by anybody, for a day.
fn rule(class: Class, approvals: u32) -> ApprovalRule {
    let expiry_seconds = 24 * 3_600;
    ApprovalRule { class, approvals, roles: Vec::new(), signature: false, requester_may_approve: true, expiry_seconds }
}

/// Alice has two keys, one for each role; bob is an operator.
fn keys() -> Vec<ApproverKey> {
    let keys = [("alice-owner", "alice", "owner"), ("alice-laptop", "alice", "operator"), ("bob", "bob", "operator")];
    let key = |(material, principal, role): (&str, &str, &str)| ApproverKey {
        public_key: format!("ssh-ed25519 {material} comment"),
        principal: principal.to_owned(),
        role: role.to_owned(),
    };
    keys.map(key).to_vec()
}

fn signed_rule(class: Class, approvals: u32, roles: &[&str]) -> ApprovalRule {
    let roles = roles.iter().map(|role| (*role).to_owned()).collect();
    ApprovalRule { signature: true, roles, ..rule(class, approvals) }
}

/// Everything that a decision depends on; by default an environment that says nothing of itself.
#[derive(Debug, Clone)]
struct World {
    steps: Vec<Step>,
    approval: Option<Approval>,
    guardrails: Option<Guardrails>,
    expires_at: Option<Timestamp>,
    evidence: Vec<Given>,
    used_nonces: BTreeSet<(String, String)>,
    ledger: Vec<LedgerEntry>,
    under_way: BTreeSet<String>,
    usage: Usage,
    gpus: BTreeMap<Target, Gpus>,
}

impl World {
    fn of(steps: Vec<Step>) -> World {
        World {
            steps,
            approval: None,
            guardrails: None,
            expires_at: None,
            evidence: Vec::new(),
            used_nonces: BTreeSet::new(),
            ledger: Vec::new(),
            under_way: BTreeSet::new(),
            usage: Usage { instances: Some(0), gpus: Some(0), hourly_cost: Some(Price::ZERO) },
            gpus: BTreeMap::new(),
        }
    }

    fn rules(self, rules: Vec<ApprovalRule>) -> World {
        World { approval: Some(Approval { rules, keys: keys() }), ..self }
    }

    fn limits(self, guardrails: Guardrails) -> World {
        World { guardrails: Some(guardrails), ..self }
    }

    fn reviews(self, evidence: Vec<Given>) -> World {
        World { evidence, ..self }
    }

    fn ask<T>(&self, question: impl FnOnce(&Input<'_>) -> T) -> T {
        let evidence: Vec<Evidence<'_>> = self.evidence.iter().map(Given::evidence).collect();
        question(&Input {
            steps: &self.steps,
            approval: self.approval.as_ref(),
            guardrails: self.guardrails.as_ref(),
            expires_at: self.expires_at,
            evidence: &evidence,
            used_nonces: &self.used_nonces,
            ledger: &self.ledger,
            under_way: &self.under_way,
            usage: self.usage,
            gpus: &self.gpus,
            requesters: &Requesters::of_all(["carol"]),
            cluster_uid: "cluster",
            namespace: "shop",
            gate: "web",
            change_set_uid: "change-set",
            opened_at: ago(HOUR),
            now: now(),
        })
    }

    fn decide(&self) -> Decision {
        self.ask(gate)
    }

    /// Each step's verdict as a person reads it.
    fn verdicts(&self) -> Vec<String> {
        self.decide().steps.iter().map(|judged| format!("{}: {}", judged.step, judged.verdict)).collect()
    }
}

impl Given {
    fn evidence(&self) -> Evidence<'_> {
        Evidence { review: &self.review, created_at: self.created_at, signature: self.signature }
    }
}

/// A table of worlds and the verdicts of their steps.
fn assert_verdicts<const N: usize>(rows: [(&str, World, &[&str]); N]) {
    for (name, world, expected) in rows {
        assert_eq!(world.verdicts(), expected, "{name}");
    }
}
