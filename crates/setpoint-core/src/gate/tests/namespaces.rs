//! Limits of single namespaces beside those of the environment.

use super::budgets::{added, begun, cost, destroying, destroys, instances};
use super::*;

/// The limits of some namespaces.
fn of_namespaces(limits: &[(&str, Guardrails)]) -> Guardrails {
    let of = |(namespace, limits): &(&str, Guardrails)| NamespaceLimits {
        namespace: (*namespace).to_owned(),
        max_hourly_cost: limits.max_hourly_cost,
        max_added_cost_per_hour: limits.max_added_cost_per_hour,
        max_gpus: limits.max_gpus,
        max_instances: limits.max_instances,
        max_destroys_per_hour: limits.max_destroys_per_hour,
    };
    Guardrails { namespaces: limits.iter().map(of).collect(), ..Guardrails::default() }
}

/// The same step for an object of another namespace.
fn elsewhere(namespace: &str, step: Step) -> Step {
    Step { target: Target { namespace: namespace.to_owned(), ..step.target.clone() }, ..step }
}

impl World {
    /// What a namespace has of what there is.
    fn of_which(mut self, namespace: &str, instances: u32, hourly_cost: &str) -> World {
        let level = Level { instances: Some(instances), gpus: Some(0), hourly_cost: Some(price(hourly_cost)) };
        self.usage.namespaces.insert(namespace.to_owned(), level);
        self
    }
}

#[test]
fn a_namespace_stays_within_its_own_limits_and_is_told_of_nobody_elses() {
    let ten_cents = || World::of(vec![spend("a", "0.10")]);
    let of_shop = |limits: Guardrails| of_namespaces(&[("shop", limits)]);
    let over = "a: waits: $0.30/h in use by namespace shop + $0.10/h for this step exceeds maxHourlyCost $0.35/h";
    let destroyed = |name: &str, namespace: &str| begun(&elsewhere(namespace, destroy(name)), 1_800);
    assert_verdicts([
        (
            "beyond what it may cost",
            ten_cents().limits(of_shop(cost("0.35"))).has(9, 0, "7").of_which("shop", 1, "0.30"),
            &[over],
        ),
        (
            "what others cost does not count",
            ten_cents().limits(of_shop(cost("0.35"))).has(9, 0, "7").of_which("crm", 8, "6.90"),
            &["a: may run"],
        ),
        (
            "both limits are said, the environment's first",
            ten_cents()
                .limits(Guardrails { max_instances: Some(9), ..of_shop(cost("0.35")) })
                .has(9, 0, "7")
                .of_which("shop", 1, "0.30"),
            &[
                "a: waits: 9 instances in use + 1 for this step exceeds maxInstances 9; $0.30/h in use by namespace shop + \
               $0.10/h for this step exceeds maxHourlyCost $0.35/h",
            ],
        ),
        (
            "the entry for every namespace holds for one without its own",
            World::of(vec![create("a")])
                .limits(of_namespaces(&[("*", instances(1)), ("crm", instances(5))]))
                .has(1, 0, "0")
                .of_which("shop", 1, "0"),
            &["a: waits: 1 instance in use by namespace shop + 1 for this step exceeds maxInstances 1"],
        ),
        (
            "its own entry holds instead of the one for every namespace",
            World::of(vec![create("a")])
                .limits(of_namespaces(&[("*", instances(0)), ("shop", instances(2))]))
                .has(1, 0, "0")
                .of_which("shop", 1, "0"),
            &["a: may run"],
        ),
        (
            "steps of two namespaces use up their own",
            World::of(vec![create("a"), elsewhere("crm", create("b")), create("c")])
                .limits(of_namespaces(&[("*", instances(1))]))
                .has(0, 0, "0"),
            &[
                "a: may run",
                "b: may run",
                "c: waits: 1 instance in use by namespace shop + 1 for this step exceeds maxInstances 1",
            ],
        ),
        (
            "a step that is more than its namespace may ever have",
            ten_cents().limits(of_shop(cost("0.05"))),
            &["a: refused: this step alone is more than maxHourlyCost $0.05/h of namespace shop allows"],
        ),
        (
            "what there is is not known, so neither is what the namespace has",
            ten_cents().limits(of_shop(cost("1"))).knows_nothing(),
            &["a: waits: maxHourlyCost $1.00/h of namespace shop is set, and how much there is now is not known"],
        ),
        (
            "what was destroyed for it counts",
            destroying(&["b"]).limits(of_shop(destroys(1))).ledger(vec![destroyed("x", "shop")]),
            &["b: waits: 1 destructive step taken within the last hour by namespace shop + 1 for this step exceeds \
               maxDestroysPerHour 1 until 2026-11-15T12:30:00Z"],
        ),
        (
            "what was destroyed for others does not",
            destroying(&["b"]).limits(of_shop(destroys(1))).ledger(vec![destroyed("x", "crm")]),
            &["b: may run"],
        ),
        (
            "what was added for it within the hour counts",
            ten_cents()
                .limits(of_shop(added("0.15")))
                .ledger(vec![begun(&spend("x", "0.10"), 0), begun(&elsewhere("crm", spend("y", "0.10")), 0)]),
            &["a: waits: $0.10/h added within the last hour by namespace shop + $0.10/h for this step exceeds \
               maxAddedCostPerHour $0.15/h until 2026-11-15T13:00:00Z"],
        ),
        (
            "a guest that belongs to no object has no namespace",
            World::of(vec![elsewhere("", step("a", Action::Delete))]).limits(of_namespaces(&[("*", instances(0))])),
            &["a: may run"],
        ),
    ]);
}
