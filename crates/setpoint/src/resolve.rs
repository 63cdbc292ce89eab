//! `setpoint resolve`: which Plan serves a Goal, and why no other does.
//!
//! The answer is worked out here by the same function that the controllers ask, from what the server has or from files. So
//! it can be had before anything is applied.

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use setpoint_api::documents;
use setpoint_api::planspec::{Goal, Plan};
use setpoint_core::resolve::{CheckedPlan, Resolution, Verdict, first_error, resolve};

use crate::client::{Answer, Server};
use crate::document::{Document, Files};
use crate::get::JSON;
use crate::outcome::Outcome;
use crate::output::Output;
use crate::resource::Resource;
use crate::session::Place;
use crate::table::GAP;
use crate::terminal::{aligned, inert, remark};

#[derive(Debug, Args)]
pub(crate) struct Resolve {
    /// The Goal to find a Plan for
    goal: String,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    files: Files,
    /// The form to print the answer in
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// A goal, and all plans among which it is resolved.
struct Question {
    goal: Goal,
    plans: Vec<Plan>,
}

impl Resolve {
    pub(crate) fn run(&self) -> Result<Outcome> {
        match self.files.paths.is_empty() {
            true => self.place.look(async |session| self.answer(self.of_server(&session.server).await?, false)),
            false => self.answer(self.of_files()?, true),
        }
    }

    fn answer(&self, question: Question, is_offline: bool) -> Result<Outcome> {
        let errors: Vec<Option<String>> = question.plans.iter().map(first_error).collect();
        let checked =
            question.plans.iter().zip(&errors).map(|(plan, error)| CheckedPlan { plan, error: error.as_deref() });
        let mut resolution = resolve(&question.goal, &checked.collect::<Vec<_>>());
        if !is_offline {
            // A server has the plans of many goals.
            resolution.candidates.retain(|candidate| !matches!(candidate.verdict, Verdict::OtherGoal { .. }));
            remark_on_delay(&question.goal, &resolution);
        }
        let goal = &question.goal;
        self.output.print(|| text(goal, &resolution), || Ok(report(goal, &resolution)))?;
        Ok(Outcome::pending_if(resolution.active.is_none() && !is_over(goal)))
    }

    async fn of_server(&self, server: &Server) -> Result<Question> {
        let goals = server.resource("goals.planspec.io").await?;
        let Answer::Found(goal) = server.read(&goals.path(Some(&server.namespace), Some(&self.goal)), JSON).await?
        else {
            bail!(
                "there is no Goal {:?} in namespace {}; `setpoint get goals -A` shows what there is",
                self.goal,
                server.namespace
            );
        };
        let plans = plans_of(server, &server.resource("plans.planspec.io").await?).await?;
        Ok(Question { goal: understood(goal)?, plans })
    }

    fn of_files(&self) -> Result<Question> {
        let namespace = self.place.namespace();
        let (mut goals, mut plans) = (Vec::new(), Vec::new());
        for document in self.files.read()? {
            let title = format!("{}:{}", document.file, document.title());
            let Some((kind, object)) = plan_spec(document, namespace.unwrap_or("default"))? else { continue };
            let hint = || format!("{title} cannot be read; `setpoint validate` says why");
            match kind.as_str() {
                "Goal" => goals.push(serde_json::from_value::<Goal>(object).with_context(hint)?),
                "Plan" => plans.push(serde_json::from_value::<Plan>(object).with_context(hint)?),
                _ => {}
            }
        }
        Ok(Question { goal: self.chosen(goals, namespace)?, plans })
    }

