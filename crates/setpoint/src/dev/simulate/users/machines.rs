//! What people do to Machines, and what they say of the changes that wait for them.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use setpoint_api::change_set::{ChangeSet, Mode};
use setpoint_api::machine::Machine;
use setpoint_api::review::{Decision, Review};

use super::{NAMESPACE, Users};
use crate::dev::simulate::ledger::{Books, Ledger};
use crate::dev::simulate::places;
use crate::dev::simulate::rules::title;

const MACHINES: [&str; 4] = ["db", "cache", "build", "old"];
/// Who may say something. The first of them is also the one who asks for everything.
pub(super) const PEOPLE: [&str; 3] = ["admin", "bob", "carol"];
/// A guest that was there before us, at every place.
pub(super) const EXISTING: &str = "101";
/// The ConfigMap that one of the Machines takes a value from.
pub(in crate::dev::simulate) const SETTINGS: &str = "settings";

pub(super) const ACTIONS: [(u32, Action); 13] = [
    (4, Action::CreateMachine),
    (4, Action::ChangeMachine),
    (2, Action::TurnMachine),
    (1, Action::ReplaceMachine),
    (2, Action::DeleteMachine),
    (2, Action::ChangeSettings),
    (1, Action::Preview),
    (2, Action::Propose),
    (2, Action::CarryOut),
    (4, Action::Approve),
    (1, Action::ApproveAnother),
    (1, Action::Reject),
    (1, Action::WithdrawReview),
];

#[derive(Debug, Clone, Copy)]
pub(super) enum Action {
    CreateMachine,
    ChangeMachine,
    TurnMachine,
    ReplaceMachine,
    DeleteMachine,
    ChangeSettings,
    /// Asks what would be done.
    Preview,
    /// Asks others for their leave before something is written.
    Propose,
    /// Writes what was proposed, approved or not.
    CarryOut,
    Approve,
    /// What was approved is not what is asked for.
    ApproveAnother,
    Reject,
    WithdrawReview,
}

impl Users {
    pub(super) fn choose_machine(&self, action: Action, books: &Books) -> Option<(String, Value)> {
        let dice = &self.dice;
        match action {
            Action::CreateMachine => {
                let name = self.absent(&MACHINES, &books.machines)?;
                let spec = self.machine(name)?;
                Some((name.to_owned(), json!({"metadata": {"name": name}, "spec": spec})))
            }
            Action::ChangeMachine => self.any(&books.machines, json!({"spec": {"cores": dice.below(4) + 1}})),
            Action::TurnMachine => {
                let run = dice.pick(&["Running", "Stopped"])?;
                self.any(&books.machines, json!({"spec": {"run": run}}))
            }
            Action::ReplaceMachine => self.any(&books.machines, json!({"spec": {"image": self.image()?}})),
            Action::DeleteMachine => self.any(&books.machines, Value::Null),
            Action::ChangeSettings => Some((SETTINGS.to_owned(), settings(dice.pick(&["blue", "red"])?))),
            Action::Preview => self.proposal(books, "Preview"),
            Action::Propose => self.proposal(books, "Execute"),
            Action::CarryOut => {
                let is_proposal = |set: &&ChangeSet| {
                    let spec = &set.spec;
                    spec.mode == Mode::Execute && !(spec.objects.is_empty() && spec.deletes.is_empty())
                };
                let sets: Vec<&ChangeSet> = books.change_sets.values().map(|set| &**set).filter(is_proposal).collect();
                let spec = &dice.pick(&sets)?.spec;
                match (spec.objects.first(), spec.deletes.first()) {
                    (Some(object), _) => Some((object.get("metadata")?["name"].as_str()?.to_owned(), json!(object))),
                    (None, gone) => Some((gone?.name.clone(), Value::Null)),
                }
            }
            Action::Approve => self.verdict(self.asked(books)?, "Approve"),
            Action::Reject => {
                let (name, mut review) = self.verdict(self.asked(books)?, "Reject")?;
                // Who may not approve could not think better of it.
                review["spec"]["reviewer"] = json!(dice.pick(&PEOPLE[1..])?);
                Some((name, review))
            }
            Action::ApproveAnother => {
                let (name, mut review) = self.verdict(self.asked(books)?, "Approve")?;
                let other = format!("sha256:{:064x}", dice.number());
                review["spec"]["digests"] = json!([other]);
                Some((name, review))
            }
            Action::WithdrawReview => self.any(&books.reviews, Value::Null),
        }
    }

