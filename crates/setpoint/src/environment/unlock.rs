//! `setpoint env unlock`: the way out where nobody is left who could approve looser rules, such as after a lost key.
//!
//! It acts as the administrator of the data directory, and for nobody else. It is on record in the decision log, and told to
//! whom the Environment tells that people are needed.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use setpoint_api::environment::{Environment, PolicyInForce, Unlock as Unlocked};
use setpoint_core::loosens::{Loosened, loosens};
use setpoint_core::stricter::wanted;

use crate::client::configuration;
use crate::data_dir::Location;
use crate::decision_log;
use crate::terminal::{inert, remark};

/// How often a write is tried that meets those of others.
const TRIES: usize = 20;

#[derive(Debug, Args)]
pub(crate) struct Unlock {
    /// The Environment
    name: String,
    /// The data folder of the server that runs [default: setpoint under the user's data home]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl Unlock {
    pub(crate) fn run(&self) -> Result<()> {
        let location = Location::of(self.data_dir.as_deref())?;
        location.check()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let by = format!("uid {}", rustix::process::getuid().as_raw());
        let loosened = runtime.block_on(self.unlock(&location, &by))?;
        decision_log::record(&location.path, "unlock environment", &self.name)?;
        for Loosened { field, from, to, .. } in &loosened {
            let shown = |value: &Option<String>| value.as_deref().map_or("(none)".to_owned(), inert);
            remark(&format!("  {}: {} -> {}", inert(field), shown(from), shown(to)));
        }
        remark(&format!("the rules of {} are in force as they are written, without approvals", inert(&self.name)));
        Ok(())
    }

    /// Puts the rules in force that are written now, and says which became looser by that.
    async fn unlock(&self, location: &Location, by: &str) -> Result<Vec<Loosened>> {
        let kubeconfig = location.path.join("kubeconfig");
        let client = Client::try_from(configuration(Some(&kubeconfig)).await?)?;
        let environments: Api<Environment> = Api::all(client);
        for _ in 0..TRIES {
            let found = environments.get_opt(&self.name).await.context("is the server of this data folder running?")?;
            let Some(mut environment) = found else {
                bail!(
                    "there is no Environment {:?}; `setpoint get environments` shows what there is",
                    inert(&self.name)
                )
            };
            let loosened = self.put_in_force(&mut environment, by)?;
            match environments.replace_status(&self.name, &PostParams::default(), &environment).await {
                Ok(_) => return Ok(loosened),
                // Its controller writes its status, too.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(error).with_context(|| format!("{:?} was not unlocked", inert(&self.name))),
            }
        }
        bail!("{:?} was not unlocked: it was written by others {TRIES} times in a row; say it again", inert(&self.name))
    }

    /// Has an Environment's rules in force be those that are written.
    fn put_in_force(&self, environment: &mut Environment, by: &str) -> Result<Vec<Loosened>> {
        let Some(policy) = environment.status.as_ref().and_then(|status| status.policy.clone()) else {
            bail!("no rules of {:?} are in force yet: its controller has yet to see it", inert(&self.name))
        };
        let wanted = wanted(environment);
        let loosened = loosens(&policy, &wanted.spec, wanted.protected);
        if loosened.is_empty() {
            bail!(
                "nothing of {:?} waits: the rules in force are no stricter than those that are written; write the rules \
                 that you want first, then unlock it",
                inert(&self.name)
            )
        }
        let unlocked = Unlocked { by: by.to_owned(), at: Timestamp::from_second(Timestamp::now().as_second())? };
        let policy = PolicyInForce { was_ready: policy.was_ready, unlocked: Some(unlocked), ..wanted };
        environment.status.get_or_insert_default().policy = Some(policy);
        Ok(loosened)
    }
}
