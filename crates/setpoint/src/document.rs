//! Documents as people keep them: YAML or JSON, several to a file, in folders, or from standard input.
//!
//! Each document is read as the server reads a body, so that what passes here means the same there. One that cannot be read
//! hides no other.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use serde_json::Value;
use setpoint_apiserver::schema::Body;

/// Larger than anything that people write by hand, and than what a server takes.
const LONGEST_FILE: u64 = 16 << 20;
const MOST_FILES: usize = 10_000;
const STANDARD_INPUT: &str = "-";
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];

/// Which files to read.
#[derive(Debug, Args)]
pub(crate) struct Files {
    /// A file of YAML or JSON documents, a folder of such files, or - for standard input; may be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub(crate) paths: Vec<PathBuf>,
    /// Look into the folders of folders, too
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
}

/// One object that a file describes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Document {
    /// The file, as it was named; `-` for standard input.
    pub(crate) file: String,
    /// Its place among the file's documents, from 1 on.
    pub(crate) number: usize,
    /// The object, or why it cannot be read.
    pub(crate) content: Result<Value, String>,
    /// What was not taken over, such as a field that stands twice.
    pub(crate) remarks: Vec<String>,
}

impl Files {
    /// The objects of these files, or of those in this folder if none is named.
    pub(crate) fn read(&self) -> Result<Vec<Document>> {
        let here = [PathBuf::from(".")];
        let mut files = Vec::new();
        for path in if self.paths.is_empty() { &here[..] } else { &self.paths } {
            if path.is_dir() {
                self.files_of(path, &mut files)?;
            } else {
                files.push(path.clone());
            }
        }
        let mut documents = Vec::new();
        for file in &files {
            documents.extend(documents_of(&shown(file), &text(file)?));
        }
        Ok(documents)
    }

    /// What they are called, for people.
    pub(crate) fn shown(&self) -> String {
        let name = |path: &PathBuf| match path.as_os_str() == STANDARD_INPUT {
            true => "standard input".to_owned(),
            false => path.display().to_string(),
        };
        self.paths.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    fn files_of(&self, folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
        let unreadable = || format!("cannot read the folder {}", folder.display());
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder).with_context(unreadable)? {
            entries.push(entry.with_context(unreadable)?.path());
        }
        entries.sort();
        for path in entries {
            let is_document = path.extension().is_some_and(|own| EXTENSIONS.iter().any(|known| own == *known));
            // A link to a folder may lead back here.
            if path.is_dir() && self.recursive && !path.is_symlink() {
                self.files_of(&path, files)?;
            } else if is_document && path.is_file() {
                ensure!(files.len() < MOST_FILES, "there are more than {MOST_FILES} files; name fewer with -f");
                files.push(path);
            }
        }
        Ok(())
    }
}

impl Document {
    /// `Machine/web`, or the place of what does not say its name.
    pub(crate) fn title(&self) -> String {
        let object = self.content.as_ref().unwrap_or(&Value::Null);
        let name = object["metadata"]["name"].as_str().or(object["metadata"]["generateName"].as_str());
        match (object["kind"].as_str(), name) {
            (Some(kind), Some(name)) => format!("{kind}/{name}"),
            (Some(kind), None) => format!("{kind} (document {})", self.number),
            _ => format!("document {}", self.number),
        }
    }
}

fn shown(path: &Path) -> String {
    path.strip_prefix(".").unwrap_or(path).display().to_string()
}

fn text(path: &Path) -> Result<String> {
    let mut text = String::new();
    let read = if path.as_os_str() == STANDARD_INPUT {
        io::stdin().lock().take(LONGEST_FILE + 1).read_to_string(&mut text)
    } else {
        File::open(path).and_then(|file| file.take(LONGEST_FILE + 1).read_to_string(&mut text))
    };
    let length = read.with_context(|| format!("cannot read {}", path.display()))?;
    if u64::try_from(length).unwrap_or(u64::MAX) > LONGEST_FILE {
        bail!("{} is longer than {} MiB", path.display(), LONGEST_FILE >> 20);
    }
    Ok(text)
}

