//! `setpoint crds`: the definitions of our kinds for a Kubernetes cluster, and the admission policies that belong to them.

use std::io::{self, Write as _};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};

/// What a Kubernetes cluster is told in place of the admission that is built into this server.
const POLICIES: &str = include_str!("policies.yaml");

#[derive(Debug, Args)]
pub(crate) struct Crds {
    /// The form to print them in: YAML documents, or one JSON List
    #[arg(short, long, value_enum, default_value_t = Output::Yaml)]
    output: Output,
    /// Print instead the admission policies that do on a Kubernetes cluster what this server does by itself
    #[arg(long)]
    policies: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    Yaml,
    Json,
}

impl Crds {
    pub(crate) fn run(&self) -> Result<()> {
        let text = match (self.output, self.policies) {
            (Output::Yaml, false) => yaml()?,
            (Output::Yaml, true) => POLICIES.to_owned(),
            (Output::Json, false) => list(&setpoint_api::crds::all())?,
            (Output::Json, true) => list(&policies()?)?,
        };
        match io::stdout().lock().write_all(text.as_bytes()) {
            // Whoever reads has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.context("cannot write to standard output"),
        }
    }
}

fn yaml() -> Result<String> {
    let mut text = String::new();
    for crd in setpoint_api::crds::all() {
        text += "---\n";
        text += &serde_saphyr::to_string(&crd).context("cannot write a definition as YAML")?;
    }
    Ok(text)
}

fn policies() -> Result<Vec<Value>> {
    POLICIES.split("---\n").skip(1).map(|text| serde_saphyr::from_str(text).context("a policy is no YAML")).collect()
}

fn list(items: &impl Serialize) -> Result<String> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    Ok(format!("{list:#}\n"))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};

    use super::*;

    #[test]
    fn each_policy_is_one_and_is_bound() {
        let mut policies = policies().expect("YAML").into_iter();
        let mut found = Vec::new();
        while let (Some(policy), Some(binding)) = (policies.next(), policies.next()) {
            let policy: ValidatingAdmissionPolicy = serde_json::from_value(policy).expect("a policy");
            let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(binding).expect("a binding");
            let name = policy.metadata.name.expect("a name");
            assert_eq!(binding.spec.policy_name, name);
            let validations = policy.spec.and_then(|spec| spec.validations).expect("validations");
            assert!(validations.iter().all(|it| it.message.is_some() || it.message_expression.is_some()), "{name}");
            found.push(name);
        }
        assert_eq!(found, ["setpoint-environments", "setpoint-reviews", "setpoint-roles"]);
    }
}
