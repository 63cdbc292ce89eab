//! The deployers of this binary.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use setpoint_deployer::process::ProcessDriver;
use setpoint_deployer::simulated::SimulatedDriver;
use setpoint_deployer::{Driver, Registry};

pub(crate) fn registry() -> Result<Registry> {
    let mut registry = Registry::default();
    let process = ProcessDriver::new().context("cannot find this program's own file")?;
    let drivers: [Arc<dyn Driver>; 2] = [Arc::new(process), Arc::new(SimulatedDriver::default())];
    for driver in drivers {
        registry.register(driver)?;
    }
    Ok(registry)
}
