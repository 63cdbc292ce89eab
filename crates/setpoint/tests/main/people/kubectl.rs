//! kubectl with the kubeconfig that `setpoint user create` prints.

use std::fs;

use anyhow::{Result, ensure};
use setpoint_testkit::{Kubectl, Server};

use super::{create, printed, user};
use crate::SETPOINT;

#[tokio::test]
async fn kubectl_uses_what_is_printed() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    let kubectl = Kubectl::newest()?;
    for (name, form) in [("jane", None), ("joe", Some("--token"))] {
        let mut arguments = vec![name, "--group", "system:masters"];
        arguments.extend(form);
        let path = server.folder().join(format!("{name}.kubeconfig"));
        fs::write(&path, create(&server, &arguments)?)?;
        let run = |arguments: &[&str]| kubectl.run(&path, server.folder(), arguments);
        let namespaces = printed(run(&["get", "namespaces", "--output", "name"])?)?;
        ensure!(namespaces.contains("namespace/default"), "{namespaces}");

        printed(user(&server, &["revoke", name])?)?;
        let refused = run(&["get", "namespaces"])?;
        let error = String::from_utf8(refused.stderr)?;
        ensure!(!refused.status.success() && error.contains("Unauthorized"), "{error}");
    }
    Ok(())
}
