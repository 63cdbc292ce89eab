//! What a token says, and when that holds.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Invalid;
use crate::authentication::Identity;

/// How far a clock may have been set back since a token was made.
const LEEWAY_S: i64 = 60;

/// Everything that a token says, in Kubernetes' words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    #[serde(rename = "aud")]
    pub audiences: Vec<String>,
    #[serde(rename = "exp")]
    pub expires_s: i64,
    #[serde(rename = "iat")]
    pub issued_s: i64,
    #[serde(rename = "iss")]
    pub issuer: String,
    #[serde(rename = "jti")]
    pub id: String,
    #[serde(rename = "kubernetes.io")]
    pub holder: Holder,
    #[serde(rename = "nbf")]
    pub not_before_s: i64,
    #[serde(rename = "sub")]
    pub subject: String,
}

/// The account that a token is for, and the object with which it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Holder {
    pub namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    pub serviceaccount: Reference,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    pub name: String,
    /// "" for a Pod's node that did not exist when the token was made.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

impl Claims {
    /// Those of the wanted audiences that the token is for; it must be for one.
    pub fn audiences_among(&self, wanted: &[String]) -> Result<Vec<String>, Invalid> {
        let common: Vec<String> = self.audiences.iter().filter(|audience| wanted.contains(audience)).cloned().collect();
        if common.is_empty() {
            return Err(Invalid::Audience { found: self.audiences.clone(), wanted: wanted.to_vec() });
        }
        Ok(common)
    }

    /// Whether the token is good at this time.
    pub fn check_time(&self, now: Timestamp) -> Result<(), Invalid> {
        let now_s = now.as_second();
        if now_s >= self.expires_s {
            Err(Invalid::Expired)
        } else if self.not_before_s > now_s.saturating_add(LEEWAY_S) {
            Err(Invalid::NotYetValid)
        } else if self.issued_s > now_s.saturating_add(LEEWAY_S) {
            Err(Invalid::IssuedInFuture)
        } else {
            Ok(())
        }
    }

    /// Who the bearer of the token is.
    pub fn identity(&self) -> Identity {
        let Holder { namespace, node, pod, serviceaccount, .. } = &self.holder;
        let mut identity = Identity::service_account(namespace, &serviceaccount.name);
        identity.uid.clone_from(&serviceaccount.uid);
        let mut tell = |key: &str, value: &str| {
            if !value.is_empty() {
                identity.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]);
            }
        };
        tell("credential-id", &format!("JTI={}", self.id));
        for (kind, reference) in [("pod", pod), ("node", node)] {
            let Some(Reference { name, uid }) = reference else { continue };
            tell(&format!("{kind}-name"), name);
            tell(&format!("{kind}-uid"), uid);
        }
        identity
    }
}
