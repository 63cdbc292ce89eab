//! Who must approve which steps of an environment.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::field::{Errors, Path};
use crate::names;
use crate::rules::{self, Seen};
use crate::step::Class;

const MAX_APPROVALS: u32 = 16;
const MAX_KEYS: usize = 200;
const MAX_ROLES: usize = 16;
const MAX_EXPIRY_SECONDS: u32 = 30 * 24 * 3_600;
const DEFAULT_EXPIRY_SECONDS: u32 = 24 * 3_600;

/// What steps of a class need, in an environment that says nothing of them: a person's consent before something is
/// destroyed, and before nothing else, since whoever wrote the object asked for the rest.
pub const REQUIREMENTS: [(Class, Requirement<'static>); 4] = [
    (Class::Benign, Requirement::of(0)),
    (Class::Disruptive, Requirement::of(0)),
    (Class::Spend, Requirement::of(0)),
    (Class::Destructive, Requirement::of(1)),
];

/// The approval policy of an environment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.rules) || !self.rules.exists(r, has(r.signature) && r.signature) || (has(self.keys) && self.keys.size() > 0)").message("a rule that requires a signature needs keys to check it with"))]
pub struct Approval {
    /// What each class of step needs. A class that is not listed is as by default: a destructive step needs one
    /// approval, the others none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["class".into()]))]
    pub rules: Vec<ApprovalRule>,
    /// The SSH keys that may sign, with who holds them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 200))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["publicKey".into()]))]
    pub keys: Vec<ApproverKey>,
}

/// What one class of step needs before it is taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRule {
    /// The class of step.
    pub class: Class,
    /// How many different people must approve; none, and it is taken at once.
    #[schemars(range(max = 16))]
    pub approvals: u32,
    /// The roles of which an approver's key must have one; any key will do where none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub roles: Vec<String>,
    /// Whether an approval must be signed with one of the keys.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub signature: bool,
    /// Whether who asked for the change may approve it.
    #[serde(default = "default_requester_may_approve")]
    pub requester_may_approve: bool,
    /// How long an approval holds.
    #[serde(default = "default_expiry_seconds")]
    #[schemars(range(min = 60, max = 2_592_000))]
    pub expiry_seconds: u32,
}

/// An SSH key that may sign approvals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApproverKey {
    /// The public key as in an `authorized_keys` file: `ssh-ed25519 AAAA…`.
    #[schemars(length(min = 1, max = 4_096))]
    pub public_key: String,
    /// The user who holds it, as the API server knows them.
    #[schemars(length(min = 1, max = 253))]
    pub principal: String,
    /// What its holder may approve, in the environment's own words, such as `operator`.
    #[schemars(length(min = 1, max = 63))]
    pub role: String,
}

/// What a step needs before it is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requirement<'a> {
    pub approvals: u32,
    /// The roles of which an approver's key must have one; any, where none is named.
    pub roles: &'a [String],
    pub signature: bool,
    pub requester_may_approve: bool,
    pub expiry_seconds: u32,
}

impl Requirement<'static> {
    /// So many approvals by anybody who may review, the requester included: one person with a rack has nobody to ask.
    const fn of(approvals: u32) -> Requirement<'static> {
        Requirement {
            approvals,
            roles: &[],
            signature: false,
            requester_may_approve: true,
            expiry_seconds: DEFAULT_EXPIRY_SECONDS,
        }
    }
}

impl Approval {
    /// What a step of this class needs.
    pub fn requirement(&self, class: Class) -> Requirement<'_> {
        match self.rules.iter().find(|rule| rule.class == class) {
            Some(rule) => Requirement {
                approvals: rule.approvals,
                roles: &rule.roles,
                signature: rule.signature,
                requester_may_approve: rule.requester_may_approve,
                expiry_seconds: rule.expiry_seconds,
            },
            None => REQUIREMENTS
                .iter()
                .find(|(listed, _)| *listed == class)
                .map_or(Requirement::of(1), |(_, requirement)| *requirement),
        }
    }

    pub(super) fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        let keys_path = path.field("keys");
        rules::count(&keys_path, self.keys.len(), MAX_KEYS, errors);
        let mut seen = Seen::default();
        for (index, key) in self.keys.iter().enumerate() {
            key.validate(&keys_path.index(index), &mut seen, errors);
        }
        let rules_path = path.field("rules");
        let mut seen = Seen::default();
        for (index, rule) in self.rules.iter().enumerate() {
            let path = rules_path.index(index);
            seen.check(&path.field("class"), &format!("{:?}", rule.class), errors);
            rule.validate(&path, &self.keys, errors);
        }
    }
}

