//! The files of running Pods' volumes follow what they are made of.
//!
//! As on a kubelet this is a slow look, at those Pods alone that mount a ConfigMap or a Secret, or have a token: a change
//! shows within a minute and a half, and most Pods are never looked at.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use setpoint_core::pod::{Needs, TokenNeed};
use setpoint_deployer::provider::{Body, Order, Volume, VolumeFile};
use tokio::time::Instant;

/// How often a Pod's volumes are looked at.
pub(super) const LOOK: Duration = Duration::from_secs(80);

/// What a Pod was given when that was last looked at. Of the content only a hash is kept, for this process alone.
#[derive(Clone)]
pub(super) struct Given {
    looked: Instant,
    content: u64,
    tokens: BTreeMap<TokenNeed, (String, Instant)>,
}

impl std::fmt::Debug for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Given").field("tokens", &self.tokens.keys()).finish_non_exhaustive()
    }
}

impl Given {
    pub(super) fn new(order: &Order, tokens: BTreeMap<TokenNeed, String>, before: Option<&Given>) -> Given {
        let since = |need: &TokenNeed, token: &String| {
            let before = before.and_then(|before| before.tokens.get(need)).filter(|(known, _)| known == token);
            before.map_or_else(Instant::now, |(_, since)| *since)
        };
        let aged = |(need, token): (TokenNeed, String)| {
            let since = since(&need, &token);
            (need, (token, since))
        };
        Given { looked: Instant::now(), content: content(order), tokens: tokens.into_iter().map(aged).collect() }
    }

    /// Whether the files are other ones than those of `before`.
    pub(super) fn differs(&self, before: &Given) -> bool {
        self.content != before.content
    }

    /// The tokens that are still good for a while: less than four fifths of their life is over.
    pub(super) fn fresh_tokens(&self) -> BTreeMap<TokenNeed, String> {
        let is_fresh = |need: &TokenNeed, since: Instant| {
            let life = Duration::from_secs(u64::try_from(need.expiration_seconds).unwrap_or_default());
            since.elapsed() < life.mul_f64(0.8).saturating_sub(LOOK)
        };
        let fresh = self.tokens.iter().filter(|(need, (_, since))| is_fresh(need, *since));
        fresh.map(|(need, (token, _))| (need.clone(), token.clone())).collect()
    }

    /// The same, looked at now.
    pub(super) fn looked_at(&self) -> Given {
        Given { looked: Instant::now(), ..self.clone() }
    }
}

/// When to look at a running Pod's volumes; `None` if never. Where nobody remembers when that was last done, it is due.
pub(super) fn due(pod: &Pod, last: Option<&Given>) -> Option<Duration> {
    if Needs::of_volumes(pod).is_empty() {
        return None;
    }
    Some(last.map_or(Duration::ZERO, |last| LOOK.saturating_sub(last.looked.elapsed())))
}

fn content(order: &Order) -> u64 {
    let mut hasher = DefaultHasher::new();
    if let Body::Pod(pod) = &order.body {
        for (name, volume) in &pod.volumes {
            name.hash(&mut hasher);
            let files = if let Volume::Files(files) = volume { files.iter().collect() } else { Vec::new() };
            files.len().hash(&mut hasher);
            for (path, VolumeFile { content, mode }) in files {
                (path, content, mode).hash(&mut hasher);
            }
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn order(content: &str) -> Order {
        let pod = json!({
            "namespace": "shop", "name": "web", "uid": "u", "spec": {"containers": []}, "variables": {},
            "volumes": {"v": {"files": {"a": {"content": content.as_bytes(), "mode": 420}}}},
        });
        let mark = setpoint_core::observation::Mark {
            cluster: "c".into(),
            owner_uid: "u".into(),
            intent: Some("u".into()),
            spec_digest: None,
        };
        Order {
            mark,
            name: "web".to_owned(),
            provider_id: None,
            body: Body::Pod(Box::new(serde_json::from_value(pod).unwrap())),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_pods_with_files_from_elsewhere_are_looked_at_and_slowly() {
        let plain: Pod =
            serde_json::from_value(json!({"spec": {"containers": [], "volumes": [{"name": "v", "emptyDir": {}}]}}))
                .unwrap();
        let mounts: Pod = serde_json::from_value(
            json!({"spec": {"containers": [], "volumes": [{"name": "v", "configMap": {"name": "m"}}]}}),
        )
        .unwrap();
        assert_eq!(due(&plain, None), None);
        assert_eq!(due(&mounts, None), Some(Duration::ZERO), "nobody remembers");
        let given = Given::new(&order("a"), BTreeMap::new(), None);
        assert_eq!(due(&mounts, Some(&given)), Some(LOOK));
        tokio::time::advance(LOOK).await;
        assert_eq!(due(&mounts, Some(&given)), Some(Duration::ZERO));
        assert_eq!(due(&mounts, Some(&given.looked_at())), Some(LOOK));
        assert!(Given::new(&order("b"), BTreeMap::new(), Some(&given)).differs(&given));
        assert!(!Given::new(&order("a"), BTreeMap::new(), Some(&given)).differs(&given));
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_replaced_before_it_ends() {
        let tokens = BTreeMap::from([(TokenNeed::new(None, Some(1000)), "t".to_owned())]);
        let mut given = Given::new(&order("a"), tokens.clone(), None);
        let mut seconds = 0;
        while given.fresh_tokens() == tokens {
            tokio::time::advance(LOOK).await;
            seconds += LOOK.as_secs();
            given = Given::new(&order("a"), tokens.clone(), Some(&given));
        }
        assert!((500..800).contains(&seconds), "after {seconds} s of 1000");
    }
}
