//! Who asked for what an object says, and when somebody asked to look again.

/// The annotation with the user who last changed an object's spec, or deleted it. The server writes it, and nobody else can.
pub const REQUESTED_BY: &str = "setpoint.dev/requested-by";
/// Who is named where nobody is known to have asked.
pub const UNKNOWN: &str = "system:unknown";
/// The annotation by which somebody asks for a fresh look at an object's guest; any new value will do.
pub const RECONCILE_AT: &str = "setpoint.dev/reconcile-at";
