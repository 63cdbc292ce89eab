//! What it costs to plan for an environment and to resolve a goal, in a process that has done nothing else before.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::json;
use setpoint_api::planspec::{Goal, Plan};
use setpoint_api::step::Target;
use setpoint_core::desired::{Create, Desired, Record, Run};
use setpoint_core::digest::Key;
use setpoint_core::observation::{Completeness, Config, Guest, Mark, Observation, Reading};
use setpoint_core::plan::{ChangeSet, Input, Orphans, Policy, plan};
use setpoint_core::resolve::{CheckedPlan, resolve};
use setpoint_core::value::Fields;
use setpoint_testkit::deployers::{GIB, MIB, RACK};

use crate::process;
use crate::report::{self, Report, Row};

const CLUSTER: &str = "benchmark";
const MANY: usize = 100_000;
const PLANS: usize = 10_000;
const ROUNDS: usize = 5;

/// Measures plans of 10 000 and 100 000 instances, with nothing changed and with one in a hundred changed.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let mut fewer = Population::of(MANY / 10);
    let (few, few_changed) = (fewer.median_ms(0)?, fewer.median_ms(MANY / 1_000)?);
    drop(fewer);
    let mut many = Population::of(MANY);
    let unchanged = many.median_ms(0)?;
    let peak = process::peak_memory_mb()?;
    let changed = many.median_ms(MANY / 100)?;
    let at_most = report::Target::AtMost;
    report.add(Row::new("plan, 10 000 instances, nothing changed", "ms", few));
    report.add(Row::new("plan, 10 000 instances, 1 % changed", "ms", few_changed).target(at_most(200.0)));
    report.add(Row::new("plan, 100 000 instances, nothing changed", "ms", unchanged).target(at_most(500.0)));
    report.add(Row::new("plan, 100 000 instances: peak memory", "MB", peak).target(at_most(300.0)));
    report.add(Row::new("plan, 100 000 instances, 1 % changed", "ms", changed).target(at_most(600.0)));
    report.add(Row::new("plan, 10 000 -> 100 000 instances", "×", unchanged / few).target(at_most(11.0)));
    report.add(Row::new("resolve among 10 000 plans", "ms", resolve_ms()?).target(at_most(20.0)));
    Ok(())
}

/// The median time to resolve a goal among plans that could all serve it, in a hundred series, each of which
/// supersedes one of another series.
fn resolve_ms() -> Result<f64> {
    let document = |number: usize| {
        json!({
            "apiVersion": "planspec.io/v1alpha1",
            "kind": "Plan",
            "metadata": {"name": format!("plan-{number}"), "namespace": "default", "labels": {"tier": "gold"}},
            "spec": {
                "description": "One of many.",
                "goalRef": {"name": "goal"},
                "series": format!("series-{}", number % 100),
                "version": format!("v1.{}.0-rc.{}", number / 100, number % 7),
                "supersedes": [{"name": format!("plan-{}", number / 2)}],
                "graph": {"nodes": [{"id": "build", "kind": "Task"}]},
            },
        })
    };
    let goal: Goal = serde_json::from_value(json!({
        "apiVersion": "planspec.io/v1alpha1",
        "kind": "Goal",
        "metadata": {"name": "goal", "namespace": "default"},
        "spec": {"description": "To be fast.", "planSelector": {"matchLabels": {"tier": "gold"}}},
    }))?;
    let plans =
        (1..=PLANS).map(|number| Ok(serde_json::from_value(document(number))?)).collect::<Result<Vec<Plan>>>()?;
    let checked: Vec<CheckedPlan<'_>> = plans.iter().map(|plan| CheckedPlan { plan, error: None }).collect();
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let resolution = black_box(resolve(&goal, &checked));
        times.push(start.elapsed().as_secs_f64() * 1_000.0);
        ensure!(resolution.active.is_some(), "no plan was found");
    }
    times.sort_by(f64::total_cmp);
    Ok(times[ROUNDS / 2])
}

struct Population {
    desired: Vec<Desired>,
    observation: Observation,
    key: Key,
}

impl Population {
    fn of(size: usize) -> Population {
        let key = Key::new([1; 32]);
        let desired: Vec<Desired> = (0..size).map(|number| machine(number, &key)).collect();
        // The provider lists them in an order of its own.
        let mut guests: Vec<Guest> =
            desired.iter().enumerate().map(|(number, desired)| guest(number, desired)).collect();
        guests.sort_by_cached_key(|guest| guest.id.bytes().rev().collect::<Vec<u8>>());
        let observation =
            Observation { completeness: Completeness::Complete, guests, observed_at: jiff::Timestamp::UNIX_EPOCH };
        Population { desired, observation, key }
    }

    /// The median time of a plan in which so many instances are to be changed.
    fn median_ms(&mut self, changed: usize) -> Result<f64> {
        let step = self.desired.len().checked_div(changed).unwrap_or(usize::MAX);
        for desired in self.desired.iter_mut().step_by(step).take(changed) {
            desired.fields.set("cores", 16);
        }
        let mut times = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let change_set = black_box(self.plan());
            times.push(start.elapsed().as_secs_f64() * 1_000.0);
            ensure!(change_set.steps.len() == changed, "{} steps, expected {changed}", change_set.steps.len());
        }
        times.sort_by(f64::total_cmp);
        Ok(times[ROUNDS / 2])
    }

    fn plan(&self) -> ChangeSet {
        plan(&Input {
            environment: "benchmark",
            cluster: CLUSTER,
            capabilities: &RACK,
            desired: &self.desired,
            observation: &self.observation,
            policy: Policy { create: Create::Always, orphans: Orphans::Delete },
            key: &self.key,
        })
    }
}

fn machine(number: usize, key: &Key) -> Desired {
    let uid = format!("{number:08x}-0000-4000-8000-000000000000");
    let target = Target {
        namespace: format!("team-{}", number % 100),
        name: format!("machine-{number}"),
        kind: "Machine".to_owned(),
    };
    let small = i64::try_from(number % 7).expect("a small number");
    let mut fields = Fields::default();
    fields.set("cores", 1 + small);
    fields.set("description", "One of many, which somebody asked for.");
    fields.set("disk", (20 + small) * GIB);
    fields.set("env", [("MODE", "production"), ("REGION", "eu-1"), ("TIER", "web")]);
    fields.set("hostname", format!("machine-{number}").as_str());
    fields.set("image", "debian-12-standard");
    fields.set("memory", (1 + small) * 1024 * MIB);
    fields.set("tags", vec!["benchmark", "many"]);
    let mut desired = Desired { fields, run: Some(Run::Running), ..Desired::new(target, &uid) };
    let spec_digest = desired.spec_digest(key).into();
    desired.record =
        Record { provider_id: Some(number.to_string().into()), spec_digest: Some(spec_digest), ..Record::default() };
    desired
}

/// The machine as its provider shows it: what does not count is different.
fn guest(number: usize, desired: &Desired) -> Guest {
    let mut fields = desired.fields.clone();
    fields.set("description", "One of many, which somebody asked for.\n");
    fields.set("tags", vec!["many", "benchmark"]);
    Guest {
        id: number.to_string().into(),
        name: desired.target.name.as_str().into(),
        mark: Some(Mark {
            cluster: CLUSTER.into(),
            owner_uid: desired.uid.clone(),
            intent: Some("intent".into()),
            spec_digest: desired.record.spec_digest.clone(),
        }),
        config: Config::known(fields),
        run: Reading::Known("running".into()),
        holds_data: Reading::Known(true),
        busy: None,
        is_template: false,
        hourly_price: None,
    }
}
