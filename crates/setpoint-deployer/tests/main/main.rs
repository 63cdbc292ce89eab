//! Proofs with real processes: what somebody on the machine would notice.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed, in its helpers too")]

mod instance;
mod shim;
mod shim_probes;
