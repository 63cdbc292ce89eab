//! Two realistic deployers as data: a hypervisor in the manner of Proxmox, and a GPU cloud in the manner of RunPod.

use setpoint_api::price::Price;
use setpoint_api::step::Effect;
use setpoint_core::registry::{Capabilities, Field, Literal, Normalizer, OtherKeys, Unit};
use setpoint_core::value::{Fields, Value};

const MEBIBYTE: i64 = Unit::Mebibytes.size();
const GIBIBYTE: i64 = Unit::Gibibytes.size();

/// Guests have numbers of our choice, configuration of a running guest waits for a restart in part, nothing is billed.
pub const HYPERVISOR: Capabilities = Capabilities {
    deployer: "hypervisor",
    fields: &[
        Field { min: Some(1), max: Some(128), ..Field::new("cores", Effect::InPlace) },
        Field {
            normalizers: &[Normalizer::TrailingNewline, Normalizer::Default(Literal::Text(""))],
            is_prose: true,
            ..Field::new("description", Effect::InPlace)
        },
        Field { unit: Unit::Gibibytes, min: Some(GIBIBYTE), ..Field::new("disk", Effect::Grow) },
        Field { normalizers: &[Normalizer::Case], ..Field::new("hostname", Effect::Restart) },
        Field::new("image", Effect::Replace),
        Field {
            unit: Unit::Mebibytes,
            min: Some(16 * MEBIBYTE),
            max: Some(4096 * GIBIBYTE),
            ..Field::new("memory", Effect::InPlace)
        },
        Field { normalizers: &[Normalizer::Default(Literal::Bool(false))], ..Field::new("onBoot", Effect::InPlace) },
        Field { sensitive: true, ..Field::new("rootPassword", Effect::Unsupported) },
        Field {
            normalizers: &[Normalizer::Order, Normalizer::Default(Literal::EmptyList)],
            ..Field::new("tags", Effect::InPlace)
        },
    ],
    creates: true,
    adopts: true,
    has_run_state: true,
    chooses_ids: true,
    creates_before_delete: false,
    update_restarts: false,
    bills: false,
    settle_seconds: 10,
    running_words: &["running"],
    stopped_words: &["stopped"],
    passing_words: &["starting", "stopping"],
};

/// Ids come from the provider, every update restarts, everything that runs is billed.
pub const GPU_CLOUD: Capabilities = Capabilities {
    deployer: "gpu-cloud",
    fields: &[
        Field {
            other_keys: OtherKeys::Ours { except_prefixes: &["CLOUD_"] },
            normalizers: &[Normalizer::Default(Literal::EmptyMap)],
            ..Field::new("env", Effect::Restart)
        },
        Field { min: Some(1), max: Some(8), ..Field::new("gpuCount", Effect::Replace) },
        Field::new("gpuType", Effect::Replace),
        Field::new("image", Effect::Restart),
        Field {
            normalizers: &[Normalizer::Order, Normalizer::Default(Literal::EmptyList)],
            ..Field::new("ports", Effect::Restart)
        },
        Field { other_keys: OtherKeys::Foreign, ..Field::new("tags", Effect::InPlace) },
        Field {
            unit: Unit::Gibibytes,
            min: Some(GIBIBYTE),
            max: Some(2048 * GIBIBYTE),
            ..Field::new("volume", Effect::Grow)
        },
    ],
    creates: true,
    adopts: true,
    has_run_state: true,
    chooses_ids: false,
    creates_before_delete: true,
    update_restarts: true,
    bills: true,
    settle_seconds: 60,
    running_words: &["RUNNING"],
    stopped_words: &["EXITED", "STOPPED"],
    passing_words: &["CREATED", "RESTARTING"],
};

/// What a guest of the GPU cloud costs per hour: by its GPUs.
pub fn gpu_price(fields: &Fields) -> Price {
    let count = match fields.get("gpuCount") {
        Some(Value::Integer(count)) => *count,
        _ => 1,
    };
    Price::from_micros(340_000i64.saturating_mul(count))
}
