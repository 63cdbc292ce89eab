//! Two deployers as data, for planning without a provider. They know few fields and no provider's particulars.

use setpoint_api::step::Effect;
use setpoint_core::registry::{Capabilities, Field, Literal, Normalizer, OtherKeys, Unit};

pub const MIB: i64 = 1 << 20;
pub const GIB: i64 = 1 << 30;

/// Guests on a rack: numbered, with a power state, changed in place, disks that only grow.
pub static RACK: Capabilities = Capabilities {
    deployer: "rack",
    fields: &[
        Field {
            normalizers: &[Normalizer::Default(Literal::EmptyList)],
            may_be_secret: true,
            ..Field::new("args", Effect::Restart)
        },
        Field { min: Some(1), max: Some(128), ..Field::new("cores", Effect::InPlace) },
        Field {
            normalizers: &[Normalizer::TrailingNewline, Normalizer::Default(Literal::Text(""))],
            is_prose: true,
            ..Field::new("description", Effect::InPlace)
        },
        Field { unit: Unit::Gibibytes, min: Some(GIB), ..Field::new("disk", Effect::Grow) },
        Field {
            normalizers: &[Normalizer::Default(Literal::EmptyMap)],
            may_be_secret: true,
            ..Field::new("env", Effect::Restart)
        },
        Field { normalizers: &[Normalizer::Case], ..Field::new("hostname", Effect::Restart) },
        Field::new("image", Effect::Replace),
        Field { unit: Unit::Mebibytes, min: Some(16 * MIB), ..Field::new("memory", Effect::InPlace) },
        Field::new("node", Effect::Unsupported),
        Field { normalizers: &[Normalizer::Default(Literal::Bool(false))], ..Field::new("onboot", Effect::InPlace) },
        Field { sensitive: true, ..Field::new("password", Effect::InPlace) },
        Field { normalizers: &[Normalizer::Order], ..Field::new("tags", Effect::InPlace) },
        Field { holds_data: true, unit: Unit::Bytes, ..Field::new("volumes", Effect::InPlace) },
    ],
    creates: true,
    adopts: true,
    has_run_state: true,
    chooses_ids: true,
    creates_before_delete: false,
    update_restarts: false,
    bills: false,
    settle_seconds: 60,
    running_words: &["running"],
    stopped_words: &["stopped"],
    passing_words: &["starting", "stopping"],
};

/// GPU pods by the second: the provider chooses ids, bills, and restarts a pod to change it.
pub static GPU: Capabilities = Capabilities {
    deployer: "gpu-cloud",
    fields: &[
        Field {
            other_keys: OtherKeys::Ours { except_prefixes: &["PROVIDER_"] },
            normalizers: &[Normalizer::Default(Literal::EmptyMap)],
            may_be_secret: true,
            ..Field::new("env", Effect::InPlace)
        },
        Field { min: Some(1), max: Some(8), ..Field::new("gpu.count", Effect::Replace) },
        Field { normalizers: &[Normalizer::Case], ..Field::new("gpu.type", Effect::Replace) },
        Field::new("image", Effect::InPlace),
        Field { normalizers: &[Normalizer::Order], ..Field::new("ports", Effect::InPlace) },
    ],
    chooses_ids: false,
    creates_before_delete: true,
    update_restarts: true,
    bills: true,
    running_words: &["RUNNING"],
    stopped_words: &["EXITED"],
    passing_words: &["PENDING"],
    ..RACK
};
