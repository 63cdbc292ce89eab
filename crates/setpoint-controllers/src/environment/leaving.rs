//! An Environment that is deleted: its Pods go, then what is left of them, then its Node, then the
//! Environment. Its Machines are for people to delete: it waits for them, and for what is left of those that are gone.

use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use setpoint_api::environment::Environment;
use setpoint_core::count::{counted, counted_are};
use setpoint_core::observation::{Guest, Observation};
use setpoint_core::orphan::orphans;
use setpoint_deployer::provider::Scope;

use super::policy::policy_keeps;
use super::status::Standing;
use super::{Environments, FINALIZER, site};
use crate::events::title;
use crate::ownership::{self, Deleted};
use crate::refusal::words;
use crate::runtime::caches::{MACHINES_BY_ENVIRONMENT, PODS_BY_NODE};
use crate::runtime::{Error, Name, Next, Round};

/// How many Pods are asked to go at once.
const AT_ONCE: usize = 16;
/// How many guests are named that are left.
const TOLD: usize = 5;
/// When to look again whether anything is left that has no Pod any more.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Why an Environment that is deleted is still there, and what comes next.
#[derive(Debug)]
struct Stay {
    why: String,
    then: Result<Next, Error>,
}

/// What came of having its Pods go.
#[derive(Debug)]
struct Eviction {
    /// How many are not gone.
    left: usize,
    /// The first that could not be deleted.
    failure: Option<(String, kube::Error)>,
}

/// What is there of ours when nothing should be.
#[derive(Debug, Default, PartialEq, Eq)]
struct Left {
    /// Whether something was made for a Pod, or may have been. Its agent removes it.
    is_of_pods: bool,
    /// What was made or adopted for Machines that are gone, by id.
    guests: Vec<String>,
}

impl Environments {
    /// Does the next of these that is left to do.
    pub(super) async fn leave(&self, key: &Name, environment: &Environment, round: &mut Round) -> Result<Next, Error> {
        let node = self.caches.nodes.get(key).filter(|node| site::is_node_of(node, environment));
        // Its agent is needed to end what runs there.
        let standing = self.stand(key, environment).await?;
        let is_running = self.running.lock().contains_key(key);
        // One that could never be opened holds nothing; one that was is needed until it can be again.
        if !is_running && let Some(why) = self.may_be_left(key, environment, node.as_deref()) {
            let standing = standing.and(&why);
            self.write_status(environment, &standing, round).await?;
            return Ok(standing.next());
        }
        if is_running && let Some(stay) = self.what_keeps(key, node.as_deref(), round).await {
            self.sweep(key, environment, round).await?;
            let standing = Standing::leaving(stay.why);
            self.write_status(environment, &standing, round).await?;
            return match stay.then {
                Ok(Next::Idle) => Ok(self.next(key, environment, &standing, round.now)),
                then => then,
            };
        }
        if let Some(why) = policy_keeps(environment) {
            // Without a look the next one would be due at once, for as long as nobody approves.
            self.sweep(key, environment, round).await?;
            let standing = Standing::leaving(why);
            self.write_status(environment, &standing, round).await?;
            return Ok(self.next(key, environment, &standing, round.now));
        }
        self.close(key);
        if let Some(node) = node
            && let Err(error) = self.remove_node(&node, round).await
        {
            let why = format!("its Node cannot be deleted: {error}");
            self.write_status(environment, &Standing::leaving(why), round).await?;
            return Err(error);
        }
        let finalizers = environment.metadata.finalizers.iter().flatten();
        let kept = finalizers.filter(|finalizer| *finalizer != FINALIZER).cloned().collect();
        self.write_finalizers(environment, kept, round).await?;
        Ok(Next::Idle)
    }

    /// Why one that cannot be opened now has to stay: nobody else could end what may be there.
    fn may_be_left(&self, key: &Name, environment: &Environment, node: Option<&Node>) -> Option<String> {
        let machines = self.caches.machines.count_by(&MACHINES_BY_ENVIRONMENT, &key.name);
        let seen = environment.status.as_ref().and_then(|status| status.instances).unwrap_or_default();
        let seen = usize::try_from(seen).unwrap_or(usize::MAX);
        match () {
            () if node.is_some() => Some("until then its Node stays, and it cannot be deleted".to_owned()),
            () if machines > 0 => {
                Some(format!("it has {}, and until then it cannot be deleted", counted(machines, "Machine")))
            }
            () if seen > 0 => {
                let guests = counted(seen, "guest");
                Some(format!("it held {guests} when it was last seen, and until then nothing of that goes"))
            }
            () => None,
        }
    }

