//! What a Machine must be like.

use super::{EnvVar, EnvVarSource, Gpu, Machine, MachineSpec, VariableSource, Volume, mute};
use crate::field::{Errors, Path};
use crate::names;
use crate::parameters;
use crate::rules::{self, Seen};

const SPEC: Path<'static> = Path::of("spec");
const MAX_LIST: usize = 256;
const MAX_TEXT: usize = 32_768;

/// Variables by which a deployer marks what is ours.
const RESERVED_VARIABLES: &str = "SETPOINT_";

impl Machine {
    /// Everything that is wrong with it.
    pub fn validate(&self) -> Errors {
        let mut errors = Errors::default();
        let name = self.metadata.name.as_deref().unwrap_or_default();
        validate_place(&self.spec, name, &mut errors);
        validate_size(&self.spec, &mut errors);
        validate_content(&self.spec, &mut errors);
        validate_connections(&self.spec, &mut errors);
        if let Some(annotations) = &self.metadata.annotations {
            let metadata = Path::of("metadata");
            let path = metadata.field("annotations");
            for error in mute::muted_fields(annotations).err().unwrap_or_default() {
                let text = annotations.get(mute::MUTE_DRIFT);
                errors.invalid(&path.key(mute::MUTE_DRIFT), text, &error.to_string());
            }
        }
        errors
    }

    /// Everything that is wrong with it as the successor of `old`.
    pub fn validate_update(&self, old: &Machine) -> Errors {
        let mut errors = self.validate();
        if old.spec.provider_id.is_some() && self.spec.provider_id != old.spec.provider_id {
            errors.forbidden(&SPEC.field("providerId"), "cannot be changed once it is set");
        }
        let guest = old.status.as_ref().and_then(|status| status.provider_id.as_ref());
        let insists = self.spec.provider_id.as_ref().filter(|_| old.spec.provider_id.is_none());
        if guest.zip(insists).is_some_and(|(guest, id)| guest != id) {
            let detail = "is of another guest than the one that it has: make another Machine for it";
            errors.forbidden(&SPEC.field("providerId"), detail);
        }
        if self.spec.environment != old.spec.environment {
            let detail = "a Machine cannot be moved to another environment: make another Machine there";
            errors.forbidden(&SPEC.field("environment"), detail);
        }
        errors
    }
}

fn validate_place(spec: &MachineSpec, name: &str, errors: &mut Errors) {
    rules::object_name(&SPEC.field("environment"), &spec.environment, errors);
    if let Some(id) = &spec.provider_id {
        let path = SPEC.field("providerId");
        if id.is_empty() {
            errors.required(&path, "leave it out to insist on no guest");
        }
        rules::one_line(&path, id, 253, errors);
        rules::no_variables(&path, id, errors);
    }
    let path = SPEC.field("dependsOn");
    rules::count(&path, spec.depends_on.len(), 64, errors);
    let mut seen = Seen::default();
    for (index, other) in spec.depends_on.iter().enumerate() {
        let path = path.index(index);
        rules::object_name(&path, other, errors);
        seen.check(&path, other, errors);
        if other == name && !name.is_empty() {
            errors.invalid(&path, other, "must not be the Machine itself");
        }
    }
}

fn validate_size(spec: &MachineSpec, errors: &mut Errors) {
    if let Some(cores) = spec.cores.filter(|cores| !(1..=4_096).contains(cores)) {
        errors.invalid(&SPEC.field("cores"), cores, "must be between 1 and 4096, inclusive");
    }
    for (name, amount) in [("memory", &spec.memory), ("disk", &spec.disk)] {
        if let Some(amount) = amount {
            rules::bytes(&SPEC.field(name), amount, errors);
        }
    }
    if let Some(gpu) = &spec.gpu {
        validate_gpu(&SPEC.field("gpu"), gpu, errors);
    }
}

fn validate_gpu(path: &Path<'_>, gpu: &Gpu, errors: &mut Errors) {
    if !(1..=1_024).contains(&gpu.count) {
        errors.invalid(&path.field("count"), gpu.count, "must be between 1 and 1024, inclusive");
    }
    if gpu.type_.is_none() && gpu.min_vram.is_none() {
        errors.required(&path.field("type"), "a type or minVram must say which GPU");
    }
    if let Some(least) = &gpu.min_vram {
        rules::bytes(&path.field("minVram"), least, errors);
    }
    let fallback = path.field("fallback");
    rules::count(&fallback, gpu.fallback.len(), 16, errors);
    if gpu.type_.is_none() && !gpu.fallback.is_empty() {
        errors.forbidden(&fallback, "there is no type to fall back from");
    }
    let types = gpu.type_.iter().map(|first| (path.field("type"), first));
    let others = gpu.fallback.iter().enumerate().map(|(index, other)| (fallback.index(index), other));
    let mut seen = Seen::default();
    for (path, type_) in types.chain(others) {
        if type_.is_empty() {
            errors.required(&path, "");
        }
        rules::one_line(&path, type_, 253, errors);
        rules::no_variables(&path, type_, errors);
        seen.check(&path, type_, errors);
    }
}