/// The objects that a file describes, those of a List each for itself. Documents that say nothing are left out.
pub(crate) fn documents_of(file: &str, text: &str) -> Vec<Document> {
    let mut documents = Vec::new();
    for (index, document) in parted(text).iter().enumerate() {
        let (content, remarks) = match Body::yaml(document.as_bytes()).decode_any() {
            Ok(decoded) => (Ok(decoded.object), decoded.remarks),
            Err(error) => (Err(error.to_string()), Vec::new()),
        };
        let contents = match content {
            Ok(Value::Null) => Vec::new(),
            Ok(mut list) if is_list(&list) => {
                list["items"].as_array_mut().map(std::mem::take).unwrap_or_default().into_iter().map(Ok).collect()
            }
            other => vec![other],
        };
        let number = index + 1;
        let document = |content| Document { file: file.to_owned(), number, content, remarks: remarks.clone() };
        documents.extend(contents.into_iter().map(document));
    }
    documents
}

/// Whether these are several objects in one.
fn is_list(object: &Value) -> bool {
    object["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) && object["items"].is_array()
}

/// The documents of a text, as kubectl parts them: by lines that begin with `---`.
fn parted(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        match line.strip_prefix("---") {
            Some(rest) if rest.is_empty() || rest.starts_with([' ', '\t']) => documents.push(format!("{rest}\n")),
            _ => {
                let document = documents.last_mut().expect("there is one from the beginning");
                document.push_str(line);
                document.push('\n');
            }
        }
    }
    documents.retain(|document| document.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#')));
    documents
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_hold_documents() {
        let a = json!({"kind": "A", "metadata": {"name": "a"}});
        type Row<'a> = (&'a str, &'a str, Vec<Result<Value, &'a str>>);
        let rows: [Row<'_>; 9] = [
            ("nothing", "", vec![]),
            ("a comment", "# later\n---\n", vec![]),
            ("one", "kind: A\nmetadata: {name: a}\n", vec![Ok(a.clone())]),
            ("JSON", r#"{"kind": "A", "metadata": {"name": "a"}}"#, vec![Ok(a.clone())]),
            (
                "two",
                "---\nkind: A\nmetadata: {name: a}\n--- # next\nkind: B\n",
                vec![Ok(a.clone()), Ok(json!({"kind": "B"}))],
            ),
            (
                "a list",
                "kind: List\napiVersion: v1\nitems: [{kind: A, metadata: {name: a}}, {kind: B}]",
                vec![Ok(a.clone()), Ok(json!({"kind": "B"}))],
            ),
            ("dashes in a text", "kind: |\n  --- no\n  ---x\n", vec![Ok(json!({"kind": "--- no\n---x\n"}))]),
            (
                "one that cannot be read hides no other",
                "kind: [\n---\nkind: B\n",
                vec![Err(""), Ok(json!({"kind": "B"}))],
            ),
            ("the words of YAML 1.1", "kind: B\nopen: yes\n", vec![Ok(json!({"kind": "B", "open": true}))]),
        ];
        for (name, text, expected) in rows {
            let read = documents_of("x.yaml", text);
            let contents: Vec<Result<Value, &str>> =
                read.iter().map(|document| document.content.clone().map_err(|_| "")).collect();
            assert_eq!(contents, expected, "{name}");
        }
        assert_eq!(documents_of("x", "a: 1\na: 2")[0].remarks, ["duplicate field \"a\""]);
    }

    #[test]
    fn a_document_is_called_by_what_it_says() {
        let rows = [
            ("kind: A\nmetadata: {name: a}", "A/a"),
            ("kind: A\nmetadata: {generateName: a-}", "A/a-"),
            ("kind: A", "A (document 1)"),
            ("[1]", "document 1"),
            ("{", "document 1"),
        ];
        for (text, expected) in rows {
            assert_eq!(documents_of("x.yaml", text)[0].title(), expected, "{text}");
        }
    }
}
