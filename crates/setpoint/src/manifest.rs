//! Objects in files: YAML documents and JSON, from files, folders and standard input.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use clap::Args;
use serde_json::Value;
use setpoint_api::documents::{self, DocumentError};

use crate::terminal::{inert, remark};

/// The largest file that is read.
const LARGEST: u64 = 64 << 20;
/// How many objects are taken at once.
const MOST_OBJECTS: usize = 10_000;
/// How deep folders are followed.
const DEEPEST: usize = 32;

/// Which files to read.
#[derive(Debug, Args)]
pub(crate) struct Files {
    /// A file, a folder with .yaml, .yml and .json files, or - for standard input; may be repeated
    #[arg(short, long = "filename", value_name = "FILE")]
    pub(crate) filename: Vec<PathBuf>,
    /// Go into folders of folders too
    #[arg(short = 'R', long)]
    recursive: bool,
}

/// An object as its author wrote it, and where.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Manifest {
    pub(crate) object: Value,
    /// `web.yaml`, or `web.yaml, document 2`.
    pub(crate) source: String,
}

impl Manifest {
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
}

impl Files {
    /// All objects of the files, those first that others stand on, and otherwise in the order they are written in.
    pub(crate) fn read(&self) -> Result<Vec<Manifest>> {
        let mut manifests = Vec::new();
        for path in &self.filename {
            if path.as_os_str() == "-" {
                manifests.extend(parse("standard input", &text_of(std::io::stdin().lock(), "standard input")?)?);
                continue;
            }
            for path in self.files_of(path)? {
                let shown = path.display().to_string();
                let file = File::open(&path).with_context(|| format!("cannot read {shown}"))?;
                manifests.extend(parse(&shown, &text_of(file, &shown)?)?);
                ensure!(manifests.len() <= MOST_OBJECTS, "the files hold more than {MOST_OBJECTS} objects");
            }
        }
        manifests.sort_by_key(Manifest::rank);
        Ok(manifests)
    }

    fn files_of(&self, path: &Path) -> Result<Vec<PathBuf>> {
        let metadata = std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        if !metadata.is_dir() {
            return Ok(vec![path.to_owned()]);
        }
        let mut files = BTreeSet::new();
        self.collect(path, 0, &mut files)?;
        ensure!(!files.is_empty(), "there are no .yaml, .yml or .json files in {}", path.display());
        Ok(files.into_iter().collect())
    }

    fn collect(&self, folder: &Path, depth: usize, files: &mut BTreeSet<PathBuf>) -> Result<()> {
        ensure!(depth <= DEEPEST, "{} is too deep", folder.display());
        let cannot_read = || format!("cannot read {}", folder.display());
        for entry in std::fs::read_dir(folder).with_context(cannot_read)? {
            let path = entry.with_context(cannot_read)?.path();
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            if path.is_dir() {
                if self.recursive {
                    self.collect(&path, depth + 1, files)?;
                }
            } else if ["yaml", "yml", "json"].contains(&extension) {
                files.insert(path);
            }
        }
        Ok(())
    }
}

fn text_of(source: impl Read, shown: &str) -> Result<String> {
    let mut text = String::new();
    let read = source.take(LARGEST + 1).read_to_string(&mut text).with_context(|| format!("cannot read {shown}"))?;
    ensure!(read as u64 <= LARGEST, "{shown} is larger than {} MiB", LARGEST >> 20);
    Ok(text)
}

/// The objects of a text, with lists taken apart.
pub(crate) fn parse(source: &str, text: &str) -> Result<Vec<Manifest>> {
    let documents = match serde_json::from_str::<Value>(text) {
        Ok(document) => vec![document],
        Err(_) => documents_of(text).map_err(|why| anyhow!("{source} is no YAML: {}", inert(&why)))?,
    };
    let several = documents.len() > 1;
    let mut manifests = Vec::new();
    for (index, document) in documents.into_iter().enumerate().filter(|(_, document)| !document.is_null()) {
        let source = if several { format!("{source}, document {}", index + 1) } else { source.to_owned() };
        flatten(document, source, &mut manifests)?;
    }
    Ok(manifests)
}

fn documents_of(text: &str) -> Result<Vec<Value>, String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_aliases: 256,
            max_documents: MOST_OBJECTS,
            max_recorded_anchor_bytes: 256 * 1024,
        },
        // A mode such as 0644 is octal to Kubernetes' clients and server.
        legacy_octal_numbers: true,
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| error.without_snippet().to_string())
}

fn flatten(document: Value, source: String, manifests: &mut Vec<Manifest>) -> Result<()> {
    let is_list = document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match document {
        Value::Object(mut members) if is_list && members.get("items").is_some_and(Value::is_array) => {
            let Some(Value::Array(items)) = members.remove("items") else { return Ok(()) };
            for (index, item) in items.into_iter().enumerate() {
                manifests.push(checked(item, format!("{source}, item {}", index + 1))?);
            }
            Ok(())
        }
        document => {
            manifests.push(checked(document, source)?);
            Ok(())
        }
    }
}

/// An object that can be applied: it says what it is and what it is called, and nothing that a kind of ours does not know.
fn checked(object: Value, source: String) -> Result<Manifest> {
    let manifest = Manifest { object, source };
    let Manifest { object, source } = &manifest;
    ensure!(object.is_object(), "{source}: an object is expected, with apiVersion and kind");
    for (pointer, field) in [("/apiVersion", "apiVersion"), ("/kind", "kind")] {
        ensure!(!manifest.text(pointer).is_empty(), "{source}: {field} must be set");
    }
    let shown = inert(manifest.text("/kind"));
    if manifest.name().is_empty() {
        bail!("{source}: metadata.name of the {shown} must be set; what is applied again and again needs a fixed name");
    }
    let group = manifest.group_version().0;
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
                let name = inert(manifest.name());
                bail!("{source}: {shown} {name:?}: {}", inert(&error.to_string()).replace("\\u000a", "; "));
            }
        }
    }
    Ok(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = "apiVersion: setpoint.dev/v1alpha1\nkind: Machine\nmetadata: {name: web}\n";

    fn told(text: &str) -> String {
        match parse("x.yaml", text) {
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
                "ConfigMap a (x.yaml, document 1)\nConfigMap b (x.yaml, document 3)",
            ),
            (
                "a list",
                r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}]}"#
                    .to_owned(),
                "ConfigMap a (x.yaml, item 1)",
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
        assert!(told("a: [\n").starts_with("error: x.yaml is no YAML: "), "{}", told("a: [\n"));
    }

    #[test]
    fn what_others_stand_on_goes_first() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).expect("writable");
        write("a.yaml", format!("{MACHINE}spec: {{environment: lab}}\n"));
        write("b.yml", "apiVersion: setpoint.dev/v1alpha1\nkind: Environment\nmetadata: {name: lab}\nspec: {deployer: {name: simulated}}\n".to_owned());
        write("c.json", r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}"#.to_owned());
        write("d.txt", "not an object".to_owned());
        let files = Files { filename: vec![folder.path().to_owned()], recursive: false };
        let kinds: Vec<String> =
            files.read().expect("objects").iter().map(|manifest| manifest.text("/kind").to_owned()).collect();
        assert_eq!(kinds, ["Namespace", "Environment", "Machine"]);
    }
}