    pub(super) async fn send_machine(&self, action: Action, name: &str, body: Value) -> kube::Result<()> {
        match action {
            Action::CreateMachine => self.create::<Machine>(body).await,
            Action::ChangeMachine | Action::TurnMachine | Action::ReplaceMachine => {
                self.patch::<Machine>(name, body).await
            }
            Action::DeleteMachine => self.delete::<Machine>(name).await,
            Action::ChangeSettings => self.apply::<ConfigMap>(name, body).await,
            Action::Preview | Action::Propose => self.create::<ChangeSet>(body).await,
            Action::CarryOut if body.is_null() => self.delete::<Machine>(name).await,
            Action::CarryOut => self.apply::<Machine>(name, body).await,
            Action::Approve | Action::ApproveAnother | Action::Reject => self.say(body).await,
            Action::WithdrawReview => self.delete::<Review>(name).await,
        }
    }

    /// Sees to it that there is what Machines take values from.
    pub(in crate::dev::simulate) async fn provide(&self, ledger: &Ledger) -> kube::Result<()> {
        let key = format!("{NAMESPACE}/{SETTINGS}");
        match ledger.read(|books| books.config_maps.contains_key(&key)) {
            true => Ok(()),
            false => self.apply::<ConfigMap>(SETTINGS, settings("blue")).await,
        }
    }

    /// Has people delete the Machines of places that are to go, which stay as long as they hold any.
    pub(in crate::dev::simulate) async fn leave_what_goes(&self, ledger: &Ledger) {
        let leaving = ledger.read(|books| {
            let stays =
                |name: &str| books.environments.get(name).is_some_and(|it| it.metadata.deletion_timestamp.is_none());
            let leaving = books.machines.values().filter(|machine| !stays(&machine.spec.environment));
            let leaving = leaving.filter(|machine| machine.metadata.deletion_timestamp.is_none());
            leaving.filter_map(|machine| machine.metadata.name.clone()).collect::<Vec<_>>()
        });
        for name in leaving {
            let _ = self.api::<Machine>().delete(&name, &DeleteParams::default()).await;
        }
    }

    /// Has people approve everything that waits for them, as it is now. While nothing goes wrong, nothing keeps them from it.
    pub(in crate::dev::simulate) async fn approve_everything(&mut self, ledger: &Ledger) -> kube::Result<()> {
        let reviews = ledger.read(|books| {
            let sets = books.change_sets.values().filter(|set| waits(books, set));
            let reviews = sets.flat_map(|set| PEOPLE[1..].iter().filter_map(|person| unsaid(books, set, person)));
            reviews.collect::<Vec<_>>()
        });
        for mut review in reviews {
            self.count += 1;
            review["metadata"]["name"] = json!(format!("review-{}", self.count));
            self.say(review).await?;
        }
        Ok(())
    }

    /// Whoever a review names writes it.
    async fn say(&self, review: Value) -> kube::Result<()> {
        let review: Review = serde_json::from_value(review).map_err(kube::Error::SerdeError)?;
        let client = self.people.get(review.spec.reviewer.as_str()).unwrap_or(&self.client);
        let namespace = review.metadata.namespace.as_deref().unwrap_or(NAMESPACE);
        let reviews: Api<Review> = Api::namespaced(client.clone(), namespace);
        reviews.create(&PostParams::default(), &review).await.map(drop)
    }