    /// The one goal of the name that was asked for.
    fn chosen(&self, mut goals: Vec<Goal>, namespace: Option<&str>) -> Result<Goal> {
        let all: Vec<String> = goals.iter().map(full_name).collect();
        goals.retain(|goal| {
            let is_there = namespace.is_none_or(|namespace| goal.metadata.namespace.as_deref() == Some(namespace));
            goal.metadata.name.as_deref() == Some(self.goal.as_str()) && is_there
        });
        match (goals.len(), goals.pop()) {
            (1, Some(goal)) => Ok(goal),
            (0, _) if all.is_empty() => bail!("there is no Goal in these files"),
            (0, _) => bail!("there is no Goal {:?} in these files; there is {}", self.goal, inert(&all.join(", "))),
            _ => bail!("there are several Goals {:?} in these files; say which with --namespace", self.goal),
        }
    }
}

/// The plans of all namespaces, or, to those who may not see these, of the one they look in.
async fn plans_of(server: &Server, plans: &Resource) -> Result<Vec<Plan>> {
    let everywhere = server.read(&plans.path(None, None), JSON).await;
    let answer = match everywhere {
        Ok(answer) => answer,
        Err(refusal) => {
            let here = server.read(&plans.path(Some(&server.namespace), None), JSON).await?;
            remark(&format!("plans of other namespaces that may name this goal were not seen: {refusal}"));
            here
        }
    };
    let Answer::Found(mut list) = answer else { return Ok(Vec::new()) };
    let items = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
    items.into_iter().map(understood).collect()
}

/// An object of the server as its kind, which items of a list do not say.
fn understood<K: kube::Resource<DynamicType = ()> + DeserializeOwned>(mut object: Value) -> Result<K> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    object["apiVersion"] = json!(K::api_version(&()));
    object["kind"] = json!(K::kind(&()));
    serde_json::from_value(object)
        .map_err(|error| anyhow!("{} {:?} cannot be read: {error}", K::kind(&()), inert(&name)))
}

/// A document of the PlanSpec group, with a namespace if it says none; nothing for others.
fn plan_spec(document: Document, namespace: &str) -> Result<Option<(String, Value)>> {
    let title = format!("{}:{}", document.file, document.title());
    let mut object = document.content.map_err(|error| anyhow!("{title}: {}", inert(&error)))?;
    if object["apiVersion"] != "planspec.io/v1alpha1" {
        return Ok(None);
    }
    if object["metadata"].is_object() && object["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    let document = documents::decode(object).map_err(|error| anyhow!("{title}: {error}"))?;
    document.unknown.iter().for_each(|unknown| remark(&format!("{title}: {unknown}")));
    Ok(Some((document.kind, document.object)))
}

fn full_name(goal: &Goal) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{}", text(&goal.metadata.namespace), text(&goal.metadata.name))
}

/// Whether nothing is to come of a goal any more, with a plan or without.
fn is_over(goal: &Goal) -> bool {
    goal.status.as_ref().and_then(|status| status.phase).is_some_and(|phase| phase.is_terminal())
}

/// Tells who looks at both that the status is about to change.
fn remark_on_delay(goal: &Goal, resolution: &Resolution) {
    let status = goal.status.as_ref();
    if is_over(goal) {
        remark(&format!("{} is over, and stays as its status says", full_name(goal)));
        return;
    }
    let said = status.and_then(|status| status.active_plan_ref.as_ref()).map(ToString::to_string);
    if said != resolution.active.as_ref().map(ToString::to_string) {
        remark(&format!("the status of {} does not say so yet", full_name(goal)));
    }
}

fn text(goal: &Goal, resolution: &Resolution) -> String {
    let mut lines = vec![match &resolution.active {
        Some(plan) => format!("{} is served by {plan}", full_name(goal)),
        None => format!("{} is served by no plan", full_name(goal)),
    }];
    let others = resolution.candidates.iter().filter(|candidate| candidate.verdict != Verdict::Active);
    let rows = others.map(|other| [other.plan.to_string(), other.verdict.word().to_owned(), other.verdict.to_string()]);
    let mut rows: Vec<Vec<String>> = rows.map(|row| row.iter().map(|cell| inert(cell)).collect()).collect();
    if !rows.is_empty() {
        rows.insert(0, ["PLAN", "REASON", "WHY IT DOES NOT"].map(str::to_owned).into());
        lines.push(String::new());
        lines.extend(aligned(&rows, GAP));
    }
    if !resolution.cycles.is_empty() {
        lines.push(String::new());
    }
    lines.extend(resolution.cycles.iter().map(|cycle| {
        let names: Vec<String> = cycle.iter().map(ToString::to_string).collect();
        inert(&format!("these supersede each other in a circle, which is not obeyed: {}", names.join(", ")))
    }));
    lines.join("\n") + "\n"
}

fn report(goal: &Goal, resolution: &Resolution) -> Value {
    let candidates: Vec<Value> = resolution
        .candidates
        .iter()
        .map(|candidate| {
            let mut value =
                json!({"plan": candidate.plan, "message": format!("{} {}", candidate.plan, candidate.verdict)});
            if let (Some(value), Value::Object(verdict)) = (value.as_object_mut(), json!(candidate.verdict)) {
                value.extend(verdict);
            }
            value
        })
        .collect();
    let named = json!({"namespace": goal.metadata.namespace, "name": goal.metadata.name});
    json!({"goal": named, "active": resolution.active, "candidates": candidates, "cycles": resolution.cycles})
}
