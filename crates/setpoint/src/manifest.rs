//! Objects that are to be as files describe them: each says what it is, and what it is called.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow, bail, ensure};
use serde_json::Value;
use setpoint_api::documents::{self, DocumentError};

use crate::document::{Document, Files};
use crate::terminal::{inert, remark};

/// An object as its author wrote it, and where.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Manifest {
    pub(crate) object: Value,
    /// `web.yaml`, or `web.yaml, document 2`.
    pub(crate) source: String,
}

impl Manifest {
    /// All objects of the files, those first that others stand on, and otherwise in the order they are written in. Files
    /// without any are a mistake: what is not in them is not meant to go.
    pub(crate) fn read(files: &Files) -> Result<Vec<Manifest>> {
        let mut manifests = manifests(files.read()?)?;
        ensure!(
            !manifests.is_empty(),
            "there are no objects in {}; a folder's .yaml, .yml and .json files are read, with -R those below it too; what \
             an apply set holds is deleted by `setpoint destroy --set NAME`",
            inert(&files.shown())
        );
        manifests.sort_by_key(Manifest::rank);
        Ok(manifests)
    }

    /// An object that can be applied: it says what it is and what it is called, and nothing that a kind of ours does not
    /// know.
    pub(crate) fn of(object: Value, source: String) -> Result<Manifest> {
        let manifest = Manifest { object, source };
        manifest.check()?;
        Ok(manifest)
    }

