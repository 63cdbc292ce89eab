//! Who asked for what an object says, and when somebody asked to look again.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The annotation with the user who last changed what an object asks for: its spec, its being protected, what of its drift
/// is muted, with what it goes, or that it is to go. The server writes it, and nobody else can.
pub const REQUESTED_BY: &str = "setpoint.dev/requested-by";
/// Who is named where it is not known who asked. Anybody may have, so nobody approves where who asked may not.
pub const UNKNOWN: &str = "system:unknown";
/// Who is named for what nobody asked for, but was found: that a guest belongs to nothing. Anybody may approve it.
pub const NOBODY: &str = "system:nobody";
/// The annotation by which somebody asks for a fresh look at an object's guest; any new value will do.
pub const RECONCILE_AT: &str = "setpoint.dev/reconcile-at";

/// Who asked for what an object says, as far as that is known.
pub fn requested_by(metadata: &ObjectMeta) -> &str {
    let annotations = metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(REQUESTED_BY)).map_or(UNKNOWN, String::as_str)
}
