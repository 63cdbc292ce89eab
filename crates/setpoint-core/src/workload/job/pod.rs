//! The Pod of a Job: its template, with what tells whose it is and which part of the work it does.
//!
//! Its name follows from the Job's uid and its number, or its index and which try it is. So whoever makes it again meets
//! it, and nobody ever makes two where one was meant.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::indexes::COMPLETION_INDEX;
use super::per_index::{self, FAILURE_COUNT, IGNORED_COUNT};
use super::tally::Tally;
use super::{Facts, TRACKING};
use crate::derived_name::derive;
use crate::workload::selection::Owner;

/// The longest name: it is a host's name too.
const NAME_MAX: usize = 63;
/// The variable that tells a container which index it works on.
const VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// So many Pods of a Job whose Pods are all alike.
pub(super) fn of_ordinals(facts: &Facts<'_>, count: usize) -> Vec<Pod> {
    let status = facts.job.status.as_ref();
    let counted = status.map_or(0, |status| status.succeeded.unwrap_or_default() + status.failed.unwrap_or_default());
    let mut names = Names::new(facts);
    let (name, _) = identity(facts);
    let mut ordinals = u64::try_from(counted).unwrap_or_default()..;
    let named = (0..count).map(|_| names.first_free(name, &mut ordinals, ""));
    named.map(|name| made(facts, name)).collect()
}

/// A Pod for each of these indexes.
pub(super) fn of_indexes(facts: &Facts<'_>, indexes: &[i32], tally: &Tally<'_>) -> Vec<Pod> {
    let mut names = Names::new(facts);
    let (job, _) = identity(facts);
    let of_index = |index: &i32| {
        let text = index.to_string();
        let name = names.first_free(&format!("{job}-{text}"), &mut (0..), &text);
        let mut pod = made(facts, name);
        let metadata = &mut pod.metadata;
        metadata.labels.get_or_insert_default().insert(COMPLETION_INDEX.to_owned(), text.clone());
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(COMPLETION_INDEX.to_owned(), text.clone());
        if per_index::limit(facts.job).is_some() {
            let before = tally.to_be_replaced.get(index);
            let (counted, ignored) = before.map_or((0, 0), |failed| per_index::failures_with(facts.job, failed));
            annotations.insert(FAILURE_COUNT.to_owned(), counted.to_string());
            if ignored > 0 {
                annotations.insert(IGNORED_COUNT.to_owned(), ignored.to_string());
            }
        }
        if let Some(spec) = &mut pod.spec {
            spec.hostname = Some(format!("{job}-{text}"));
            let init = spec.init_containers.iter_mut().flatten();
            spec.containers.iter_mut().chain(init).for_each(tell_index);
        }
        pod
    };
    indexes.iter().map(of_index).collect()
}

fn identity<'a>(facts: &Facts<'a>) -> (&'a str, &'a str) {
    let metadata = &facts.job.metadata;
    (metadata.name.as_deref().unwrap_or_default(), metadata.uid.as_deref().unwrap_or_default())
}

fn made(facts: &Facts<'_>, name: String) -> Pod {
    let template = facts.job.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let of_template = template.metadata.unwrap_or_default();
    let mut finalizers = of_template.finalizers.unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == TRACKING) {
        finalizers.push(TRACKING.to_owned());
    }
    let metadata = ObjectMeta {
        name: Some(name),
        namespace: facts.job.metadata.namespace.clone(),
        labels: of_template.labels,
        annotations: of_template.annotations,
        finalizers: Some(finalizers),
        owner_references: Some(vec![Owner::from(facts.job).reference()]),
        ..ObjectMeta::default()
    };
    Pod { metadata, spec: template.spec, status: None }
}

/// Has a container read its index from the Pod, unless it has a variable of that name.
fn tell_index(container: &mut Container) {
    let env = container.env.get_or_insert_default();
    if env.iter().any(|variable| variable.name == VARIABLE) {
        return;
    }
    let field = ObjectFieldSelector {
        field_path: format!("metadata.annotations['{COMPLETION_INDEX}']"),
        ..ObjectFieldSelector::default()
    };
    let value_from = Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() });
    env.push(EnvVar { name: VARIABLE.to_owned(), value_from, ..EnvVar::default() });
}

/// Names that nobody has.
struct Names<'f, 'a> {
    facts: &'f Facts<'a>,
    chosen: BTreeSet<String>,
}

impl<'f, 'a> Names<'f, 'a> {
    fn new(facts: &'f Facts<'a>) -> Self {
        Names { facts, chosen: BTreeSet::new() }
    }

    fn first_free(&mut self, stem: &str, numbers: &mut std::ops::RangeFrom<u64>, part: &str) -> String {
        let (_, uid) = identity(self.facts);
        let mut names = numbers.map(|number| derive(stem, NAME_MAX, &[uid, part, &number.to_string()]));
        let is_free = |name: &String| !(self.facts.is_taken)(name) && self.chosen.insert(name.clone());
        names.find(is_free).expect("there are more names than Pods")
    }
}
