//! Replaces what differs from run to run.

use anyhow::Result;
use regex::Regex;

/// What is replaced, by what.
const RULES: &[(&str, &str)] = &[
    // Padding depends on the longest name or age of a column; indentation stays.
    (r"(\S) {2,}", "$1  "),
    (r"[ \t]+\n", "\n"),
    (r"\x1b\[[0-9;]*m", ""),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"\d{4}-\d\d-\d\d[ \t]\d\d:\d\d:\d\d(\.\d+)? [+-]\d{4}", "TIME"),
    (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"\beyJ[\w-]+\.[\w-]+\.[\w-]+", "TOKEN"),
    (r"\b10\.\d+\.\d+\.\d+\b", "IP"),
    (r#"("?resourceVersion"?: ?)"\d+""#, r#"$1"REVISION""#),
    (r"/tmp/(LIVE|MERGED)-\d+/", "/tmp/$1/"),
    (r"\bkubectl-edit-\d+", "kubectl-edit"),
    (r"\b(apply|preview)-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "$1-NAME"),
    (r"\b(hmac-)?sha256:[0-9a-f]{64}\b", "DIGEST"),
    (r"\bsim-[0-9a-f]{4}-\d+\b", "GUEST"),
    (r"\b(generated)-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "$1-NAME"),
    (r"\b([a-z]+-[bcdfghjklmnpqrstvwxz2456789]{10})-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "$1-NAME"),
    (r"(?m)(  |^)(\d+s|\d+y\d+d)(  |$)", "${1}AGE$3"),
    (r"(Resource Version:  )\d+", "${1}REVISION"),
    (r"(\brevision|--at|resource version: \d+, current:) \d+", "$1 REVISION"),
    (r"(Client Version|Kustomize Version): v\S+", "$1: VERSION"),
];

pub(crate) struct Filter(Vec<(Regex, &'static str)>);

impl Filter {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(RULES.iter().map(|(pattern, by)| Ok((Regex::new(pattern)?, *by))).collect::<Result<_>>()?))
    }

    pub(crate) fn apply(&self, text: &str) -> String {
        let filtered =
            self.0.iter().fold(text.to_owned(), |text, (rule, by)| rule.replace_all(&text, *by).into_owned());
        filtered.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }
}

#[test]
fn what_differs_from_run_to_run_is_replaced() -> Result<()> {
    let rows = [
        ("an age in a table", "web   1/1     17s   blue\n", "web  1/1  AGE  blue\n"),
        ("an old age", "2y193d  Normal\n", "AGE  Normal\n"),
        ("no age", "cpu:  250m\n", "cpu:  250m\n"),
        ("a uid", "uid: 8d0f0d6a-4a80-4a0e-8b7b-6a2f8f6d0e4b\n", "uid: UID\n"),
        ("a revision", "    resourceVersion: \"17\"\n", "    resourceVersion: \"REVISION\"\n"),
        ("a time in an object", "t: \"2024-05-06T07:08:09Z\"\n", "t: \"TIME\"\n"),
        ("a generated name", "configmap/generated-x2v4z created\n", "configmap/generated-NAME created\n"),
        ("the name of a replica", "pod/web-bcdfghjklm-x2v4z\n", "pod/web-bcdfghjklm-NAME\n"),
        ("a token", "eyJh.eyJi_.x-Y\n", "TOKEN\n"),
        ("an address", "running at https://127.0.0.1:40301\n", "running at https://ADDRESS\n"),
    ];
    let filter = Filter::new()?;
    for (what, text, expected) in rows {
        assert_eq!(filter.apply(text), expected, "{what}");
    }
    Ok(())
}
