//! What a Machine's guest is started with, once every variable is replaced.

use std::collections::BTreeSet;

use super::{EnvVar, MachineSpec};
use crate::field::Path;
use crate::interpolation::{self, InterpolationError, Problem, Source, SourceKind, Text};

const SPEC: Path<'static> = Path::of("spec");

/// A Machine's command, arguments and variables without any `${NAME}`. What is not set stays so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    pub command: Option<Vec<Text>>,
    pub args: Option<Vec<Text>>,
    pub env: Option<Vec<(String, Text)>>,
}

impl MachineSpec {
    /// The Secrets and ConfigMaps that are named, each once.
    pub fn sources(&self) -> BTreeSet<(SourceKind, &str)> {
        let from = self.variables_from.iter().flat_map(|from| {
            let secret = from.secret.as_deref().map(|name| (SourceKind::Secret, name));
            secret.into_iter().chain(from.config_map.as_deref().map(|name| (SourceKind::ConfigMap, name)))
        });
        let keys = self.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()).flat_map(|from| {
            let secret = from.secret_key_ref.as_ref().map(|key| (SourceKind::Secret, key.name.as_str()));
            secret.into_iter().chain(from.config_map_key_ref.as_ref().map(|key| (SourceKind::ConfigMap, &*key.name)))
        });
        from.chain(keys).collect()
    }

    /// Replaces every variable, or says everything that cannot be. `sources` are the Secrets and ConfigMaps that were
    /// read; only those of the Machine's own namespace, and only those that it names, are looked at.
    pub fn resolve(&self, namespace: &str, sources: &[Source]) -> Result<Resolved, Vec<InterpolationError>> {
        let find = |kind, name: &str| {
            sources.iter().find(|source| source.kind == kind && source.namespace == namespace && source.name == name)
        };
        let missing = |path: &Path<'_>, variable: &str, kind: SourceKind, name: &str| {
            let searched = vec![format!("{kind} {namespace}/{name}, which does not exist")];
            let problem = Problem::Unresolved { variable: variable.to_owned(), searched };
            vec![InterpolationError { field: path.to_string(), problem }]
        };
        let mut errors = Vec::new();
        let mut named: Vec<&Source> = Vec::new();
        let path = SPEC.field("variablesFrom");
        for (index, from) in self.variables_from.iter().enumerate() {
            let path = path.index(index);
            let sources =
                [(SourceKind::Secret, "secret", &from.secret), (SourceKind::ConfigMap, "configMap", &from.config_map)];
            for (kind, field, name) in sources {
                let Some(name) = name else { continue };
                match find(kind, name) {
                    Some(source) => named.push(source),
                    // The next source may have the key as well, with another value.
                    None => errors.push(InterpolationError {
                        field: path.field(field).to_string(),
                        problem: Problem::NoSource { source_name: format!("{kind} {namespace}/{name}") },
                    }),
                }
            }
        }
        let variable = |path: &Path<'_>, variable: &EnvVar| {
            let from = variable.value_from.as_ref();
            let references = [
                (SourceKind::Secret, "secretKeyRef", from.and_then(|from| from.secret_key_ref.as_ref())),
                (SourceKind::ConfigMap, "configMapKeyRef", from.and_then(|from| from.config_map_key_ref.as_ref())),
            ];
            let Some((kind, field, reference)) =
                references.into_iter().find_map(|(kind, field, reference)| Some((kind, field, reference?)))
            else {
                let value = variable.value.as_deref().unwrap_or_default();
                return interpolation::interpolate(&path.field("value"), value, &named);
            };
            let path = path.field("valueFrom");
            let path = path.field(field);
            match find(kind, &reference.name) {
                Some(source) => interpolation::key_of(&path, &reference.key, source),
                None => Err(missing(&path, &reference.key, kind, &reference.name)),
            }
        };
        let mut keep = |text: Result<Text, Vec<InterpolationError>>| match text {
            Ok(text) => Some(text),
            Err(problems) => {
                errors.extend(problems);
                None
            }
        };
        let mut words = |field: &str, words: &Option<Vec<String>>| -> Option<Vec<Text>> {
            let path = SPEC.field(field);
            let words = words.as_ref()?.iter().enumerate();
            Some(
                words
                    .filter_map(|(index, word)| keep(interpolation::interpolate(&path.index(index), word, &named)))
                    .collect(),
            )
        };
        let (command, args) = (words("command", &self.command), words("args", &self.args));
        let path = SPEC.field("env");
        let env = self.env.as_ref().map(|env| {
            let texts = env.iter().enumerate();
            texts
                .filter_map(|(index, entry)| Some((entry.name.clone(), keep(variable(&path.index(index), entry))?)))
                .collect()
        });
        if errors.is_empty() { Ok(Resolved { command, args, env }) } else { Err(errors) }
    }
}
