//! Who asked for what an object says, and when somebody asked to look again.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The annotation with the users who changed what an object asks for, each on a line, since that was last carried out: its
/// spec, its being protected, what of its drift is muted, with what it goes, or that it is to go. The last one is the last.
/// The server writes it, and nobody else can.
pub const REQUESTED_BY: &str = "setpoint.dev/requested-by";
/// Who is named where it is not known who asked. Anybody may have, so nobody approves where who asked may not.
pub const UNKNOWN: &str = "system:unknown";
/// Who is named for what nobody asked for, but was found: that a guest belongs to nothing. Anybody may approve it.
pub const NOBODY: &str = "system:nobody";
/// The annotation by which somebody asks for a fresh look at an object's guest; any new value will do.
pub const RECONCILE_AT: &str = "setpoint.dev/reconcile-at";

/// Who asked last for what an object says, as far as that is known.
pub fn last_requester(metadata: &ObjectMeta) -> &str {
    requested_by(metadata).rsplit('\n').next().unwrap_or(UNKNOWN)
}

/// Who asked for what an object says, each on a line, as far as that is known.
pub fn requested_by(metadata: &ObjectMeta) -> &str {
    let annotations = metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(REQUESTED_BY)).map_or(UNKNOWN, String::as_str)
}
