//! What a Pod's volumes hold, from wherever it says that comes.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    ConfigMap, DownwardAPIVolumeFile, KeyToPath, Pod, Volume as VolumeSource, VolumeProjection,
};

use super::content::{Volume, VolumeFile};
use super::fields::{self, NodeFacts};
use super::limits::MAX_VOLUME_BYTES;
use super::references::{Found, ReferenceError, TokenNeed};

/// Who may read a file where the Pod does not say.
const DEFAULT_MODE: i32 = 0o644;
/// Who may read a token where the Pod does not say: its owner alone.
const TOKEN_MODE: u32 = 0o600;
/// What a file costs besides its path and its content.
const FILE_OVERHEAD: usize = 256;

/// What a volume could not be made of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("volume {volume:?}: {error}")]
pub struct VolumeError {
    pub volume: String,
    #[source]
    pub error: ReferenceError,
}

/// The content of each of a Pod's volumes by name.
pub fn resolve(pod: &Pod, found: &Found, node: &NodeFacts) -> Result<BTreeMap<String, Volume>, VolumeError> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let mut bytes = 0;
    volumes
        .map(|source| {
            let volume = content(source, pod, found, node, &mut bytes);
            let volume = volume.map_err(|error| VolumeError { volume: source.name.clone(), error })?;
            Ok((source.name.clone(), volume))
        })
        .collect()
}

/// The content of a volume. `bytes` counts those of all volumes of the Pod.
fn content(
    source: &VolumeSource,
    pod: &Pod,
    found: &Found,
    node: &NodeFacts,
    bytes: &mut usize,
) -> Result<Volume, ReferenceError> {
    let mut files = Files { pod, found, node, bytes, files: BTreeMap::new() };
    if source.empty_dir.is_some() {
        return Ok(Volume::Empty);
    } else if let Some(host) = &source.host_path {
        return Ok(Volume::Host { path: host.path.clone() });
    } else if let Some(map) = &source.config_map {
        files.add_config_map(&map.name, map.items.as_deref(), map.optional, map.default_mode)?;
    } else if let Some(secret) = &source.secret {
        let name = secret.secret_name.as_deref().unwrap_or_default();
        files.add_secret(name, secret.items.as_deref(), secret.optional, secret.default_mode)?;
    } else if let Some(downward) = &source.downward_api {
        files.add_fields(downward.items.iter().flatten(), downward.default_mode)?;
    } else if let Some(projected) = &source.projected {
        for part in projected.sources.iter().flatten() {
            files.add_projection(part, projected.default_mode)?;
        }
    } else {
        return Err(unsupported(source));
    }
    Ok(Volume::Files(files.files))
}

/// The files of one volume, as they come together.
struct Files<'a> {
    pod: &'a Pod,
    found: &'a Found,
    node: &'a NodeFacts,
    bytes: &'a mut usize,
    files: BTreeMap<String, VolumeFile>,
}

