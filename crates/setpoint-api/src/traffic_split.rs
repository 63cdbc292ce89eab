//! `TrafficSplit`: which revisions of an App get how many basis points.

use jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::field::{Errors, Path};
use crate::names;

/// All traffic, in basis points.
pub const ALL_BPS: u32 = 10_000;
/// How many revisions one split may name.
pub const MAX_ENTRIES: usize = 32;

/// Which revisions of an App get how much of its traffic.
///
/// A split is whole or it is not a split: its weights are exactly 10 000 basis points together. It says what is wanted;
/// its status says what the proxy measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "setpoint.dev",
    version = "v1alpha1",
    kind = "TrafficSplit",
    plural = "trafficsplits",
    shortname = "split",
    category = "setpoint",
    namespaced,
    status = "TrafficSplitStatus",
    derive = "PartialEq",
    doc = "Which revisions of an App get how much of its traffic.",
    printcolumn = r#"{"name":"App","type":"string","jsonPath":".spec.app"}"#,
    printcolumn = r#"{"name":"Split","type":"string","jsonPath":".status.summary"}"#,
    printcolumn = r#"{"name":"Settled","type":"string","jsonPath":".status.conditions[?(@.type=='Settled')].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
pub struct TrafficSplitSpec {
    /// The App whose revisions these are. It never changes.
    #[schemars(
        length(min = 1, max = 253),
        extend("x-kubernetes-validations" = [{ "rule": "self == oldSelf", "message": "field is immutable" }])
    )]
    pub app: String,
    /// The revisions and their weights, 10 000 basis points together. A revision of weight 0 gets no traffic but can be
    /// reached by its preview route.
    #[schemars(
        length(min = 1, max = 32),
        extend(
            "x-kubernetes-list-type" = "map",
            "x-kubernetes-list-map-keys" = ["revision"],
            "x-kubernetes-validations" = [{
                "rule": "self.map(entry, entry.weightBps).sum() == 10000",
                "message": "weights must sum to exactly 10000 basis points",
            }]
        )
    )]
    pub entries: Vec<SplitEntry>,
}

/// One revision and its weight.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SplitEntry {
    /// The name of the Revision.
    #[schemars(length(min = 1, max = 253))]
    pub revision: String,
    /// Its share of the traffic in basis points: 10 000 is all, 1 is one request in ten thousand.
    #[schemars(range(min = 0, max = 10_000))]
    pub weight_bps: u32,
}

/// What became of the split.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TrafficSplitStatus {
    /// The generation that this status was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The split in one line, such as `web-3 9900, web-4 100`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// What the deployer last applied, entry by entry.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["revision"])
    )]
    pub applied: Vec<SplitEntry>,
    /// What the proxy measured, revision by revision.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["revision"])
    )]
    pub achieved: Vec<AchievedWeight>,
    /// Since when the weights are measured: the moment the present split took effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>")]
    pub measured_since: Option<Timestamp>,
    /// What is true of the split: `Settled` once what is applied is what is wanted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// How much of the traffic a revision really got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AchievedWeight {
    /// The name of the Revision.
    pub revision: String,
    /// The share that was measured, in basis points.
    pub weight_bps: u32,
    /// How many requests it was measured over.
    pub requests: u64,
}

impl TrafficSplit {
    /// Everything that is wrong with the split as it is written. Whether the revisions exist, belong to the App and are
    /// ready is known only where revisions are, and is checked there.
    pub fn validate(&self) -> Errors {
        let mut errors = Errors::default();
        let spec = Path::of("spec");
        for message in names::dns1123_subdomain(&self.spec.app) {
            errors.invalid(&spec.field("app"), &self.spec.app, &message);
        }
        validate_entries(&self.spec.entries, &spec.field("entries"), &mut errors);
        errors
    }

    /// What an update may not change.
    pub fn validate_update(&self, old: &TrafficSplit) -> Errors {
        let mut errors = self.validate();
        if self.spec.app != old.spec.app {
            errors.invalid(&Path::of("spec").field("app"), &self.spec.app, "field is immutable");
        }
        errors
    }
}

