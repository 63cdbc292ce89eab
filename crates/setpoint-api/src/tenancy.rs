//! Who may do what with an Environment: verbs on `environments.setpoint.dev` by name, given by roles and bindings.

/// To write Machines and Apps that are in the Environment, and for a ServiceAccount to have its Pods run there.
pub const USE: &str = "use";
/// To name a guest or a volume that is there already, by its `providerId`.
pub const ADOPT: &str = "adopt";
/// To give Reviews that count for steps in the Environment.
pub const APPROVE: &str = "approve";
/// All of them.
pub const VERBS: [&str; 3] = [USE, ADOPT, APPROVE];

/// The Environment of this machine, which nobody declares. ServiceAccounts and the role `edit` may use it.
pub const LOCAL: &str = "local";
/// The label of a Node that names its Environment.
pub const NODE_LABEL: &str = "setpoint.dev/environment";
