//! Signatures as OpenSSH makes them, from files and from an agent.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use setpoint_api::review::{Decision, Review, ReviewSpec};
use tempfile::TempDir;

use super::*;

/// The kinds of key that may be listed, as `ssh-keygen` makes them.
const KEYS: [(&str, &[&str]); 5] = [
    ("ed25519", &["-t", "ed25519"]),
    ("rsa", &["-t", "rsa", "-b", "2048"]),
    ("ecdsa-256", &["-t", "ecdsa", "-b", "256"]),
    ("ecdsa-384", &["-t", "ecdsa", "-b", "384"]),
    ("ecdsa-521", &["-t", "ecdsa", "-b", "521"]),
];

fn run(command: &mut Command) {
    let output = command.output().expect("OpenSSH's tools are installed");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn key(folder: &Path, name: &str, kind: &[&str]) -> PathBuf {
    let path = folder.join(name);
    run(Command::new("ssh-keygen").args(["-q", "-N", "", "-C", "somebody", "-f"]).arg(&path).args(kind));
    path
}

fn material(key: &Path) -> String {
    let public = fs::read_to_string(key.with_extension("pub")).unwrap();
    public.split_whitespace().nth(1).unwrap().to_owned()
}

fn sign(key: &Path, namespace: &str, text: &str, agent: Option<&Path>) -> String {
    let file = key.with_extension("statement");
    fs::write(&file, text).unwrap();
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-Y", "sign", "-n", namespace, "-f"]).arg(key).arg(&file).env_remove("SSH_AUTH_SOCK");
    run(command.envs(agent.map(|socket| ("SSH_AUTH_SOCK", socket))));
    let signature = file.with_extension("statement.sig");
    let armored = fs::read_to_string(&signature).unwrap();
    fs::remove_file(signature).unwrap();
    armored
}

fn review() -> Review {
    let spec = ReviewSpec {
        gate: "web-x2k4f".to_owned(),
        decision: Decision::Approve,
        digests: vec![format!("sha256:{}", "a".repeat(64))],
        reviewer: "alice".to_owned(),
        comment: None,
        expires_at: Some("2026-11-15T13:00:00Z".parse().unwrap()),
        nonce: Some("0123456789abcdef".to_owned()),
        cluster_uid: Some("cluster".to_owned()),
        change_set_uid: Some("change-set".to_owned()),
        signature: None,
    };
    let mut review = Review::new("r", spec);
    review.metadata.namespace = Some("shop".to_owned());
    review
}

fn signed(review: &Review, armored: String) -> Review {
    let mut review = review.clone();
    review.spec.signature = Some(armored);
    review
}

#[test]
fn what_a_key_signed_is_valid_and_says_which_key_it_was() {
    let folder = TempDir::new().unwrap();
    for (name, kind) in KEYS {
        let key = key(folder.path(), name, kind);
        let review = review();
        let armored = sign(&key, SIGNATURE_NAMESPACE, &review.spec.statement("shop"), None);
        let valid = Checked::Valid { material: material(&key) };
        assert_eq!(Checked::of(&signed(&review, armored.clone())), valid, "{name}");
        assert_eq!(Checked::of(&signed(&review, armored.replace('\n', "\r\n"))), valid, "{name}, with other line ends");
    }
}

#[test]
fn whatever_a_review_says_is_signed() {
    type Change = (&'static str, fn(&mut Review));
    let folder = TempDir::new().unwrap();
    let key = key(folder.path(), "id", KEYS[0].1);
    let armored = sign(&key, SIGNATURE_NAMESPACE, &review().spec.statement("shop"), None);
    let changes: [Change; 10] = [
        ("the decision", |review| review.spec.decision = Decision::Reject),
        ("a step", |review| review.spec.digests = vec![format!("sha256:{}", "b".repeat(64))]),
        ("one step more", |review| review.spec.digests.push(format!("sha256:{}", "b".repeat(64)))),
        ("the gate", |review| review.spec.gate = "db".to_owned()),
        ("the namespace", |review| review.metadata.namespace = Some("bank".to_owned())),
        ("the reviewer", |review| review.spec.reviewer = "bob".to_owned()),
        ("the expiry", |review| review.spec.expires_at = Some("2027-01-01T00:00:00Z".parse().unwrap())),
        ("the nonce", |review| review.spec.nonce = Some("fedcba9876543210".to_owned())),
        ("the change set", |review| review.spec.change_set_uid = Some("another".to_owned())),
        ("the cluster", |review| review.spec.cluster_uid = Some("other".to_owned())),
    ];
    for (name, change) in changes {
        let mut review = signed(&review(), armored.clone());
        change(&mut review);
        let found = Checked::of(&review);
        assert!(
            matches!(&found, Checked::Invalid { material: own, .. } if *own == material(&key)),
            "{name}: {found:?}"
        );
    }
    let mut commented = signed(&review(), armored);
    commented.spec.comment = Some("looks good".to_owned());
    assert!(matches!(Checked::of(&commented), Checked::Valid { .. }), "a comment is not part of the verdict");
}

#[test]
fn a_signature_for_another_purpose_or_none_at_all_is_told_apart() {
    let folder = TempDir::new().unwrap();
    let key = key(folder.path(), "id", KEYS[0].1);
    let review = review();
    let for_git = sign(&key, "git", &review.spec.statement("shop"), None);
    let cut: String =
        for_git.lines().take(2).chain(["-----END SSH SIGNATURE-----"]).map(|line| format!("{line}\n")).collect();
    assert_eq!(Checked::of(&review), Checked::Unsigned);
    let other = Checked::OtherNamespace { namespace: "git".to_owned() };
    assert_eq!(Checked::of(&signed(&review, for_git)), other);
    for (name, armored) in [("cut", cut), ("empty", String::new()), ("no armor", "yes, I approve".to_owned())] {
        let found = Checked::of(&signed(&review, armored));
        assert!(matches!(found, Checked::Malformed { .. }), "{name}: {found:?}");
    }
}

/// An agent of its own, which ends with the test.
struct Agent {
    process: Child,
    socket: PathBuf,
}

impl Agent {
    fn start(folder: &Path) -> Agent {
        let socket = folder.join("agent");
        let mut command = Command::new("ssh-agent");
        command.arg("-D").arg("-a").arg(&socket).stdout(Stdio::piped());
        let mut process = command.spawn().expect("OpenSSH's tools are installed");
        // It says where it listens once it does.
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("SSH_AUTH_SOCK"), "{line}");
        Agent { process, socket }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn an_agent_signs_without_the_key_file() {
    let folder = TempDir::new().unwrap();
    let agent = Agent::start(folder.path());
    let key = key(folder.path(), "id", KEYS[0].1);
    run(Command::new("ssh-add").arg("-q").arg(&key).env("SSH_AUTH_SOCK", &agent.socket));
    fs::remove_file(&key).unwrap();
    let review = review();
    let public = key.with_extension("pub");
    let armored = sign(&public, SIGNATURE_NAMESPACE, &review.spec.statement("shop"), Some(&agent.socket));
    assert_eq!(Checked::of(&signed(&review, armored)), Checked::Valid { material: material(&key) });
}

#[test]
fn a_signature_is_checked_once() {
    let folder = TempDir::new().unwrap();
    let key = key(folder.path(), "id", KEYS[0].1);
    let armored = sign(&key, SIGNATURE_NAMESPACE, &review().spec.statement("shop"), None);
    let stored = |uid: &str, armored: &str| {
        let mut review = signed(&review(), armored.to_owned());
        review.metadata.uid = Some(uid.to_owned());
        review
    };
    let signatures = Signatures::default();
    let first = signatures.check(&stored("1", &armored));
    assert!(matches!(*first, Checked::Valid { .. }), "{first:?}");
    assert!(Arc::ptr_eq(&first, &signatures.check(&stored("1", &armored))), "it is remembered");
    let other = signatures.check(&stored("2", "nothing"));
    assert!(matches!(*other, Checked::Malformed { .. }), "another review is another: {other:?}");
    assert_eq!(*signatures.check(&review()), Checked::Unsigned);
}
