//! Questions: an object that is created is answered in its status, and nothing is stored.
//!
//! Everything here is pure; `verbs::review` asks the policy and the store.

pub mod access;
pub mod rules;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::authentication::Identity;
use crate::columns;
use crate::kind::{Behaviour, Column};

/// What can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Review {
    /// Who am I?
    SelfSubject,
    /// Whose token is this?
    Token,
    /// May somebody do this in this namespace?
    LocalSubjectAccess,
    /// May I do this?
    SelfSubjectAccess,
    /// What may I do in this namespace?
    SelfSubjectRules,
    /// May somebody do this?
    SubjectAccess,
}

impl Review {
    pub const ALL: [Review; 6] = [
        Review::SelfSubject,
        Review::Token,
        Review::LocalSubjectAccess,
        Review::SelfSubjectAccess,
        Review::SelfSubjectRules,
        Review::SubjectAccess,
    ];

    pub fn group(self) -> &'static str {
        match self {
            Review::SelfSubject | Review::Token => "authentication.k8s.io",
            _ => "authorization.k8s.io",
        }
    }

    pub fn kind(self) -> &'static str {
        match self {
            Review::SelfSubject => "SelfSubjectReview",
            Review::Token => "TokenReview",
            Review::LocalSubjectAccess => "LocalSubjectAccessReview",
            Review::SelfSubjectAccess => "SelfSubjectAccessReview",
            Review::SelfSubjectRules => "SelfSubjectRulesReview",
            Review::SubjectAccess => "SubjectAccessReview",
        }
    }
}

/// Nothing of a review is stored, so nothing but a table needs to know its kind.
impl Behaviour for Review {
    fn columns(&self) -> &[Column] {
        &[columns::NAME, columns::AGE]
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![columns::name_cell(object), columns::age_cell(object, now)]
    }
}

/// An identity as a `UserInfo`.
pub fn user_info(identity: &Identity) -> Value {
    let Identity { user, uid, groups, extra } = identity;
    let mut info = Map::from_iter([("username".to_owned(), json!(user))]);
    if !uid.is_empty() {
        info.insert("uid".to_owned(), json!(uid));
    }
    if !groups.is_empty() {
        info.insert("groups".to_owned(), json!(groups));
    }
    if !extra.is_empty() {
        info.insert("extra".to_owned(), json!(extra));
    }
    Value::Object(info)
}