    /// Has what is there go, and says what is not gone yet.
    async fn what_keeps(&self, key: &Name, node: Option<&Node>, round: &mut Round) -> Option<Stay> {
        if let Some(node) = node
            && let Err(error) = self.cordon(node, round).await
        {
            return Some(Stay { why: format!("its Node cannot be cordoned: {error}"), then: Err(error) });
        }
        let eviction = self.evict(key, round).await;
        if let Some(stay) = eviction.stay() {
            return Some(stay);
        }
        if let Some(stay) = self.machines_stay(key) {
            return Some(stay);
        }
        match self.left_behind(key).await {
            // One may have come while that was looked at.
            Ok(left) => left.stay().or_else(|| self.machines_stay(key)),
            Err(error) => {
                Some(Stay { why: format!("it cannot be seen whether anything is left: {error}"), then: Err(error) })
            }
        }
    }

    /// What keeps an Environment that has Machines.
    fn machines_stay(&self, key: &Name) -> Option<Stay> {
        let machines = self.caches.machines.count_by(&MACHINES_BY_ENVIRONMENT, &key.name);
        let why = format!("{} yet to be deleted", counted_are(machines, "Machine"));
        (machines > 0).then_some(Stay { why, then: Ok(Next::Idle) })
    }

    async fn cordon(&self, node: &Node, round: &mut Round) -> Result<(), Error> {
        if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
            return Ok(());
        }
        let nodes: Api<Node> = Api::all(self.client.clone());
        let patch = json!({"metadata": {"uid": node.metadata.uid}, "spec": {"unschedulable": true}});
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let written = nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        round.wrote(&self.caches.nodes, &written);
        Ok(())
    }

    /// Deletes the Pods that are there, each whatever becomes of the others.
    async fn evict(&self, key: &Name, round: &mut Round) -> Eviction {
        let pods = self.caches.pods.by(&PODS_BY_NODE, &key.name);
        let staying: Vec<&Pod> =
            pods.iter().map(|pod| &**pod).filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect();
        let deletions: Vec<_> = staying.iter().map(|pod| self.delete_pod(pod)).collect();
        let deleted: Vec<kube::Result<Deleted<Pod>>> = stream::iter(deletions).buffered(AT_ONCE).collect().await;
        let mut eviction = Eviction { left: pods.len(), failure: None };
        for (pod, deleted) in staying.into_iter().zip(deleted) {
            match deleted {
                Ok(deleted) => deleted.note(pod, &self.caches.pods, round),
                Err(error) => {
                    eviction.failure.get_or_insert((title(pod), error));
                }
            }
        }
        eviction
    }

    async fn delete_pod(&self, pod: &Pod) -> kube::Result<Deleted<Pod>> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        ownership::delete(&pods, pod, DeleteParams::default()).await
    }

    /// What is there of ours.
    async fn left_behind(&self, key: &Name) -> Result<Left, Error> {
        let Some(provider) = self.running.lock().get(key).map(|running| running.provider.clone()) else {
            return Ok(Left::default());
        };
        let observed = provider.observe(&Scope::Everything).await?.into_observation();
        Ok(Left::of(&observed, &self.setup.cluster))
    }

    async fn remove_node(&self, node: &Node, round: &mut Round) -> Result<(), Error> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let deleted = ownership::delete(&nodes, node, DeleteParams::default()).await?;
        deleted.note(node, &self.caches.nodes, round);
        Ok(())
    }
}

impl Eviction {
    /// What keeps an Environment whose Pods were to go.
    fn stay(self) -> Option<Stay> {
        let left = format!("{} yet to end", counted_are(self.left, "Pod"));
        match self.failure {
            Some((pod, error)) => {
                let why = format!("{left}; {pod} cannot be deleted: {}", words(&error));
                Some(Stay { why, then: Err(error.into()) })
            }
            None if self.left > 0 => Some(Stay { why: left, then: Ok(Next::Idle) }),
            None => None,
        }
    }
}

