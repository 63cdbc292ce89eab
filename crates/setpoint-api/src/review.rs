//! `Review`: one person's verdict on a gate.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::field::{Errors, Path};
use crate::rules::{self, DIGEST_PATTERN, Seen};

/// The namespace of SSH signatures over reviews: `ssh-keygen -Y sign -n setpoint-gate`.
pub const SIGNATURE_NAMESPACE: &str = "setpoint-gate";
/// How many steps one review may be about: as many as a change set holds.
pub const MAX_DIGESTS: usize = 1_000;

const MAX_SIGNATURE: usize = 8_192;
const MAX_COMMENT: usize = 4_096;
const NONCE_PATTERN: &str = "^[A-Za-z0-9_-]{16,128}$";
const SIGNATURE_HEAD: &str = "-----BEGIN SSH SIGNATURE-----";
const SIGNATURE_TAIL: &str = "-----END SSH SIGNATURE-----";
const SPEC: Path<'static> = Path::of("spec");

/// The verdict. It cannot be changed: whoever thinks better of it writes another.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "setpoint.dev",
    version = "v1alpha1",
    kind = "Review",
    namespaced,
    status = "ReviewStatus",
    derive = "PartialEq",
    doc = "One person's verdict on a Gate. It is created once and never changed.",
    shortname = "rvw",
    category = "setpoint",
    selectable = ".spec.gate",
    printcolumn(name = "Gate", type_ = "string", json_path = ".spec.gate"),
    printcolumn(name = "Decision", type_ = "string", json_path = ".spec.decision"),
    printcolumn(name = "Reviewer", type_ = "string", json_path = ".spec.reviewer"),
    printcolumn(
        name = "Accepted",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Accepted")].status"#
    ),
    printcolumn(name = "Reason", type_ = "string", json_path = r#".status.conditions[?(@.type=="Accepted")].reason"#),
    printcolumn(name = "Expires", type_ = "string", json_path = ".spec.expiresAt", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self == oldSelf").message("a review cannot be changed"),
    validation = Rule::new("self.decision == 'Comment' || (has(self.digests) && self.digests.size() > 0)")
        .message("a verdict names the digests of the steps it is about"),
    validation = Rule::new("self.decision != 'Comment' || has(self.comment)").message("a comment needs a text"),
    validation = Rule::new(
        "!has(self.signature) || (has(self.nonce) && has(self.expiresAt) && has(self.clusterUid) && has(self.changeSetUid))"
    )
    .message("a signed review has a nonce, expiresAt, clusterUid and changeSetUid")
)]
pub struct ReviewSpec {
    /// The Gate that it is about, in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub gate: String,
    /// The verdict.
    pub decision: Decision,
    /// The digests of the steps that it is about, exactly these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1_000), inner(regex(pattern = DIGEST_PATTERN)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub digests: Vec<String>,
    /// Who gives it; it must be the user who writes it.
    #[schemars(length(min = 1, max = 253))]
    pub reviewer: String,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4_096))]
    pub comment: Option<String>,
    /// Until when it holds. The environment's policy may end it sooner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    pub expires_at: Option<Timestamp>,
    /// A text that was never used before, so that a signature cannot be used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = NONCE_PATTERN))]
    pub nonce: Option<String>,
    /// The uid of the `kube-system` namespace of the cluster that it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub cluster_uid: Option<String>,
    /// The uid of the ChangeSet whose gate it is, as the Gate's `targetRef` has it: another of the same name is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub change_set_uid: Option<String>,
    /// The armored SSH signature over the review's statement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 8_192))]
    pub signature: Option<String>,
}

/// A verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Decision {
    /// The steps may be taken.
    Approve,
    /// The steps may not be taken.
    Reject,
    /// Neither; something is said.
    Comment,
}

/// What became of a review.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewStatus {
    /// The generation of the spec that this status is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Accepted`: whether it counts, and if not, why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

