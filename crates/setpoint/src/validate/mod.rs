//! `setpoint validate`: what is wrong with documents, before a server sees them.
//!
//! | module | what it does |
//! | --- | --- |
//! | `kinds` | checks one object by the rules of its kind |

mod kinds;

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use self::kinds::{Kinds, Problem, Verdict};
use crate::manifest::{Files, Manifest};
use crate::terminal::{inert, json, print, remark, yaml};

#[derive(Debug, Args)]
pub(crate) struct Validate {
    #[command(flatten)]
    files: Files,
    /// The form to print problems in
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
    Yaml,
}

/// A problem, and where it is.
struct Finding {
    file: String,
    number: usize,
    object: String,
    problem: Problem,
}

impl Validate {
    pub(crate) fn run(&self) -> Result<()> {
        let manifests = self.files.read()?;
        let (kinds, mut findings, mut unknown) = (Kinds::new(), Vec::new(), Vec::new());
        let mut before: BTreeMap<String, &Manifest> = BTreeMap::new();
        for manifest in &manifests {
            match problems(&kinds, manifest) {
                Verdict::Checked(problems) => {
                    findings.extend(problems.into_iter().map(|problem| Finding::of(manifest, problem)))
                }
                Verdict::Unknown => unknown.push(manifest),
            }
            let first = identity(manifest).and_then(|identity| before.insert(identity, manifest));
            findings.extend(
                first.map(|first| Finding::of(manifest, Problem::whole(&format!("is in {} already", first.file)))),
            );
        }
        match self.output {
            Output::Text => print(&findings.iter().map(Finding::line).collect::<String>())?,
            Output::Json => print(&json(&report(&manifests, &findings, &unknown)))?,
            Output::Yaml => print(&yaml(&report(&manifests, &findings, &unknown))?)?,
        }
        for manifest in &unknown {
            remark(&format!("{}:{}: not checked: nothing is known here of its kind", manifest.file, manifest.title()));
        }
        conclude(manifests.len() - unknown.len(), &findings)
    }
}

fn problems(kinds: &Kinds, manifest: &Manifest) -> Verdict {
    match &manifest.content {
        Err(error) => Verdict::Checked(vec![Problem::whole(error)]),
        Ok(object) => match kinds.check(object) {
            Verdict::Unknown => Verdict::Unknown,
            Verdict::Checked(mut problems) => {
                problems.extend(manifest.remarks.iter().map(Problem::whole));
                Verdict::Checked(problems)
            }
        },
    }
}

/// By what the server knows an object. Two that are the same would overwrite each other.
fn identity(manifest: &Manifest) -> Option<String> {
    let object = manifest.content.as_ref().ok()?;
    let (name, namespace) = (object["metadata"]["name"].as_str()?, &object["metadata"]["namespace"]);
    let group = object["apiVersion"].as_str()?.rsplit_once('/').map_or("", |(group, _)| group);
    Some(format!("{group}/{}/{}/{name}", object["kind"].as_str()?, namespace.as_str().unwrap_or("default")))
}

impl Finding {
    fn of(manifest: &Manifest, problem: Problem) -> Finding {
        Finding { file: manifest.file.clone(), number: manifest.number, object: manifest.title(), problem }
    }

    /// `machines.yaml:Machine/web: spec.memory: Invalid value: …`
    fn line(&self) -> String {
        let Finding { file, object, problem: Problem { field, message }, .. } = self;
        let field = if field.is_empty() { String::new() } else { format!("{field}: ") };
        inert(&format!("{file}:{object}: {field}{message}")) + "\n"
    }

    fn json(&self) -> Value {
        let Finding { file, number, object, problem: Problem { field, message } } = self;
        json!({"file": file, "document": number, "object": object, "field": field, "message": message})
    }
}

fn report(manifests: &[Manifest], findings: &[Finding], unknown: &[&Manifest]) -> Value {
    let unchecked: Vec<Value> =
        unknown.iter().map(|manifest| json!({"file": manifest.file, "object": manifest.title()})).collect();
    json!({
        "objects": manifests.len(),
        "problems": findings.iter().map(Finding::json).collect::<Vec<_>>(),
        "unchecked": unchecked,
    })
}

fn conclude(checked: usize, findings: &[Finding]) -> Result<()> {
    match findings.len() {
        0 if checked == 0 => remark("there is nothing to check; name files or folders with -f"),
        0 => remark(&format!(
            "{} valid",
            if checked == 1 { "1 object is".to_owned() } else { format!("{checked} objects are") }
        )),
        1 => bail!("there is 1 problem"),
        count => bail!("there are {count} problems"),
    }
    Ok(())
}