    pub(crate) fn text(&self, pointer: &str) -> &str {
        self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// The group of its kind, "" for the core one, and the version.
    pub(crate) fn group_version(&self) -> (&str, &str) {
        let api_version = self.text("/apiVersion");
        api_version.split_once('/').unwrap_or(("", api_version))
    }

    /// When it is written: what others stand on goes first.
    pub(crate) fn rank(&self) -> u8 {
        match (self.group_version().0, self.text("/kind")) {
            ("", "Namespace") => 0,
            ("apiextensions.k8s.io", "CustomResourceDefinition") => 1,
            ("", "ServiceAccount" | "Secret" | "ConfigMap") | ("rbac.authorization.k8s.io", _) => 2,
            (setpoint_api::GROUP, "Environment") => 3,
            _ => 4,
        }
    }

    fn check(&self) -> Result<()> {
        let Manifest { object, source } = self;
        ensure!(object.is_object(), "{source}: an object is expected, with apiVersion and kind");
        for (pointer, field) in [("/apiVersion", "apiVersion"), ("/kind", "kind")] {
            ensure!(!self.text(pointer).is_empty(), "{source}: {field} must be set");
        }
        let shown = inert(self.text("/kind"));
        if self.name().is_empty() {
            bail!(
                "{source}: metadata.name of the {shown} must be set; what is applied again and again needs a fixed name"
            );
        }
        let group = self.group_version().0;
        if group == setpoint_api::GROUP || group == "planspec.io" {
            match documents::decode(object.clone()) {
                Ok(document) => {
                    for unknown in document.unknown {
                        remark(&format!("{source}: {unknown}; it is left out"));
                    }
                }
                // A newer server may know it.
                Err(DocumentError::UnknownKind { .. }) if group != setpoint_api::GROUP => {}
                Err(error) => {
                    let name = inert(self.name());
                    bail!("{source}: {shown} {name:?}: {}", inert(&error.to_string()).replace("\\u000a", "; "));
                }
            }
        }
        Ok(())
    }
}

fn manifests(documents: Vec<Document>) -> Result<Vec<Manifest>> {
    let long: BTreeSet<String> =
        documents.iter().filter(|document| document.number > 1).map(|document| document.file.clone()).collect();
    let manifest = |Document { file, number, content, remarks }: Document| {
        let source = if long.contains(&file) { format!("{file}, document {number}") } else { file };
        remarks.iter().for_each(|it| remark(&format!("{source}: {}", inert(it))));
        let object = content.map_err(|why| anyhow!("{source} cannot be read: {}", inert(&why)))?;
        Manifest::of(object, source)
    };
    documents.into_iter().map(manifest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::documents_of;

    const MACHINE: &str = "apiVersion: setpoint.dev/v1alpha1\nkind: Machine\nmetadata: {name: web}\n";

    fn told(text: &str) -> String {
        match manifests(documents_of("x.yaml", text)) {
            Ok(manifests) => {
                let tell = |manifest: &Manifest| {
                    format!("{} {} ({})", manifest.text("/kind"), manifest.name(), manifest.source)
                };
                manifests.iter().map(tell).collect::<Vec<_>>().join("\n")
            }
            Err(error) => format!("error: {error:#}"),
        }
    }

    #[test]
    fn files_hold_objects() {
        let map = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
        let rows = [
            ("one document", map("a"), "ConfigMap a (x.yaml)"),
            (
                "several, one of them empty",
                format!("---\n{}---\n---\n{}", map("a"), map("b")),
                "ConfigMap a (x.yaml, document 1)\nConfigMap b (x.yaml, document 2)",
            ),
            (
                "a list",
                r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}]}"#
                    .to_owned(),
                "ConfigMap a (x.yaml)",
            ),
            ("a kind of ours", format!("{MACHINE}spec: {{environment: lab, cores: 2}}\n"), "Machine web (x.yaml)"),
            ("nothing", "# only a comment\n".to_owned(), ""),
            ("no object", "- a\n".to_owned(), "error: x.yaml: an object is expected, with apiVersion and kind"),
            ("no kind", "apiVersion: v1\n".to_owned(), "error: x.yaml: kind must be set"),
            (
                "no name",
                "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n".to_owned(),
                "error: x.yaml: metadata.name of the Pod must be set; what is applied again and again needs a fixed name",
            ),
            (
                "a misspelt field",
                format!("{MACHINE}spec: {{environment: lab, croes: 2}}\n"),
                "error: x.yaml: Machine \"web\": unknown field \"spec.croes\" (did you mean \"cores\"?)",
            ),
            (
                "a misspelt kind",
                "apiVersion: setpoint.dev/v1alpha1\nkind: Mashine\nmetadata: {name: web}\n".to_owned(),
                "error: x.yaml: Mashine \"web\": no kind \"Mashine\" in \"setpoint.dev/v1alpha1\" (did you mean \"Machine\"?)",
            ),
        ];
        for (row, text, expected) in rows {
            assert_eq!(told(&text), expected, "{row}");
        }
        assert!(told("a: [\n").starts_with("error: x.yaml cannot be read: "), "{}", told("a: [\n"));
    }

    #[test]
    fn what_others_stand_on_goes_first() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).expect("writable");
        write("a.yaml", format!("{MACHINE}spec: {{environment: lab}}\n"));
        write("b.yml", "apiVersion: setpoint.dev/v1alpha1\nkind: Environment\nmetadata: {name: lab}\nspec: {deployer: {name: simulated}}\n".to_owned());
        write("c.json", r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}"#.to_owned());
        write("d.txt", "not an object".to_owned());
        let files = Files { paths: vec![folder.path().to_owned()], recursive: false };
        let kinds: Vec<String> =
            Manifest::read(&files).expect("objects").iter().map(|manifest| manifest.text("/kind").to_owned()).collect();
        assert_eq!(kinds, ["Namespace", "Environment", "Machine"]);
    }

    #[test]
    fn files_without_objects_are_a_mistake() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("x.txt"), "not an object").expect("writable");
        std::fs::write(folder.path().join("empty.yaml"), "# later\n").expect("writable");
        for path in [folder.path().to_owned(), folder.path().join("empty.yaml")] {
            let files = Files { paths: vec![path.clone()], recursive: false };
            let error = Manifest::read(&files).expect_err("there is nothing").to_string();
            let expected = format!("there are no objects in {};", path.display());
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}