impl Files<'_> {
    /// Adds a file, which replaces one of the same path.
    fn add(&mut self, path: &str, content: &[u8], mode: u32) -> Result<(), ReferenceError> {
        *self.bytes = self.bytes.saturating_add(path.len() + content.len() + FILE_OVERHEAD);
        if *self.bytes > MAX_VOLUME_BYTES {
            return Err(ReferenceError::Volumes);
        }
        self.files.insert(path.to_owned(), VolumeFile { content: content.to_vec(), mode });
        Ok(())
    }

    fn add_projection(&mut self, part: &VolumeProjection, mode: Option<i32>) -> Result<(), ReferenceError> {
        if let Some(map) = &part.config_map {
            self.add_config_map(&map.name, map.items.as_deref(), map.optional, mode)
        } else if let Some(secret) = &part.secret {
            self.add_secret(&secret.name, secret.items.as_deref(), secret.optional, mode)
        } else if let Some(downward) = &part.downward_api {
            self.add_fields(downward.items.iter().flatten(), mode)
        } else if let Some(token) = &part.service_account_token {
            let need = TokenNeed::new(token.audience.as_deref(), token.expiration_seconds);
            let missing = || ReferenceError::NoToken { audience: need.audience.clone() };
            let content = self.found.tokens.get(&need).ok_or_else(missing)?;
            self.add(&token.path, content.as_bytes(), TOKEN_MODE)
        } else {
            let message = "this source of files is not supported here".to_owned();
            Err(ReferenceError::Field { field: "projected.sources".to_owned(), message })
        }
    }

    fn add_config_map(
        &mut self,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
        mode: Option<i32>,
    ) -> Result<(), ReferenceError> {
        let Some(map) = self.found.config_map(name, optional)? else { return Ok(()) };
        let missing = |namespace, key| ReferenceError::NoConfigMapKey { namespace, name: name.to_owned(), key };
        self.add_items(contents_of(map), items, optional, mode, missing)
    }

    fn add_secret(
        &mut self,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
        mode: Option<i32>,
    ) -> Result<(), ReferenceError> {
        let Some(secret) = self.found.secret(name, optional)? else { return Ok(()) };
        let contents =
            secret.data.iter().flatten().map(|(key, ByteString(content))| (key.as_str(), content.as_slice()));
        let missing = |namespace, key| ReferenceError::NoSecretKey { namespace, name: name.to_owned(), key };
        self.add_items(contents.collect(), items, optional, mode, missing)
    }

    /// All keys as files of their names, or those that are asked for where they are asked for.
    fn add_items(
        &mut self,
        contents: BTreeMap<&str, &[u8]>,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
        mode: Option<i32>,
        missing: impl Fn(String, String) -> ReferenceError,
    ) -> Result<(), ReferenceError> {
        let default = permissions(None, mode);
        let Some(items) = items.filter(|items| !items.is_empty()) else {
            return contents.into_iter().try_for_each(|(key, content)| self.add(key, content, default));
        };
        for item in items {
            match contents.get(item.key.as_str()) {
                Some(content) => self.add(&item.path, content, permissions(item.mode, mode))?,
                None if optional.unwrap_or(false) => {}
                None => {
                    let namespace = self.pod.metadata.namespace.clone().unwrap_or_default();
                    return Err(missing(namespace, item.key.clone()));
                }
            }
        }
        Ok(())
    }

    fn add_fields<'f>(
        &mut self,
        items: impl Iterator<Item = &'f DownwardAPIVolumeFile>,
        mode: Option<i32>,
    ) -> Result<(), ReferenceError> {
        for item in items {
            let value = if let Some(selector) = &item.field_ref {
                fields::field(selector, self.pod, self.node)?
            } else if let Some(selector) = &item.resource_field_ref {
                fields::resource(selector, self.pod, None, self.node)?
            } else {
                continue;
            };
            self.add(&item.path, value.as_bytes(), permissions(item.mode, mode))?;
        }
        Ok(())
    }
}

fn contents_of(map: &ConfigMap) -> BTreeMap<&str, &[u8]> {
    let texts = map.data.iter().flatten().map(|(key, text)| (key.as_str(), text.as_bytes()));
    let bytes = map.binary_data.iter().flatten().map(|(key, ByteString(content))| (key.as_str(), content.as_slice()));
    texts.chain(bytes).collect()
}

fn permissions(own: Option<i32>, default: Option<i32>) -> u32 {
    let mode = own.or(default).unwrap_or(DEFAULT_MODE);
    u32::try_from(mode).unwrap_or_default() & 0o777
}