impl ApprovalRule {
    fn validate(&self, path: &Path<'_>, keys: &[ApproverKey], errors: &mut Errors) {
        if self.approvals > MAX_APPROVALS {
            errors.invalid(&path.field("approvals"), self.approvals, "must be less than or equal to 16");
        }
        if !(60..=MAX_EXPIRY_SECONDS).contains(&self.expiry_seconds) {
            let detail = "must be between 60 and 2592000, inclusive";
            errors.invalid(&path.field("expirySeconds"), self.expiry_seconds, detail);
        }
        if self.signature && keys.is_empty() {
            errors.invalid(&path.field("signature"), true, "needs keys to check a signature with");
        }
        let roles_path = path.field("roles");
        rules::count(&roles_path, self.roles.len(), MAX_ROLES, errors);
        for (index, role) in self.roles.iter().enumerate() {
            if !keys.iter().any(|key| key.role == *role) {
                errors.invalid(&roles_path.index(index), role, "no key has this role");
            }
        }
        if !self.roles.is_empty() && !self.signature {
            errors.invalid(&path.field("signature"), false, "must be true where roles are named: a role is a key's");
        }
        self.validate_quorum(path, keys, errors);
    }

    /// A quorum that nobody can reach would hold the step for ever.
    fn validate_quorum(&self, path: &Path<'_>, keys: &[ApproverKey], errors: &mut Errors) {
        let may_sign = |key: &&ApproverKey| self.roles.is_empty() || self.roles.contains(&key.role);
        let people: std::collections::BTreeSet<&str> =
            keys.iter().filter(may_sign).map(|key| key.principal.as_str()).collect();
        if self.signature && !people.is_empty() && (people.len() as u64) < u64::from(self.approvals) {
            let detail = format!("only {} of the people with keys may approve", people.len());
            errors.invalid(&path.field("approvals"), self.approvals, &detail);
        }
    }
}

/// The types of key that can be checked, and how the material of each begins: with the name of its type.
const KEY_TYPES: &[(&str, &str)] = &[
    ("ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5"),
    ("ssh-rsa", "AAAAB3NzaC1yc2E"),
    ("ecdsa-sha2-nistp256", "AAAAE2VjZHNhLXNoYTItbmlzdHAyNTY"),
    ("ecdsa-sha2-nistp384", "AAAAE2VjZHNhLXNoYTItbmlzdHAzODQ"),
    ("ecdsa-sha2-nistp521", "AAAAE2VjZHNhLXNoYTItbmlzdHA1MjE"),
];
const MIN_MATERIAL: usize = 68;

impl ApproverKey {
    /// The key itself, without its type and comment. Two texts with the same material are the same key.
    pub fn material(&self) -> Option<&str> {
        self.public_key.split_ascii_whitespace().nth(1)
    }

    fn validate(&self, path: &Path<'_>, seen: &mut Seen, errors: &mut Errors) {
        let key_path = path.field("publicKey");
        rules::one_line(&key_path, &self.public_key, 4_096, errors);
        let kind = self.public_key.split_ascii_whitespace().next().unwrap_or_default();
        let is_base64 = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b));
        match (KEY_TYPES.iter().find(|(name, _)| *name == kind), self.material()) {
            (None, _) if self.public_key.contains("PRIVATE KEY") => {
                errors.push(crate::field::Fault::Forbidden, &key_path, || {
                    "Forbidden: this is a private key; make a new pair, and put the public key here".to_owned()
                });
            }
            (None, _) => {
                let supported: Vec<&str> = KEY_TYPES.iter().map(|(name, _)| *name).collect();
                errors.unsupported(&key_path, kind, &supported);
            }
            (Some((_, head)), Some(material))
                if material.starts_with(head) && material.len() >= MIN_MATERIAL && is_base64(material) =>
            {
                seen.check(&key_path, material, errors);
            }
            (Some(_), _) => {
                errors.invalid(&key_path, &self.public_key, "must be a public key such as \"ssh-ed25519 AAAA…\"")
            }
        }
        if self.principal.is_empty() {
            errors.required(&path.field("principal"), "the user who holds the key");
        }
        rules::one_line(&path.field("principal"), &self.principal, 253, errors);
        rules::name(&path.field("role"), &self.role, names::dns1123_label, errors);
    }
}

fn default_requester_may_approve() -> bool {
    true
}

fn default_expiry_seconds() -> u32 {
    DEFAULT_EXPIRY_SECONDS
}
