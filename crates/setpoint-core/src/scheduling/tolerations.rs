//! What keeps Pods from a node, and which Pods put up with it.

use k8s_openapi::api::core::v1::{PodSpec, Taint, Toleration};

pub const NO_SCHEDULE: &str = "NoSchedule";
pub const NO_EXECUTE: &str = "NoExecute";
pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";

/// The first taint that keeps a Pod from being put there.
pub fn untolerated<'t>(spec: &PodSpec, taints: &'t [Taint]) -> Option<&'t Taint> {
    let mut binding = taints.iter().filter(|taint| matches!(taint.effect.as_str(), NO_SCHEDULE | NO_EXECUTE));
    binding.find(|taint| !is_tolerated(spec, taint))
}

/// How many taints speak against a Pod being put there, though it may be.
pub fn deterrents(spec: &PodSpec, taints: &[Taint]) -> usize {
    taints.iter().filter(|taint| taint.effect == PREFER_NO_SCHEDULE && !is_tolerated(spec, taint)).count()
}

pub fn is_tolerated(spec: &PodSpec, taint: &Taint) -> bool {
    spec.tolerations.iter().flatten().any(|toleration| tolerates(toleration, taint))
}

pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let set = |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(str::to_owned);
    let fits_effect = set(&toleration.effect).is_none_or(|effect| effect == taint.effect);
    let fits_key = set(&toleration.key).is_none_or(|key| key == taint.key);
    let fits_value = match toleration.operator.as_deref() {
        Some("Exists") => true,
        None | Some("" | "Equal") => {
            toleration.key.is_some()
                && toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default()
        }
        Some(_) => false,
    };
    fits_effect && fits_key && fits_value
}