/// Names the source that a volume has, whatever it is.
fn unsupported(source: &VolumeSource) -> ReferenceError {
    let value = serde_json::to_value(source).unwrap_or_default();
    let field = value.as_object().into_iter().flatten().map(|(key, _)| key).find(|key| *key != "name");
    let message = "this kind of volume is not supported here: use emptyDir, hostPath, configMap, secret, downwardAPI or projected";
    let field = field.map_or("volume", String::as_str).to_owned();
    ReferenceError::Field { field, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::fixtures::{node, object, pod};

    fn found() -> Found {
        let maps = json!({"settings": {"data": {"color": "blue", "size": "7"}, "binaryData": {"icon": "/w=="}}});
        let secrets = json!({"login": {"data": {"password": "aHVudGVyMg=="}}});
        let tokens = BTreeMap::from([(TokenNeed::new(Some("vault"), None), "t0ken".to_owned())]);
        Found { config_maps: object(maps), secrets: object(secrets), tokens }
    }

    fn resolved(mut source: Value) -> Result<String, String> {
        source["name"] = json!("v");
        let pod = pod(json!({"metadata": {"labels": {"app": "web"}}, "spec": {"volumes": [source]}}));
        let volumes = resolve(&pod, &found(), &node()).map_err(|error| error.to_string())?;
        Ok(match &volumes["v"] {
            Volume::Empty => "empty".to_owned(),
            Volume::Host { path } => format!("host {path}"),
            Volume::Files(files) => {
                let file = |(path, file): (&String, &VolumeFile)| {
                    format!("{path}={}({:o})", String::from_utf8_lossy(&file.content), file.mode)
                };
                files.iter().map(file).collect::<Vec<_>>().join(" ")
            }
        })
    }

    #[test]
    fn volumes_hold_what_the_pod_says() {
        let rows = [
            ("nothing", json!({"emptyDir": {}}), "empty"),
            ("a folder of the machine", json!({"hostPath": {"path": "/srv"}}), "host /srv"),
            (
                "all of a ConfigMap, bytes too",
                json!({"configMap": {"name": "settings"}}),
                "color=blue(644) icon=\u{fffd}(644) size=7(644)",
            ),
            (
                "some of it, elsewhere",
                json!({"configMap": {"name": "settings", "items": [{"key": "color", "path": "a/b", "mode": 0o400}, {"key": "size", "path": "s"}], "defaultMode": 0o600}}),
                "a/b=blue(400) s=7(600)",
            ),
            ("what is optional and missing", json!({"configMap": {"name": "no", "optional": true}}), ""),
            (
                "a missing key of what is optional",
                json!({"configMap": {"name": "settings", "optional": true, "items": [{"key": "no", "path": "no"}, {"key": "size", "path": "s"}]}}),
                "s=7(644)",
            ),
            ("a Secret", json!({"secret": {"secretName": "login", "defaultMode": 0o400}}), "password=hunter2(400)"),
            (
                "the Pod's own fields",
                json!({"downwardAPI": {"items": [
                    {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                    {"path": "cpu", "mode": 0o440, "resourceFieldRef": {"containerName": "web", "resource": "limits.cpu"}},
                ]}}),
                "cpu=4(440) labels=app=\"web\"(644)",
            ),
            (
                "several together",
                json!({"projected": {"defaultMode": 0o640, "sources": [
                    {"secret": {"name": "login"}},
                    {"configMap": {"name": "settings", "items": [{"key": "size", "path": "password"}]}},
                    {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                    {"serviceAccountToken": {"path": "token", "audience": "vault"}},
                ]}}),
                "name=web(640) password=7(640) token=t0ken(600)",
            ),
        ];
        for (name, source, expected) in rows {
            assert_eq!(resolved(source).as_deref(), Ok(expected), "{name}");
        }
    }

    #[test]
    fn a_volume_that_cannot_be_made_is_named() {
        let other = "this kind of volume is not supported here: use emptyDir, hostPath, configMap, secret, downwardAPI or projected";
        let rows = [
            ("a ConfigMap", json!({"configMap": {"name": "no"}}), "configmap \"no\" not found".to_owned()),
            ("a Secret", json!({"secret": {"secretName": "no"}}), "secret \"no\" not found".to_owned()),
            (
                "a key",
                json!({"configMap": {"name": "settings", "items": [{"key": "no", "path": "no"}]}}),
                "couldn't find key no in ConfigMap shop/settings".to_owned(),
            ),
            (
                "a token",
                json!({"projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "x"}}]}}),
                "no token for the audience \"x\" of the Pod's service account".to_owned(),
            ),
            ("another kind", json!({"nfs": {"server": "a", "path": "/"}}), format!("nfs: {other}")),
            (
                "a claim",
                json!({"persistentVolumeClaim": {"claimName": "a"}}),
                format!("persistentVolumeClaim: {other}"),
            ),
            ("nothing at all", json!({}), format!("volume: {other}")),
        ];
        for (name, source, expected) in rows {
            assert_eq!(resolved(source), Err(format!("volume \"v\": {expected}")), "{name}");
        }
    }

    #[test]
    fn the_volumes_of_a_pod_hold_so_much_together_and_no_more() {
        let big = "x".repeat(1 << 20);
        let found = Found { config_maps: object(json!({"big": {"data": {"file": big}}})), ..Found::default() };
        let volumes = |count: usize| {
            let volume = |number| json!({"name": format!("v{number}"), "configMap": {"name": "big"}});
            let pod = pod(json!({"spec": {"volumes": (0..count).map(volume).collect::<Vec<_>>()}}));
            resolve(&pod, &found, &node()).map(|volumes| volumes.len()).map_err(|error| error.to_string())
        };
        assert_eq!(volumes(15), Ok(15));
        let error = volumes(1000).unwrap_err();
        assert!(error.starts_with("volume \"v15\": ") && error.contains("16777216 bytes"), "{error}");
    }
}