impl Left {
    fn of(look: &Observation, cluster: &str) -> Left {
        let ours = |guest: &&Guest| guest.mark.as_ref().is_some_and(|mark| *mark.cluster == *cluster);
        let mut all = look.guests.iter().filter(ours);
        let is_of_pod =
            |guest: &Guest| guest.mark.as_ref().is_some_and(|mark| mark.intent.as_ref() == Some(&mark.owner_uid));
        // What could not be seen may be ours.
        let is_of_pods = !look.completeness.is_complete() || all.any(is_of_pod);
        let guests = orphans(look, cluster, |_| false).into_iter().map(|guest| guest.id.to_string()).collect();
        Left { is_of_pods, guests }
    }

    /// What keeps an Environment with this in it.
    fn stay(&self) -> Option<Stay> {
        if self.is_of_pods {
            let why = "what ran for its Pods is yet to be removed".to_owned();
            return Some(Stay { why, then: Ok(Next::After(LOOK_AGAIN)) });
        }
        let told: Vec<&str> = self.guests.iter().take(TOLD).map(String::as_str).collect();
        let more = if self.guests.len() > TOLD { ", …" } else { "" };
        let them = if told.len() == 1 { "it" } else { "them" };
        let why = format!(
            "{} left of Machines that are gone ({}{more}): remove {them}, or have {them} removed with orphanPolicy Delete",
            counted_are(self.guests.len(), "guest"),
            told.join(", ")
        );
        (!told.is_empty()).then_some(Stay { why, then: Ok(Next::Idle) })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use http::{Request, Response};
    use jiff::Timestamp;
    use kube::Client;
    use kube::client::Body;
    use kube::runtime::watcher::Event;
    use parking_lot::Mutex;
    use serde_json::Value;
    use setpoint_api::environment::EnvironmentSpec;
    use setpoint_core::observation::{Completeness, Mark};
    use setpoint_deployer::Registry;
    use setpoint_deployer::simulated::{Place, Program, Simulated};

    use super::*;
    use crate::environment::{OpenedBy, Running, Setup, Sights, in_a_task};
    use crate::node::{Dispatch, Providers};
    use crate::planning::Planning;
    use crate::runtime::{Caches, Clock, Context};

    fn guest(id: &str, cluster: &str, owner: &str, intent: Option<&str>) -> Guest {
        Guest::new(id, Some(Mark::new(cluster, owner, intent)))
    }

    #[test]
    fn whatever_is_ours_keeps_an_environment() {
        let complete = Completeness::Complete;
        let (of_pod, made) = (guest("1", "c", "pod", Some("pod")), guest("2", "c", "gone", Some("call")));
        let (adopted, foreign) = (guest("3", "c", "gone", None), guest("4", "theirs", "gone", Some("call")));
        let pods = Some("what ran for its Pods is yet to be removed");
        let rows = [
            ("nothing is there", vec![], complete.clone(), None),
            ("something of another's is", vec![foreign.clone()], complete.clone(), None),
            ("something of a Pod is", vec![of_pod, made.clone()], complete.clone(), pods),
            ("not everything could be seen", vec![], Completeness::Partial("a node is down".into()), pods),
            (
                "something of Machines that are gone is",
                vec![made, adopted, foreign],
                complete,
                Some(
                    "2 guests are left of Machines that are gone (2, 3): remove them, or have them removed with \
                     orphanPolicy Delete",
                ),
            ),
        ];
        for (name, guests, completeness, expected) in rows {
            let look = Observation { completeness, guests, observed_at: Timestamp::UNIX_EPOCH };
            let stay = Left::of(&look, "c").stay();
            assert_eq!(stay.map(|stay| stay.why).as_deref(), expected, "{name}");
        }
    }

    /// Environments over a server that refuses to delete `a`.
    fn environments(asked: &Arc<Mutex<Vec<String>>>, caches: &Caches) -> Environments {
        let heard = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let name = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
            heard.lock().push(name.clone());
            let (code, status, message) =
                if name == "a" { (403, "Failure", "it is protected") } else { (200, "Success", "") };
            let answer = json!({"kind": "Status", "status": status, "code": code, "message": message, "reason": ""});
            let answer = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            async move { Ok::<_, Infallible>(answer.unwrap()) }
        });
        let client = Client::new(service, "default");
        let context = Context::new(client.clone(), Clock::simulated(Timestamp::UNIX_EPOCH));
        let setup = Setup {
            nodes: client,
            dispatch: Dispatch::new(caches),
            registry: Registry::default(),
            folder: std::env::temp_dir(),
            cluster: "c".to_owned(),
            providers: Providers::default(),
            sights: Sights::default(),
            host: in_a_task(),
        };
        let planning = Planning::new(&context, caches, &setup.cluster, &setup.providers);
        Environments::new(&context, caches, setup, &planning)
    }

    #[tokio::test]
    async fn one_pod_that_cannot_be_deleted_keeps_no_other_and_is_named() {
        let (asked, caches) = (Arc::default(), Caches::default());
        let environments = environments(&asked, &caches);
        for name in ["a", "b", "c"] {
            let metadata = json!({"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1"});
            let pod = json!({"metadata": metadata, "spec": {"nodeName": "lab", "containers": []}});
            caches.pods.apply(Event::Apply(serde_json::from_value(pod).unwrap()));
        }
        let mut round = Round::new(Timestamp::UNIX_EPOCH);
        let stay = environments.what_keeps(&Name::new("", "lab"), None, &mut round).await.expect("it stays");
        assert_eq!(*asked.lock(), ["a", "b", "c"]);
        assert_eq!(stay.why, "3 Pods are yet to end; shop/a cannot be deleted: it is protected");
        assert_eq!(stay.then.map_err(|error| error.to_string()), Err("it is protected".to_owned()), "and comes again");
    }

    fn machine() -> Value {
        json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine",
            "metadata": {"name": "web", "namespace": "shop", "uid": "m", "resourceVersion": "1"},
            "spec": {"environment": "lab"},
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_comes_while_it_is_seen_whether_anything_is_left_keeps_an_environment() {
        let (asked, caches, key) = (Arc::default(), Caches::default(), Name::new("", "lab"));
        let environments = environments(&asked, &caches);
        let place = Place::new(Program { latency_ms: 2_000, ..Program::default() }, Timestamp::UNIX_EPOCH);
        let spec: EnvironmentSpec = serde_json::from_value(json!({"deployer": {"name": "simulated"}})).expect("a spec");
        let running = Running {
            uid: None,
            generation: None,
            opened_by: OpenedBy::of(&spec),
            credentials: None,
            provider: Arc::new(Simulated::new(&place, "c")),
            reach: Arc::default(),
            agent: None,
        };
        environments.running.lock().insert(key.clone(), running);
        let mut round = Round::new(Timestamp::UNIX_EPOCH);
        assert!(environments.what_keeps(&key, None, &mut round).await.is_none(), "nothing is there");
        let comes = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            caches.machines.apply(Event::Apply(serde_json::from_value(machine()).unwrap()));
        };
        let (stay, ()) = tokio::join!(environments.what_keeps(&key, None, &mut round), comes);
        assert_eq!(stay.expect("it stays").why, "1 Machine is yet to be deleted");
    }

    #[tokio::test]
    async fn one_that_cannot_be_opened_stays_as_long_as_something_may_be_there() {
        let rows = [
            ("nothing was ever seen there", None, json!({}), None),
            ("it was empty", None, json!({"instances": 0}), None),
            (
                "it was not",
                None,
                json!({"instances": 2}),
                Some("it held 2 guests when it was last seen, and until then nothing of that goes"),
            ),
            (
                "there are Machines",
                Some(machine()),
                json!({}),
                Some("it has 1 Machine, and until then it cannot be deleted"),
            ),
        ];
        for (name, machine, status, expected) in rows {
            let (asked, caches) = (Arc::default(), Caches::default());
            let environments = environments(&asked, &caches);
            machine.into_iter().for_each(|machine| {
                caches.machines.apply(Event::Apply(serde_json::from_value(machine).unwrap()));
            });
            let environment: Environment = serde_json::from_value(json!({
                "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment", "metadata": {"name": "lab"},
                "spec": {"deployer": {"name": "simulated"}}, "status": status,
            }))
            .unwrap();
            let why = environments.may_be_left(&Name::new("", "lab"), &environment, None);
            assert_eq!(why.as_deref(), expected, "{name}");
        }
    }
}
