//! Events that people read, each told once.
//!
//! An Event's name follows from what it is about and says: whoever tells the same after a restart finds it told. What
//! happens again is counted on the Event that is there. Things that happened are numbered by whoever saw them, and the
//! Event says up to which number it has counted.

use std::collections::{BTreeMap, HashMap};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use setpoint_core::digest::Key;
use setpoint_core::pod::{Notice, NoticeKind};

/// How far an Event has counted.
const COUNTED: &str = "setpoint.dev/counted";
/// What is older is not told any more: the server would have forgotten it by now.
const MEMORY: SignedDuration = SignedDuration::from_hours(1);

/// Writes Events on behalf of a component.
#[derive(Clone)]
pub struct Recorder {
    client: Client,
    component: &'static str,
    host: Option<String>,
}

/// What was told of one object. It may be forgotten.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// The number up to which all was told.
    number: u64,
    /// How often each Event was counted.
    counts: HashMap<String, i32>,
}

/// Things that are one Event: the same thing happened to the same object.
#[derive(Debug)]
struct Group<'a> {
    last: &'a Notice,
    first_at: Timestamp,
    numbers: Vec<u64>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("component", &self.component).finish_non_exhaustive()
    }
}

impl Recorder {
    pub fn new(client: Client, component: &'static str, host: Option<&str>) -> Recorder {
        Recorder { client, component, host: host.map(str::to_owned) }
    }

    /// Tells what happened to a Pod, as far as that was not told before.
    pub async fn tell(&self, pod: &Pod, notices: &[Notice], told: &mut Told, now: Timestamp) -> kube::Result<()> {
        let is_news = |notice: &&Notice| notice.number > told.number && now.duration_since(notice.at) < MEMORY;
        let news: Vec<&Notice> = notices.iter().filter(is_news).collect();
        for (name, group) in grouped(pod, &news) {
            let counted = told.counts.get(&name).copied();
            let count = self.count(pod, &name, &group, counted).await?;
            told.counts.insert(name, count);
        }
        if let Some(last) = notices.last() {
            told.number = told.number.max(last.number);
        }
        Ok(())
    }

    /// Tells one thing that nobody has numbered. That it could not be told is only logged.
    pub async fn say(&self, pod: &Pod, kind: NoticeKind, reason: &str, container: Option<&str>, message: &str) {
        let container = container.map(str::to_owned);
        let (reason, message) = (reason.to_owned(), message.to_owned());
        let notice = Notice { number: 0, at: Timestamp::now(), kind, reason, container, message };
        let group = Group { last: &notice, first_at: notice.at, numbers: vec![0] };
        if let Err(error) = self.count(pod, &name_of(pod, &notice), &group, None).await {
            tracing::warn!(pod = %title(pod), %error, "an Event could not be written");
        }
    }

    /// Makes the Event, or counts on the one that is there. Returns how often it has happened.
    async fn count(&self, pod: &Pod, name: &str, group: &Group<'_>, counted: Option<i32>) -> kube::Result<i32> {
        let api: Api<Event> =
            Api::namespaced(self.client.clone(), pod.metadata.namespace.as_deref().unwrap_or_default());
        let new = i32::try_from(group.numbers.len()).unwrap_or(i32::MAX);
        if let Some(counted) = counted {
            let count = counted.saturating_add(new);
            match api.patch(name, &PatchParams::default(), &Patch::Merge(self.addition(group, count))).await {
                Ok(_) => return Ok(count),
                Err(error) if is_code(&error, 404) => {}
                Err(error) => return Err(error),
            }
        }
        match api.create(&PostParams::default(), &self.event(pod, name, group)).await {
            Ok(_) => return Ok(new),
            Err(error) if is_code(&error, 409) => {}
            Err(error) => return Err(error),
        }
        let Some(event) = api.get_opt(name).await? else { return Ok(new) };
        let before = event.metadata.annotations.as_ref().and_then(|annotations| annotations.get(COUNTED));
        let before: u64 = before.and_then(|number| number.parse().ok()).unwrap_or_default();
        let since = group.numbers.iter().filter(|number| **number == 0 || **number > before).count();
        let count = event.count.unwrap_or(1).saturating_add(i32::try_from(since).unwrap_or(i32::MAX));
        if since > 0 {
            api.patch(name, &PatchParams::default(), &Patch::Merge(self.addition(group, count))).await?;
        }
        Ok(count)
    }

    fn event(&self, pod: &Pod, name: &str, group: &Group<'_>) -> Event {
        let notice = group.last;
        Event {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: pod.metadata.namespace.clone(),
                annotations: Some(BTreeMap::from([(COUNTED.to_owned(), notice.number.to_string())])),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                namespace: pod.metadata.namespace.clone(),
                name: pod.metadata.name.clone(),
                uid: pod.metadata.uid.clone(),
                resource_version: pod.metadata.resource_version.clone(),
                field_path: notice.container.as_deref().map(|container| field_path(pod, container)),
            },
            type_: Some(kind(notice.kind).to_owned()),
            reason: Some(notice.reason.clone()),
            message: Some(notice.message.clone()),
            count: i32::try_from(group.numbers.len()).ok(),
            first_timestamp: Some(Time(group.first_at)),
            last_timestamp: Some(Time(notice.at)),
            source: Some(EventSource { component: Some(self.component.to_owned()), host: self.host.clone() }),
            reporting_component: Some(self.component.to_owned()),
            reporting_instance: self.host.clone(),
            ..Event::default()
        }
    }

    fn addition(&self, group: &Group<'_>, count: i32) -> serde_json::Value {
        json!({
            "metadata": {"annotations": {COUNTED: group.last.number.to_string()}},
            "count": count,
            "lastTimestamp": Time(group.last.at),
        })
    }
}

/// What is one Event, by its name.
fn grouped<'a>(pod: &Pod, notices: &[&'a Notice]) -> BTreeMap<String, Group<'a>> {
    let mut groups: BTreeMap<String, Group<'a>> = BTreeMap::new();
    for notice in notices {
        let group = groups.entry(name_of(pod, notice));
        let group = group.or_insert_with(|| Group { last: notice, first_at: notice.at, numbers: Vec::new() });
        group.last = notice;
        group.numbers.push(notice.number);
    }
    groups
}

fn name_of(pod: &Pod, notice: &Notice) -> String {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let what = json!([uid, kind(notice.kind), notice.reason, notice.container, notice.message]);
    // Nothing here is secret: the digest only makes a short name.
    let digest = Key::new([0; 32]).digest(&what);
    let digest = digest.rsplit(':').next().and_then(|digest| digest.get(..16)).unwrap_or_default().to_owned();
    format!("{}.{digest}", pod.metadata.name.as_deref().unwrap_or_default())
}

fn kind(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::Normal => "Normal",
        NoticeKind::Warning => "Warning",
    }
}

/// `spec.containers{web}`.
fn field_path(pod: &Pod, container: &str) -> String {
    let mut init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let list = if init.any(|init| init.name == container) { "initContainers" } else { "containers" };
    format!("spec.{list}{{{container}}}")
}

pub(crate) fn title(pod: &Pod) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}/{}", part(&pod.metadata.namespace), part(&pod.metadata.name))
}

pub(crate) fn is_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}
