//! What only a deployer understands, as it may be written: it says nothing that another field says, and does nothing else
//! than set a value.

use std::collections::BTreeMap;

use crate::field::{Errors, Path};
use crate::names;
use crate::rules;

/// How many parameters there may be.
const MAX_PARAMETERS: usize = 64;
const MAX_VALUE: usize = 32_768;

/// Parameters that would turn a write into something else: they delete, overwrite or skip a safeguard.
const VERBS: &[&str] =
    &["delete", "destroy-unreferenced-disks", "digest", "force", "purge", "restore", "revert", "skiplock"];

/// Disks by the names that hypervisors give them, followed by a number. To write one is to detach what was there.
const DISKS: &[&str] = &["efidisk", "ide", "mp", "sata", "scsi", "tpmstate", "unused", "virtio"];

/// Everything that is wrong with parameters.
pub(crate) fn validate(path: &Path<'_>, parameters: &BTreeMap<String, String>, errors: &mut Errors) {
    rules::count(path, parameters.len(), MAX_PARAMETERS, errors);
    for (key, value) in parameters {
        let path = path.key(key);
        names::qualified_name(key).iter().for_each(|message| errors.invalid(&path, key, message));
        rules::length(&path, value, MAX_VALUE, errors);
        rules::no_variables(&path, value, errors);
        let name = key.to_lowercase();
        if VERBS.contains(&name.as_str()) {
            errors.forbidden(&path, "it would make a write do more than is shown");
        } else if is_disk(&name) {
            errors.forbidden(&path, "it names a disk: disks are the business of disk and volumes");
        }
    }
}

fn is_disk(name: &str) -> bool {
    let numbered = |disk: &&str| {
        let number = name.strip_prefix(*disk).unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    name == "rootfs" || DISKS.iter().any(numbered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_checked() {
        let verb = "Forbidden: it would make a write do more than is shown";
        let disk = "Forbidden: it names a disk: disks are the business of disk and volumes";
        let variable = "Invalid value: \"${A}\": variables are replaced in command, args and env of a Machine only";
        let rows = [
            ("a plain one", "net0", "bridge=vmbr0", None),
            ("one that only begins like a disk", "scsihw", "virtio-scsi-pci", None),
            ("a variable, which nobody would replace", "cpu", "${A}", Some(variable)),
            ("a verb in disguise", "skiplock", "1", Some(verb)),
            ("in capitals, too", "Force", "1", Some(verb)),
            ("a verb that deletes", "delete", "net0", Some(verb)),
            ("a disk of a container", "rootfs", "local:8", Some(disk)),
            ("a mount of a container", "mp0", "local:8", Some(disk)),
            ("a SCSI disk", "scsi0", "local:8", Some(disk)),
            ("a SCSI disk of two digits", "scsi13", "local:8", Some(disk)),
            ("a VirtIO disk", "VirtIO1", "local:8", Some(disk)),
            ("a SATA disk", "sata0", "local:8", Some(disk)),
            ("an IDE disk", "ide2", "local:8", Some(disk)),
            ("a disk that is not used", "unused0", "local:8", Some(disk)),
            ("an EFI disk", "efidisk0", "local:1", Some(disk)),
            ("a TPM's state", "tpmstate0", "local:1", Some(disk)),
        ];
        for (name, key, value, says) in rows {
            let mut errors = Errors::default();
            validate(&Path::of("parameters"), &BTreeMap::from([(key.to_owned(), value.to_owned())]), &mut errors);
            let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
            let expected: Vec<String> = says.map(|says| format!("parameters[{key}]: {says}")).into_iter().collect();
            assert_eq!(told, expected, "{name}");
        }
    }
}