fn validate_entries(entries: &[SplitEntry], path: &Path<'_>, errors: &mut Errors) {
    if entries.is_empty() {
        errors.required(path, "a split names at least one revision");
        return;
    }
    if entries.len() > MAX_ENTRIES {
        errors.too_many(path, entries.len(), MAX_ENTRIES);
    }
    for (index, entry) in entries.iter().enumerate() {
        let at = path.index(index);
        for message in names::dns1123_subdomain(&entry.revision) {
            errors.invalid(&at.field("revision"), &entry.revision, &message);
        }
        if entries[..index].iter().any(|earlier| earlier.revision == entry.revision) {
            errors.duplicate(&at.field("revision"), &entry.revision);
        }
        if entry.weight_bps > ALL_BPS {
            errors.invalid(&at.field("weightBps"), entry.weight_bps, "must be between 0 and 10000, inclusive");
        }
    }
    let sum: u64 = entries.iter().map(|entry| u64::from(entry.weight_bps)).sum();
    if sum != u64::from(ALL_BPS) {
        errors.invalid(path, sum, "weights must sum to exactly 10000 basis points");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(entries: &[(&str, u32)]) -> TrafficSplit {
        let entry = |&(revision, weight_bps): &(&str, u32)| SplitEntry { revision: revision.to_owned(), weight_bps };
        TrafficSplit::new(
            "web",
            TrafficSplitSpec { app: "web".to_owned(), entries: entries.iter().map(entry).collect() },
        )
    }

    #[test]
    fn splits_are_checked() {
        type Weights = &'static [(&'static str, u32)];
        let rows: [(&str, Weights, &[&str]); 8] = [
            ("all to one", &[("web-1", 10_000)], &[]),
            ("a weight below one per cent", &[("web-1", 9_999), ("web-2", 1)], &[]),
            ("a preview of weight 0", &[("web-1", 10_000), ("web-2", 0)], &[]),
            ("nothing named", &[], &["spec.entries: Required value: a split names at least one revision"]),
            (
                "a sum too small",
                &[("web-1", 9_000)],
                &["spec.entries: Invalid value: 9000: weights must sum to exactly 10000 basis points"],
            ),
            (
                "one revision twice",
                &[("web-1", 5_000), ("web-1", 5_000)],
                &[r#"spec.entries[1].revision: Duplicate value: "web-1""#],
            ),
            (
                "a sum that wraps around in 32 bits",
                &[("web-1", u32::MAX), ("web-2", 10_001)],
                &[
                    "spec.entries[0].weightBps: Invalid value: 4294967295: must be between 0 and 10000, inclusive",
                    "spec.entries[1].weightBps: Invalid value: 10001: must be between 0 and 10000, inclusive",
                    "spec.entries: Invalid value: 4294977296: weights must sum to exactly 10000 basis points",
                ],
            ),
            (
                "all that is wrong is told",
                &[("Web 1", 10_001), ("Web 1", 0)],
                &[
                    r#"spec.entries[0].revision: Invalid value: "Web 1": a lowercase RFC 1123 subdomain"#,
                    "spec.entries[0].weightBps: Invalid value: 10001: must be between 0 and 10000, inclusive",
                    r#"spec.entries[1].revision: Invalid value: "Web 1": a lowercase RFC 1123 subdomain"#,
                    r#"spec.entries[1].revision: Duplicate value: "Web 1""#,
                    "spec.entries: Invalid value: 10001: weights must sum to exactly 10000 basis points",
                ],
            ),
        ];
        for (name, entries, expected) in rows {
            let errors = split(entries).validate();
            let told: Vec<String> = errors
                .iter()
                .map(|error| error.to_string().split(" must consist of").next().unwrap_or_default().to_owned())
                .collect();
            assert_eq!(told, expected, "{name}");
        }
    }

    #[test]
    fn a_split_keeps_its_app() {
        let old = split(&[("web-1", 10_000)]);
        let mut new = old.clone();
        new.spec.app = "shop".to_owned();
        let told: Vec<String> = new.validate_update(&old).iter().map(ToString::to_string).collect();
        assert_eq!(told, [r#"spec.app: Invalid value: "shop": field is immutable"#]);
    }
}
