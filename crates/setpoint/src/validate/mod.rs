//! `setpoint validate`: what is wrong with documents, before a server sees them.
//!
//! | module | what it does |
//! | --- | --- |
//! | `kinds` | checks one object by the rules of its kind |

mod kinds;

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};
use setpoint_core::count::counted_are;

use self::kinds::{Kinds, Problem, Verdict};
use crate::document::{Document, Files};
use crate::output::Output;
use crate::terminal::{inert, remark};

#[derive(Debug, Args)]
pub(crate) struct Validate {
    #[command(flatten)]
    files: Files,
    /// The form to print problems in
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
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
        let documents = self.files.read()?;
        let (kinds, mut findings, mut unknown) = (Kinds::new(), Vec::new(), Vec::new());
        let mut before: BTreeMap<String, &Document> = BTreeMap::new();
        for document in &documents {
            match problems(&kinds, document) {
                Verdict::Checked(problems) => {
                    findings.extend(problems.into_iter().map(|problem| Finding::of(document, problem)))
                }
                Verdict::Unknown => unknown.push(document),
            }
            let first = identity(document).and_then(|identity| before.insert(identity, document));
            findings.extend(
                first.map(|first| Finding::of(document, Problem::whole(&format!("is in {} already", first.file)))),
            );
        }
        let text = || findings.iter().map(Finding::line).collect();
        self.output.print(text, || Ok(report(&documents, &findings, &unknown)))?;
        for document in &unknown {
            remark(&format!("{}:{}: not checked: nothing is known here of its kind", document.file, document.title()));
        }
        if documents.is_empty() {
            remark(&nothing_in(&self.files));
            return Ok(());
        }
        conclude(documents.len() - unknown.len(), &findings)
    }
}

fn problems(kinds: &Kinds, document: &Document) -> Verdict {
    match &document.content {
        Err(error) => Verdict::Checked(vec![Problem::whole(error)]),
        Ok(object) => match kinds.check(object) {
            Verdict::Unknown => Verdict::Unknown,
            Verdict::Checked(mut problems) => {
                problems.extend(document.remarks.iter().map(Problem::whole));
                Verdict::Checked(problems)
            }
        },
    }
}

/// By what the server knows an object. Two that are the same would overwrite each other.
fn identity(document: &Document) -> Option<String> {
    let object = document.content.as_ref().ok()?;
    let (name, namespace) = (object["metadata"]["name"].as_str()?, &object["metadata"]["namespace"]);
    let group = object["apiVersion"].as_str()?.rsplit_once('/').map_or("", |(group, _)| group);
    Some(format!("{group}/{}/{}/{name}", object["kind"].as_str()?, namespace.as_str().unwrap_or("default")))
}

impl Finding {
    fn of(document: &Document, problem: Problem) -> Finding {
        Finding { file: document.file.clone(), number: document.number, object: document.title(), problem }
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

fn report(documents: &[Document], findings: &[Finding], unknown: &[&Document]) -> Value {
    let unchecked: Vec<Value> =
        unknown.iter().map(|document| json!({"file": document.file, "object": document.title()})).collect();
    json!({
        "objects": documents.len(),
        "problems": findings.iter().map(Finding::json).collect::<Vec<_>>(),
        "unchecked": unchecked,
    })
}

/// Says where nothing was found to check.
fn nothing_in(files: &Files) -> String {
    match files.paths.as_slice() {
        [] => {
            "no file in this folder holds a document, so nothing was checked; name files or folders with -f".to_owned()
        }
        [path] if path.as_os_str() == "-" => "standard input holds no document, so nothing was checked".to_owned(),
        [path] => format!("{} holds no document, so nothing was checked", inert(&path.display().to_string())),
        several => format!("none of these {} holds a document, so nothing was checked", several.len()),
    }
}

fn conclude(checked: usize, findings: &[Finding]) -> Result<()> {
    match findings.len() {
        0 if checked == 0 => remark("nothing was checked"),
        0 => remark(&format!("{} valid", counted_are(checked, "object"))),
        1 => bail!("there is 1 problem"),
        count => bail!("there are {count} problems"),
    }
    Ok(())
}