impl ReviewSpec {
    /// The text that is signed: everything that the verdict depends on, a line each, in this order. Validation keeps
    /// line breaks out of every part, so no two verdicts have the same text.
    pub fn statement(&self, namespace: &str) -> String {
        let expires = self.expires_at.map(|time| time.to_string()).unwrap_or_default();
        let mut lines = vec![
            "setpoint review v1".to_owned(),
            format!("cluster: {}", self.cluster_uid.as_deref().unwrap_or_default()),
            format!("gate: {namespace}/{}", self.gate),
            format!("change set: {}", self.change_set_uid.as_deref().unwrap_or_default()),
            format!("decision: {:?}", self.decision),
            format!("reviewer: {}", self.reviewer),
            format!("expires: {expires}"),
            format!("nonce: {}", self.nonce.as_deref().unwrap_or_default()),
        ];
        lines.extend(self.digests.iter().map(|digest| format!("digest: {digest}")));
        lines.join("\n") + "\n"
    }
}

impl Review {
    /// Everything that is wrong with it.
    pub fn validate(&self) -> Errors {
        let mut errors = Errors::default();
        let spec = &self.spec;
        rules::object_name(&SPEC.field("gate"), &spec.gate, &mut errors);
        let reviewer = SPEC.field("reviewer");
        if spec.reviewer.is_empty() {
            errors.required(&reviewer, "the user who gives the verdict");
        }
        rules::one_line(&reviewer, &spec.reviewer, 253, &mut errors);
        validate_verdict(spec, &mut errors);
        if let Some(nonce) = &spec.nonce {
            validate_nonce(&SPEC.field("nonce"), nonce, &mut errors);
        }
        for (name, uid) in [("clusterUid", &spec.cluster_uid), ("changeSetUid", &spec.change_set_uid)] {
            let (Some(uid), path) = (uid, SPEC.field(name)) else { continue };
            if uid.is_empty() {
                errors.required(&path, "");
            }
            rules::one_line(&path, uid, 64, &mut errors);
        }
        if let Some(signature) = &spec.signature {
            validate_signature(spec, signature, &mut errors);
        }
        errors
    }

    /// Everything that is wrong with it as the successor of `old`.
    pub fn validate_update(&self, old: &Review) -> Errors {
        let mut errors = self.validate();
        if self.spec != old.spec {
            errors.forbidden(&SPEC, "a review cannot be changed");
        }
        errors
    }
}

fn validate_verdict(spec: &ReviewSpec, errors: &mut Errors) {
    let path = SPEC.field("digests");
    rules::count(&path, spec.digests.len(), MAX_DIGESTS, errors);
    let mut seen = Seen::default();
    for (index, digest) in spec.digests.iter().enumerate().take(MAX_DIGESTS) {
        let path = path.index(index);
        rules::digest(&path, digest, errors);
        seen.check(&path, digest, errors);
    }
    if spec.decision != Decision::Comment && spec.digests.is_empty() {
        errors.required(&path, "a verdict names the steps it is about");
    }
    let path = SPEC.field("comment");
    match &spec.comment {
        Some(comment) if comment.is_empty() => errors.required(&path, "leave it out to say nothing"),
        Some(comment) => rules::length(&path, comment, MAX_COMMENT, errors),
        None if spec.decision == Decision::Comment => errors.required(&path, "a comment needs a text"),
        None => {}
    }
}

fn validate_nonce(path: &Path<'_>, nonce: &str, errors: &mut Errors) {
    let is_sound = (16..=128).contains(&nonce.len())
        && nonce.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if !is_sound {
        errors.invalid(path, nonce, "must be 16 to 128 letters, digits, '-' or '_'");
    }
}

fn validate_signature(spec: &ReviewSpec, signature: &str, errors: &mut Errors) {
    let path = SPEC.field("signature");
    rules::length(&path, signature, MAX_SIGNATURE, errors);
    let armored = signature.trim();
    if !armored.starts_with(SIGNATURE_HEAD) || !armored.ends_with(SIGNATURE_TAIL) {
        errors.invalid(&path, "", "must be armored, as `ssh-keygen -Y sign` writes it");
    }
    let bound = [
        ("nonce", spec.nonce.is_some()),
        ("expiresAt", spec.expires_at.is_some()),
        ("clusterUid", spec.cluster_uid.is_some()),
        ("changeSetUid", spec.change_set_uid.is_some()),
    ];
    for (name, _) in bound.iter().filter(|(_, is_set)| !is_set) {
        errors.required(&SPEC.field(name), "a signature binds it");
    }
}
