//! SSH signatures over verdicts, made by `ssh-keygen` with a key's file or a key that `ssh-agent` holds.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use setpoint_api::review::SIGNATURE_NAMESPACE;

use crate::terminal::inert;

/// What `--sign` is told to take a key from the agent.
const AGENT: &str = "agent";

/// A key to sign with.
#[derive(Debug)]
pub(crate) struct Signer {
    key: PathBuf,
    /// Where the public part of an agent's key is, for as long as it is needed.
    _file: Option<tempfile::NamedTempFile>,
}

impl Signer {
    /// The key of a file, or `agent` for the one that the agent holds. Of several, the first is taken that `listed` names.
    pub(crate) fn of(word: &str, listed: &[String]) -> Result<Signer> {
        if word != AGENT {
            let key = PathBuf::from(word);
            ensure!(key.is_file(), "--sign {}: there is no such file; name a key's file, or `agent`", key.display());
            return Ok(Signer { key, _file: None });
        }
        let output = Command::new("ssh-add").arg("-L").output().context("cannot run ssh-add; is OpenSSH installed?")?;
        let keys = String::from_utf8_lossy(&output.stdout).into_owned();
        let key = chosen(&keys, listed).filter(|_| output.status.success());
        let Some(key) = key else {
            bail!("--sign agent: the agent holds no key; add one with ssh-add, or name a key's file");
        };
        let mut file = tempfile::Builder::new().prefix("setpoint-").suffix(".pub").tempfile()?;
        writeln!(file, "{key}").context("cannot write the agent's public key to a temporary file")?;
        Ok(Signer { key: file.path().to_owned(), _file: Some(file) })
    }

    /// The armored signature over a text.
    pub(crate) fn sign(&self, text: &str) -> Result<String> {
        let mut command = Command::new("ssh-keygen");
        command.args(["-Y", "sign", "-q", "-n", SIGNATURE_NAMESPACE, "-f"]).arg(&self.key);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot run ssh-keygen; is OpenSSH installed?")?;
        let mut input = child.stdin.take().context("ssh-keygen has a standard input")?;
        input.write_all(text.as_bytes()).context("cannot pass the statement to ssh-keygen")?;
        drop(input);
        let output = child.wait_with_output().context("ssh-keygen did not end")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        let why = errors.lines().last().map(inert).unwrap_or_default();
        ensure!(output.status.success(), "ssh-keygen cannot sign with {}: {why}", shown(&self.key));
        String::from_utf8(output.stdout).context("a signature is text")
    }
}

fn shown(path: &Path) -> String {
    inert(&path.display().to_string())
}

/// The first key that is listed by its material, else the first of all.
fn chosen<'k>(keys: &'k str, listed: &[String]) -> Option<&'k str> {
    let material = |key: &str| key.split_ascii_whitespace().nth(1).map(str::to_owned);
    let materials: Vec<String> = listed.iter().filter_map(|key| material(key)).collect();
    let is_listed = |key: &&str| material(key).is_some_and(|material| materials.contains(&material));
    let mut lines = keys.lines().filter(|line| material(line).is_some());
    lines.clone().find(is_listed).or_else(|| lines.next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_agents_keys_the_listed_one_is_taken() {
        let keys = "ssh-ed25519 AAAA one\nssh-ed25519 BBBB two\n";
        let rows: [(&str, &str, &[&str], Option<&str>); 4] = [
            ("listed", keys, &["ssh-ed25519 BBBB another comment"], Some("ssh-ed25519 BBBB two")),
            ("not listed", keys, &["ssh-ed25519 CCCC"], Some("ssh-ed25519 AAAA one")),
            ("nothing is listed", keys, &[], Some("ssh-ed25519 AAAA one")),
            ("no key", "\n", &["ssh-ed25519 AAAA"], None),
        ];
        for (row, keys, listed, expected) in rows {
            let listed: Vec<String> = listed.iter().map(|&key| key.to_owned()).collect();
            assert_eq!(chosen(keys, &listed), expected, "{row}");
        }
    }

    #[test]
    fn what_is_signed_can_be_verified() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let key = folder.path().join("key");
        let keygen = |arguments: &[&str]| Command::new("ssh-keygen").args(arguments).output().expect("ssh-keygen runs");
        let path = key.display().to_string();
        assert!(keygen(&["-q", "-t", "ed25519", "-N", "", "-f", &path]).status.success());
        let signature = Signer::of(&path, &[]).expect("a key").sign("setpoint review v1\n").expect("a signature");
        std::fs::write(folder.path().join("signature"), &signature).expect("writable");
        let checked = Command::new("ssh-keygen")
            .args(["-Y", "check-novalidate", "-n", SIGNATURE_NAMESPACE, "-s"])
            .arg(folder.path().join("signature"))
            .stdin({
                let text = folder.path().join("text");
                std::fs::write(&text, "setpoint review v1\n").expect("writable");
                std::fs::File::open(text).expect("readable")
            })
            .output()
            .expect("ssh-keygen runs");
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        let error = Signer::of(&format!("{path}.none"), &[]).expect_err("no such file").to_string();
        assert!(error.contains("there is no such file"), "{error}");
    }
}
