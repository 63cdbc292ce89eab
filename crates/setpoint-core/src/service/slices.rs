//! How the EndpointSlices of a Service become what they should be, with few writes.
//!
//! A Pod stays in the slice that it is in, so that a change of one Pod rewrites one slice. New ones go first into slices
//! that are written anyway, then into one that has room for them all, then into new slices. A slice that would become
//! empty is used for what would need a new one, or deleted. A Service without any Pods has one slice, which is empty.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::backend::Backend;
use super::ports::{self, Numbers};
use super::{Facts, HEADLESS, MANAGED_BY, MANAGER, Plan, SERVICE_NAME, families, is_headless, name, owner};
use crate::derived_name::derive;

/// How many endpoints a slice holds.
pub const ENDPOINTS_MAX: usize = 100;
/// The longest name of an object.
const NAME_MAX: usize = 253;

pub(super) fn plan(facts: &Facts<'_>) -> Plan {
    let families = families(facts.service);
    let labels = labels(facts.service);
    let mut plan = Plan::default();
    let mut names = Names { facts, next: 0, chosen: BTreeSet::new() };
    for family in &families {
        let own = facts.slices.iter().filter(|slice| is_ours(slice) && slice.address_type == *family).copied();
        let mut own: Vec<&EndpointSlice> = own.collect();
        own.sort_by_key(|slice| &slice.metadata.name);
        of_family(facts, family, &own, &labels, &mut names, &mut plan);
    }
    let is_elsewhere = |slice: &&&EndpointSlice| is_ours(slice) && !families.contains(&slice.address_type.as_str());
    plan.delete.extend(facts.slices.iter().filter(is_elsewhere).map(|slice| (*slice).clone()));
    plan
}

/// A slice as it is to be.
struct Draft<'a> {
    /// What it is made from; `None` if it is new.
    old: Option<&'a EndpointSlice>,
    /// What is in it, in order: what stays by its place in the old one, and what is put there.
    content: Vec<Content<'a>>,
    is_changed: bool,
}

enum Content<'a> {
    Kept(&'a Endpoint),
    New(Backend<'a>),
}

impl Draft<'_> {
    fn room(&self) -> usize {
        ENDPOINTS_MAX.saturating_sub(self.content.len())
    }
}