fn validate_content(spec: &MachineSpec, errors: &mut Errors) {
    if let Some(image) = &spec.image {
        let path = SPEC.field("image");
        if image.is_empty() {
            errors.required(&path, "leave it out not to manage it");
        }
        rules::one_line(&path, image, 1_024, errors);
        rules::no_variables(&path, image, errors);
    }
    for (name, words) in [("command", &spec.command), ("args", &spec.args)] {
        let path = SPEC.field(name);
        let words = words.as_deref().unwrap_or_default();
        rules::count(&path, words.len(), MAX_LIST, errors);
        for (index, word) in words.iter().enumerate() {
            rules::length(&path.index(index), word, MAX_TEXT, errors);
        }
    }
    validate_env(&SPEC.field("env"), spec.env.as_deref().unwrap_or_default(), errors);
    let path = SPEC.field("variablesFrom");
    rules::count(&path, spec.variables_from.len(), 16, errors);
    for (index, source) in spec.variables_from.iter().enumerate() {
        validate_variable_source(&path.index(index), source, errors);
    }
    if let Some(description) = &spec.description {
        let path = SPEC.field("description");
        rules::length(&path, description, 8_192, errors);
        rules::no_variables(&path, description, errors);
    }
    parameters::validate(&SPEC.field("parameters"), &spec.parameters, errors);
}

fn validate_env(path: &Path<'_>, env: &[EnvVar], errors: &mut Errors) {
    rules::count(path, env.len(), MAX_LIST, errors);
    let mut seen = Seen::default();
    for (index, variable) in env.iter().enumerate() {
        let path = path.index(index);
        rules::name(&path.field("name"), &variable.name, names::relaxed_env_var_name, errors);
        rules::length(&path.field("name"), &variable.name, 253, errors);
        rules::no_variables(&path.field("name"), &variable.name, errors);
        seen.check(&path.field("name"), &variable.name, errors);
        if variable.name.starts_with(RESERVED_VARIABLES) {
            errors.forbidden(&path.field("name"), "variables that begin with SETPOINT_ mark what is ours");
        }
        rules::length(&path.field("value"), variable.value.as_deref().unwrap_or_default(), MAX_TEXT, errors);
        if variable.value.is_some() && variable.value_from.is_some() {
            errors.forbidden(&path.field("valueFrom"), "may not be specified when `value` is not empty");
        }
        if let Some(source) = &variable.value_from {
            validate_env_source(&path.field("valueFrom"), source, errors);
        }
    }
}

fn validate_env_source(path: &Path<'_>, source: &EnvVarSource, errors: &mut Errors) {
    let references = [("secretKeyRef", &source.secret_key_ref), ("configMapKeyRef", &source.config_map_key_ref)];
    exactly_one(path, references.iter().filter(|(_, reference)| reference.is_some()).count(), errors);
    for (name, reference) in references {
        let Some(reference) = reference else { continue };
        let path = path.field(name);
        rules::object_name(&path.field("name"), &reference.name, errors);
        rules::name(&path.field("key"), &reference.key, names::config_map_key, errors);
    }
}

fn validate_variable_source(path: &Path<'_>, source: &VariableSource, errors: &mut Errors) {
    let names = [("secret", &source.secret), ("configMap", &source.config_map)];
    exactly_one(path, names.iter().filter(|(_, name)| name.is_some()).count(), errors);
    for (field, name) in names {
        if let Some(name) = name {
            rules::object_name(&path.field(field), name, errors);
        }
    }
}

fn exactly_one(path: &Path<'_>, given: usize, errors: &mut Errors) {
    match given {
        0 => errors.required(path, "must say where the value comes from"),
        1 => {}
        _ => errors.forbidden(path, "may not have more than one source"),
    }
}

fn validate_connections(spec: &MachineSpec, errors: &mut Errors) {
    let path = SPEC.field("ports");
    let ports = spec.ports.as_deref().unwrap_or_default();
    rules::count(&path, ports.len(), 64, errors);
    let mut seen = Seen::default();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        names::port_number(port.port.into())
            .iter()
            .for_each(|message| errors.invalid(&path.field("port"), port.port, message));
        seen.check(&path, &port.to_string(), errors);
    }
    let path = SPEC.field("volumes");
    let volumes = spec.volumes.as_deref().unwrap_or_default();
    rules::count(&path, volumes.len(), 32, errors);
    let (mut names, mut mounts) = (Seen::default(), Seen::default());
    for (index, volume) in volumes.iter().enumerate() {
        let path = path.index(index);
        names.check(&path.field("name"), &volume.name, errors);
        if let Some(mount) = &volume.mount_path {
            mounts.check(&path.field("mountPath"), mount, errors);
        }
        validate_volume(&path, volume, errors);
    }
}

fn validate_volume(path: &Path<'_>, volume: &Volume, errors: &mut Errors) {
    rules::name(&path.field("name"), &volume.name, names::dns1123_label, errors);
    match &volume.size {
        Some(size) => rules::bytes(&path.field("size"), size, errors),
        None if volume.provider_id.is_none() => {
            errors.required(&path.field("size"), "or the providerId of a volume that exists");
        }
        None => {}
    }
    if let Some(id) = &volume.provider_id {
        let path = path.field("providerId");
        if id.is_empty() {
            errors.required(&path, "leave it out to have a volume made");
        }
        rules::one_line(&path, id, 253, errors);
        rules::no_variables(&path, id, errors);
    }
    if let Some(mount) = &volume.mount_path {
        let path = path.field("mountPath");
        rules::one_line(&path, mount, 1_024, errors);
        rules::no_variables(&path, mount, errors);
        if !mount.starts_with('/') || mount.split('/').any(|part| part == "..") {
            errors.invalid(&path, mount, "must be an absolute path without '..'");
        }
    }
}
