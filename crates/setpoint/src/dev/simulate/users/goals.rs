//! What people do to Goals and Plans.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use setpoint_api::planspec::{Goal, Plan};

use super::Users;
use crate::dev::simulate::ledger::Books;

const GOALS: [&str; 2] = ["launch", "grow"];
const PLANS: [&str; 4] = ["alpha", "beta", "gamma", "delta"];

pub(super) const ACTIONS: [(u32, Action); 8] = [
    (2, Action::CreateGoal),
    (1, Action::SelectPlans),
    (1, Action::EndGoal),
    (1, Action::DeleteGoal),
    (4, Action::CreatePlan),
    (4, Action::ChangePlan),
    (1, Action::RelabelPlan),
    (1, Action::DeletePlan),
];

#[derive(Debug, Clone, Copy)]
pub(super) enum Action {
    CreateGoal,
    SelectPlans,
    EndGoal,
    DeleteGoal,
    CreatePlan,
    ChangePlan,
    RelabelPlan,
    DeletePlan,
}

impl Users {
    pub(super) fn choose_goal(&self, action: Action, books: &Books) -> Option<(String, Value)> {
        let dice = &self.dice;
        let tier = *dice.pick(&["gold", "tin"])?;
        match action {
            Action::CreateGoal => {
                let name = self.absent(&GOALS, &books.goals)?;
                Some((name.to_owned(), json!({"metadata": {"name": name}, "spec": {"description": "d"}})))
            }
            Action::SelectPlans => {
                let selector = dice.permille(600).then(|| json!({"matchLabels": {"tier": tier}}));
                self.any(&books.goals, json!({"spec": {"planSelector": selector}}))
            }
            Action::EndGoal => {
                let phase = dice.pick(&["Executing", "Succeeded", "Failed", "Cancelled"])?;
                self.any(&books.goals, json!({"status": {"phase": phase}}))
            }
            Action::DeleteGoal => self.any(&books.goals, Value::Null),
            Action::CreatePlan => {
                let name = self.absent(&PLANS, &books.plans)?;
                let metadata = json!({"name": name, "labels": {"tier": tier}});
                Some((name.to_owned(), json!({"metadata": metadata, "spec": self.plan()?})))
            }
            Action::ChangePlan => self.any(&books.plans, json!({"spec": self.plan()?})),
            Action::RelabelPlan => self.any(&books.plans, json!({"metadata": {"labels": {"tier": tier}}})),
            Action::DeletePlan => self.any(&books.plans, Value::Null),
        }
    }

    pub(super) async fn send_goal(&self, action: Action, name: &str, body: Value) -> kube::Result<()> {
        match action {
            Action::CreateGoal => self.create::<Goal>(body).await,
            Action::SelectPlans => self.patch::<Goal>(name, body).await,
            Action::EndGoal => {
                self.api::<Goal>().patch_status(name, &PatchParams::default(), &Patch::Merge(body)).await.map(drop)
            }
            Action::DeleteGoal => self.delete::<Goal>(name).await,
            Action::CreatePlan => self.create::<Plan>(body).await,
            Action::ChangePlan | Action::RelabelPlan => self.patch::<Plan>(name, body).await,
            Action::DeletePlan => self.delete::<Plan>(name).await,
        }
    }

    /// Any of few series and versions, so that plans meet; some supersede others, and some cannot be carried out.
    fn plan(&self) -> Option<Value> {
        let dice = &self.dice;
        let waits_for = if dice.permille(150) { json!(["a"]) } else { json!([]) };
        let claims = dice.pick(&PLANS).filter(|_| dice.permille(300)).map(|name| json!({"name": name}));
        Some(json!({
            "description": "d", "goalRef": {"name": dice.pick(&GOALS)?},
            "series": dice.pick(&["s", "t"])?, "version": (dice.below(3) + 1).to_string(),
            "supersedes": Vec::from_iter(claims),
            "graph": {"nodes": [{"id": "a", "kind": "Task", "dependsOn": waits_for}]},
        }))
    }
}
