//! The parts of a guest: GPUs, variables, ports, volumes.

use std::fmt;
use std::str::FromStr;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::rules::BYTES_PATTERN;

/// The GPUs of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.type) || has(self.minVram)").message("a type or minVram must say which GPU"),
    validation = Rule::new("!has(self.fallback) || has(self.type)").message("a fallback needs a type to fall back from")
)]
pub struct Gpu {
    /// The type, in the provider's words; any that has `minVram`, where it is not said.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub type_: Option<String>,
    /// How many.
    #[serde(default = "default_gpu_count")]
    #[schemars(range(min = 1, max = 1_024))]
    pub count: u32,
    /// The least memory that each must have, such as `24Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = BYTES_PATTERN))]
    pub min_vram: Option<String>,
    /// Types that will do if the first cannot be had, best first. The Environment must allow it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub fallback: Vec<String>,
}

/// An environment variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.value) || !has(self.valueFrom)").message("a variable has a value or a valueFrom, not both"))]
pub struct EnvVar {
    /// The name of the variable.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its value. `${NAME}` stands for a key of one of `variablesFrom`, and `$${` for `${`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32_768))]
    pub value: Option<String>,
    /// Where its value comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<EnvVarSource>,
}

/// Where the value of a variable comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.secretKeyRef) != has(self.configMapKeyRef)").message("exactly one of secretKeyRef and configMapKeyRef must be set"))]
pub struct EnvVarSource {
    /// A key of a Secret. The value is sensitive: it is shown nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<KeyReference>,
    /// A key of a ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<KeyReference>,
}

/// One key of a Secret or ConfigMap in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyReference {
    /// The name of the Secret or ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key in it.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// A Secret or ConfigMap in the same namespace whose keys `${NAME}` may stand for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.secret) != has(self.configMap)").message("exactly one of secret and configMap must be set"))]
pub struct VariableSource {
    /// The name of a Secret. What comes from it is sensitive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret: Option<String>,
    /// The name of a ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub config_map: Option<String>,
}

/// A port that a guest offers. It reads `8000/http`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    /// The number of the port.
    #[schemars(range(min = 1, max = 65_535))]
    pub port: u16,
    /// What is spoken on it.
    #[serde(default)]
    pub protocol: PortProtocol,
}

/// What is spoken on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum PortProtocol {
    /// A stream.
    #[default]
    Tcp,
    /// Datagrams.
    Udp,
    /// Requests, which the provider may put a proxy before.
    Http,
}

/// A volume of a guest beside its own disk. None is made that is not asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.size) || has(self.providerId)").message("a volume has a size to be made with, or the providerId of one that exists"))]
pub struct Volume {
    /// The name of the volume within the guest.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// How large it is, such as `50Gi`. A volume can grow, and never shrinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = BYTES_PATTERN))]
    pub size: Option<String>,
    /// A volume that exists, by the provider's id. It is attached, and never made or deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub provider_id: Option<String>,
    /// Where the guest sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1_024))]
    pub mount_path: Option<String>,
    /// Whether it must not be deleted, not even with its guest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub protected: bool,
}

/// Why a text is no port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("must be a port number and what is spoken on it, such as \"8000/http\" or \"22/tcp\"")]
pub struct PortError;

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.port, self.protocol)
    }
}

impl fmt::Display for PortProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PortProtocol::Tcp => "tcp",
            PortProtocol::Udp => "udp",
            PortProtocol::Http => "http",
        })
    }
}

impl FromStr for Port {
    type Err = PortError;

    fn from_str(text: &str) -> Result<Port, PortError> {
        let (number, protocol) = text.split_once('/').ok_or(PortError)?;
        let is_plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let port = number.parse().ok().filter(|port| is_plain && *port > 0).ok_or(PortError)?;
        let protocols = [PortProtocol::Tcp, PortProtocol::Udp, PortProtocol::Http];
        let protocol = protocols.into_iter().find(|known| known.to_string() == protocol).ok_or(PortError)?;
        Ok(Port { port, protocol })
    }
}

fn default_gpu_count() -> u32 {
    1
}