    /// A change set that waits for people.
    fn asked<'b>(&self, books: &'b Books) -> Option<&'b ChangeSet> {
        let sets: Vec<&ChangeSet> =
            books.change_sets.values().map(|set| &**set).filter(|set| waits(books, set)).collect();
        self.dice.pick(&sets).copied()
    }

    /// Somebody's verdict on some of a change set's steps.
    fn verdict(&self, set: &ChangeSet, decision: &str) -> Option<(String, Value)> {
        let dice = &self.dice;
        let steps = &set.status.as_ref()?.steps;
        let digests: Vec<&str> = steps.iter().filter(|_| dice.permille(800)).map(|step| step.digest.as_str()).collect();
        let name = format!("review-{}", self.count);
        let spec = json!({
            "gate": set.metadata.name, "decision": decision, "digests": digests, "reviewer": dice.pick(&PEOPLE)?,
        });
        Some((name.clone(), json!({"metadata": {"name": name, "namespace": set.metadata.namespace}, "spec": spec})))
    }

    /// A change set of somebody who has yet to write what it is about: a Machine as it would be, or that one goes.
    fn proposal(&self, books: &Books, mode: &str) -> Option<(String, Value)> {
        let dice = &self.dice;
        let (name, there) = match self.any(&books.machines, Value::Null).filter(|_| dice.permille(800)) {
            Some((name, _)) => (name.clone(), books.machines.get(&format!("{NAMESPACE}/{name}"))),
            None => (self.absent(&MACHINES, &books.machines)?.to_owned(), None),
        };
        let mut spec = there.map_or_else(|| self.machine(&name), |machine| Some(json!(machine.spec)))?;
        let environment = spec["environment"].clone();
        let (objects, deletes) = if there.is_some() && dice.permille(300) {
            (json!([]), json!([{"namespace": NAMESPACE, "name": name, "kind": "Machine"}]))
        } else {
            spec["cores"] = json!(dice.below(4) + 1);
            spec["image"] = json!(self.image()?);
            (json!([manifest(&name, &spec)]), json!([]))
        };
        let title = format!("proposal-{}", self.count);
        let spec = json!({
            "environment": environment, "mode": mode, "requestedBy": PEOPLE[0], "objects": objects, "deletes": deletes,
        });
        Some((title.clone(), json!({"metadata": {"name": title}, "spec": spec})))
    }

    fn machine(&self, name: &str) -> Option<Value> {
        let dice = &self.dice;
        let mut spec = json!({
            "environment": dice.pick(&places::NAMES)?, "cores": dice.below(4) + 1, "image": self.image()?,
            "deletionPolicy": dice.pick(&["Delete", "Delete", "Retain"])?,
            "run": dice.permille(700).then_some("Running"),
        });
        // What was there before us is taken over, and made by nobody.
        if name == "old" {
            spec["providerId"] = json!(EXISTING);
            spec["create"] = json!("Never");
            spec["image"] = Value::Null;
        }
        if name == "cache" {
            spec["variablesFrom"] = json!([{"configMap": SETTINGS}]);
            spec["env"] = json!([{"name": "COLOUR", "value": "${COLOUR}"}]);
        }
        Some(spec)
    }

    fn image(&self) -> Option<&'static str> {
        self.dice.pick(&["debian", "alpine"]).copied()
    }
}

fn manifest(name: &str, spec: &Value) -> Value {
    let metadata = json!({"name": name, "namespace": NAMESPACE});
    json!({"apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine", "metadata": metadata, "spec": spec})
}

fn settings(colour: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SETTINGS}, "data": {"COLOUR": colour}})
}

/// Whether people can still say something of a change set.
fn waits(books: &Books, set: &ChangeSet) -> bool {
    set.spec.mode == Mode::Execute && books.gates.contains_key(&title(&set.metadata))
}

/// The approval of all steps of a change set that a person has not given yet.
fn unsaid(books: &Books, set: &ChangeSet, person: &str) -> Option<Value> {
    let steps = &set.status.as_ref()?.steps;
    let is_theirs = |review: &Review| {
        let is_of_it = Some(&review.spec.gate) == set.metadata.name.as_ref();
        is_of_it && review.metadata.namespace == set.metadata.namespace && review.spec.reviewer == person
    };
    let theirs: Vec<&Review> =
        books.reviews.values().map(|review| &**review).filter(|review| is_theirs(review)).collect();
    // The last word counts, and of those of one second the one against it.
    let last = |digest: &str| {
        let of_it = theirs.iter().filter(|review| review.spec.digests.iter().any(|own| own == digest));
        of_it
            .max_by_key(|review| (review.metadata.creation_timestamp.clone(), review.spec.decision == Decision::Reject))
    };
    let is_unsaid = |digest: &str| last(digest).is_none_or(|review| review.spec.decision != Decision::Approve);
    let digests: Vec<&str> = steps.iter().map(|step| step.digest.as_str()).filter(|digest| is_unsaid(digest)).collect();
    let spec = json!({"gate": set.metadata.name, "decision": "Approve", "digests": digests, "reviewer": person});
    (!digests.is_empty()).then(|| json!({"metadata": {"namespace": set.metadata.namespace}, "spec": spec}))
}
