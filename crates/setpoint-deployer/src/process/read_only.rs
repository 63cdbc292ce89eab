//! `readOnlyRootFilesystem`: a container's processes write nowhere but in its volumes, by Landlock.
//!
//! A process has the machine's file system, so that is what becomes read-only. What stays writable is what a container can
//! write to on Kubernetes as well: volumes that are not mounted read-only, devices, `/proc`, and the termination message.

use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, VolumeMount};
use landlock::{
    ABI, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, path_beneath_rules,
};

use super::order::InstanceOrder;
use super::termination_log;
use crate::provider::Volume;

/// The folders of the machine that every container can write to, as far as its user may.
const ALWAYS: [&str; 2] = ["/dev", "/proc"];

/// Where a container can still write. Files of ConfigMaps, Secrets and the like are never its own to change.
pub(super) fn writable(order: &InstanceOrder, folder: &Path, container: &Container) -> Vec<PathBuf> {
    let is_writable = |mount: &&VolumeMount| {
        let has_files = matches!(order.pod.volumes.get(&mount.name), Some(Volume::Files(_)));
        mount.read_only != Some(true) && !has_files
    };
    let mounts = container.volume_mounts.iter().flatten().filter(is_writable);
    let place = |name: &str, part: Option<&String>| {
        let volume = folder.join("volumes").join(name);
        part.filter(|part| !part.is_empty()).map_or(volume.clone(), |part| volume.join(part))
    };
    let volumes = mounts.map(|mount| place(&mount.name, mount.sub_path.as_ref()));
    let always = ALWAYS.iter().map(PathBuf::from);
    volumes.chain(always).chain([termination_log::file(folder, &container.name)]).collect()
}

/// Has the kernel refuse to write anywhere else to this process and to all that come of it, for good. It gains no new
/// privileges from then on. An older kernel that cannot refuse all kinds of writing refuses those that it can; one without
/// Landlock is an error.
pub(super) fn restrict(writable: &[PathBuf]) -> Result<(), RulesetError> {
    let later = AccessFs::Refer | AccessFs::Truncate;
    let there = writable.iter().filter(|path| fs::metadata(path).is_ok());
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(ABI::V1))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(later)?
        .create()?
        .add_rules(path_beneath_rules(there, AccessFs::from_write(ABI::V3)))?
        .restrict_self()?;
    Ok(())
}