fn of_family<'a>(
    facts: &Facts<'a>,
    family: &str,
    own: &[&'a EndpointSlice],
    labels: &BTreeMap<String, String>,
    names: &mut Names<'_, 'a>,
    plan: &mut Plan,
) {
    let mut wanted: BTreeMap<Numbers, BTreeMap<&str, Backend<'a>>> = BTreeMap::new();
    for pod in facts.pods {
        if let Some(backend) = Backend::of(facts, pod, family) {
            wanted.entry(ports::resolve(facts.service, pod)).or_default().insert(backend.uid(), backend);
        }
    }
    let mut left: Vec<&EndpointSlice> = own.to_vec();
    let mut written: Vec<(Vec<EndpointPort>, Draft<'a>)> = Vec::new();
    for (numbers, backends) in wanted {
        let told = ports::of_slice(facts.service, &numbers);
        let (same, others) = left.into_iter().partition(|slice| ports_of(slice) == told);
        left = others;
        for draft in packed(same, backends) {
            if draft.content.is_empty() {
                left.extend(draft.old);
            } else {
                written.push((told.clone(), draft));
            }
        }
    }
    if written.is_empty() {
        written.push((Vec::new(), empty(&mut left)));
    }
    left.sort_by_key(|slice| std::cmp::Reverse(&slice.metadata.name));
    for (told, mut draft) in written {
        if draft.old.is_none() {
            draft.old = left.pop();
            draft.is_changed = true;
        }
        let owner = owner(facts.service);
        match draft.old {
            None => {
                let metadata = ObjectMeta {
                    name: Some(names.next()),
                    namespace: facts.service.metadata.namespace.clone(),
                    labels: Some(labels.clone()),
                    owner_references: Some(vec![owner]),
                    ..ObjectMeta::default()
                };
                plan.create.push(slice(metadata, family, told, &draft));
            }
            Some(old) => {
                let is_owned = old.metadata.owner_references.as_deref() == Some(std::slice::from_ref(&owner));
                if draft.is_changed || !is_owned || old.metadata.labels.as_ref() != Some(labels) {
                    let metadata = ObjectMeta {
                        labels: Some(labels.clone()),
                        owner_references: Some(vec![owner]),
                        ..old.metadata.clone()
                    };
                    plan.update.push(slice(metadata, family, told, &draft));
                }
            }
        }
    }
    plan.delete.extend(left.into_iter().cloned());
}

/// Puts what is wanted into the slices of its ports.
fn packed<'a>(slices: Vec<&'a EndpointSlice>, mut wanted: BTreeMap<&str, Backend<'a>>) -> Vec<Draft<'a>> {
    let mut drafts: Vec<Draft<'a>> = slices.into_iter().map(|slice| kept(slice, &mut wanted)).collect();
    let mut new: Vec<Backend<'a>> = wanted.into_values().collect();
    new.sort_by(|a, b| b.pod.metadata.name.cmp(&a.pod.metadata.name));
    for draft in drafts.iter_mut().filter(|draft| draft.is_changed && !draft.content.is_empty()) {
        fill(draft, &mut new);
    }
    if !new.is_empty() && new.len() < ENDPOINTS_MAX {
        let fitting = drafts.iter_mut().filter(|draft| !draft.content.is_empty() && draft.room() >= new.len());
        if let Some(draft) = fitting.min_by_key(|draft| draft.room()) {
            fill(draft, &mut new);
        }
    }
    while !new.is_empty() {
        let mut draft = Draft { old: None, content: Vec::new(), is_changed: true };
        fill(&mut draft, &mut new);
        drafts.push(draft);
    }
    drafts
}

/// What stays in a slice, taken from what is wanted.
fn kept<'a>(slice: &'a EndpointSlice, wanted: &mut BTreeMap<&str, Backend<'a>>) -> Draft<'a> {
    let mut draft = Draft { old: Some(slice), content: Vec::new(), is_changed: false };
    for endpoint in endpoints_of(slice) {
        let uid = endpoint.target_ref.as_ref().and_then(|target| target.uid.as_deref()).unwrap_or_default();
        match wanted.remove(uid) {
            Some(backend) if backend.is_told_by(endpoint) => draft.content.push(Content::Kept(endpoint)),
            Some(backend) => {
                draft.content.push(Content::New(backend));
                draft.is_changed = true;
            }
            None => draft.is_changed = true,
        }
    }
    draft
}

fn fill<'a>(draft: &mut Draft<'a>, new: &mut Vec<Backend<'a>>) {
    let count = draft.room().min(new.len());
    draft.is_changed |= count > 0;
    draft.content.extend(new.drain(new.len() - count..).rev().map(Content::New));
}

/// The one slice of a Service without Pods: one that says so already, if there is one.
fn empty<'a>(left: &mut Vec<&'a EndpointSlice>) -> Draft<'a> {
    let is_empty = |slice: &&EndpointSlice| endpoints_of(slice).is_empty() && ports_of(slice).is_empty();
    let old = left.iter().position(is_empty).map(|position| left.remove(position));
    Draft { old, content: Vec::new(), is_changed: false }
}

fn slice(metadata: ObjectMeta, family: &str, ports: Vec<EndpointPort>, draft: &Draft<'_>) -> EndpointSlice {
    let endpoint = |content: &Content<'_>| match content {
        Content::Kept(endpoint) => (*endpoint).clone(),
        Content::New(backend) => backend.endpoint(),
    };
    EndpointSlice {
        metadata,
        address_type: family.to_owned(),
        endpoints: Some(draft.content.iter().map(endpoint).collect()),
        ports: Some(ports),
    }
}

/// Names for new slices, of which nobody has one.
struct Names<'f, 'a> {
    facts: &'f Facts<'a>,
    next: u64,
    chosen: BTreeSet<String>,
}

impl Names<'_, '_> {
    fn next(&mut self) -> String {
        let service = self.facts.service;
        let uid = service.metadata.uid.as_deref().unwrap_or_default();
        loop {
            let name = derive(name(service), NAME_MAX, &[uid, &self.next.to_string()]);
            self.next += 1;
            if !(self.facts.is_taken)(&name) && self.chosen.insert(name.clone()) {
                return name;
            }
        }
    }
}

fn is_ours(slice: &EndpointSlice) -> bool {
    let manager = slice.metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY));
    manager.is_some_and(|manager| manager == MANAGER) && slice.metadata.deletion_timestamp.is_none()
}

fn endpoints_of(slice: &EndpointSlice) -> &[Endpoint] {
    slice.endpoints.as_deref().unwrap_or_default()
}

fn ports_of(slice: &EndpointSlice) -> &[EndpointPort] {
    slice.ports.as_deref().unwrap_or_default()
}

fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.to_owned(), name(service).to_owned());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    } else {
        labels.remove(HEADLESS);
    }
    labels
}
