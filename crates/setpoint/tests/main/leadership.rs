//! Controllers in processes of their own: one acts, and another when that one is gone.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::{Request, StatusCode};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use setpoint_apiserver::authorization::MASTERS;
use setpoint_apiserver::fairness::Limits;
use setpoint_apiserver::{Identity, Issuer, Setup, Surroundings, Users};
use setpoint_controllers::runtime::{Clock, Election, Fence};
use setpoint_store::{MemoryStore, Options};
use setpoint_testkit::{Server, wait_for};

use crate::SETPOINT;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/setpoint-controllers";
/// Generous: other tests run meanwhile.
const DEADLINE: Duration = Duration::from_secs(60);

/// A process that is killed when this is dropped.
struct Controllers(Child);

impl Controllers {
    fn start(server: &Server, identity: &str) -> Result<Controllers> {
        let mut command = Command::new(SETPOINT);
        command.args(["serve", "controllers", "--identity", identity, "--metrics", "127.0.0.1:0", "--kubeconfig"]);
        let command = command.arg(server.kubeconfig_path()).stdin(Stdio::null()).stderr(Stdio::null());
        Ok(Controllers(command.spawn()?))
    }

    fn end(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        self.end();
    }
}

async fn lease(server: &Server) -> Result<Option<LeaseSpec>> {
    let answer = server.client()?.get(LEASE).await?;
    if answer.status == StatusCode::NOT_FOUND {
        return Ok(None);
    }
    let lease: Lease = serde_json::from_value(answer.success()?)?;
    Ok(lease.spec)
}

async fn holder_is(server: &Server, holder: &str) -> Result<LeaseSpec> {
    let held = |spec: &LeaseSpec| spec.holder_identity.as_deref() == Some(holder);
    wait_for(format!("{holder} to lead"), DEADLINE, || async { Ok(lease(server).await?.filter(held)) }).await
}

#[tokio::test]
async fn another_takes_over_from_one_that_was_killed_and_at_once_from_one_that_stopped() -> Result<()> {
    let mut server = Server::start_with(SETPOINT, &["--no-controllers"]).await?;
    let mut first = Controllers::start(&server, "first")?;
    let before = holder_is(&server, "first").await?;
    let second = Controllers::start(&server, "second")?;
    // It has seen the first one renew, and does not act.
    let renewed = wait_for("a renewal", DEADLINE, || async {
        Ok(lease(&server).await?.filter(|spec| spec.renew_time > before.renew_time))
    });
    ensure!(renewed.await?.holder_identity.as_deref() == Some("first"));

    first.end();
    let killed = Instant::now();
    let after = holder_is(&server, "second").await?;
    println!("another led {:?} after the leader was killed", killed.elapsed());
    ensure!(after.lease_transitions > before.lease_transitions, "each leadership has an epoch of its own");
    let renewed = wait_for("it to go on", DEADLINE, || async {
        Ok(lease(&server).await?.filter(|spec| spec.renew_time > after.renew_time))
    });
    ensure!(renewed.await?.holder_identity.as_deref() == Some("second"));

    let third = Controllers::start(&server, "third")?;
    rustix::process::kill_process(rustix::process::Pid::from_child(&second.0), rustix::process::Signal::TERM)?;
    holder_is(&server, "third").await?;
    drop(third);
    server.terminate().await?;
    Ok(())
}

#[tokio::test]
async fn a_server_that_was_killed_acts_at_once_when_it_is_back() -> Result<()> {
    let mut server = Server::start(SETPOINT).await?;
    let led = wait_for("its controllers to lead", DEADLINE, || lease(&server)).await?;
    server.restart().await?;
    let again = wait_for("them to lead again", DEADLINE, || async {
        Ok(lease(&server).await?.filter(|spec| spec.lease_transitions > led.lease_transitions))
    });
    ensure!(again.await?.holder_identity == led.holder_identity, "under the same name");
    let metrics = server.client()?.get("/metrics").await?;
    ensure!(String::from_utf8_lossy(&metrics.body).contains("setpoint_controller_leading 1"), "and it is counted");
    Ok(())
}

#[tokio::test]
async fn one_that_slept_while_another_took_over_writes_nothing() -> Result<()> {
    let issuer = Issuer::new("https://kubernetes.default.svc", [Issuer::new_key()])?;
    let (users, surroundings) = (Users::new(Vec::new()), Surroundings::default());
    let setup = Setup { users, issuer, limits: Limits::default(), audit: None, surroundings };
    let server = setpoint_apiserver::Server::open(Arc::new(MemoryStore::new(Options::default())), setup).await;
    let server = server.map_err(|failure| anyhow::anyhow!("{failure:?}"))?;
    let admin = Client::new(server.acting_as(Identity::new("admin", [MASTERS])), "default");
    let map = |name: &str| -> Result<ConfigMap> { Ok(serde_json::from_value(json!({"metadata": {"name": name}}))?) };
    let maps = |client: Client| Api::<ConfigMap>::namespaced(client, "default");
    let parameters = PostParams::default();

    let (first_fence, second_fence) = (Fence::default(), Fence::default());
    let first_client = first_fence.guard(&admin);
    let refused = maps(first_client.clone()).create(&parameters, &map("early")?).await;
    ensure!(refused.is_err(), "it does not lead yet");
    let mut first = Election::new(admin.clone(), "first", Clock::System, first_fence.clone())?;
    first.won().await;
    maps(first_client.clone()).create(&parameters, &map("first")?).await?;

    // From here on the first one sleeps: nobody renews for it.
    let mut second = Election::new(admin.clone(), "second", Clock::System, second_fence.clone())?;
    tokio::time::timeout(DEADLINE, second.won()).await.context("nobody else led")?;
    maps(second_fence.guard(&admin)).create(&parameters, &map("second")?).await?;
    let late = maps(first_client).create(&parameters, &map("late")?).await;
    ensure!(late.is_err_and(|error| error.to_string().contains("does not lead")), "its own clock tells it");
    ensure!(!first_fence.is_open() && second_fence.is_open());

    // Were its clock to stand still with it, the server would tell it.
    for (name, stated, expected) in [
        ("an earlier leadership", "kube-system/setpoint-controllers/0/first", 412),
        ("the right epoch of somebody else", "kube-system/setpoint-controllers/1/first", 412),
        ("a Lease that is not there", "kube-system/other/1/second", 412),
        ("nonsense", "second", 400),
        ("the present one", "kube-system/setpoint-controllers/1/second", 201),
    ] {
        let body = serde_json::to_vec(&json!({"metadata": {"generateName": "late-"}}))?;
        let request = Request::post("/api/v1/namespaces/default/configmaps").header("setpoint-fence", stated);
        let request = request.header("content-type", "application/json").body(body)?;
        let code = match admin.request::<Value>(request).await {
            Ok(_) => 201,
            Err(kube::Error::Api(status)) => status.code,
            Err(error) => return Err(error.into()),
        };
        ensure!(code == expected, "{name}: {code}");
    }
    second.leave().await;
    tokio::time::timeout(DEADLINE, first.lost()).await.context("it did not notice")?;
    tokio::time::timeout(DEADLINE, first.won()).await.context("it was not elected again")?;
    Ok(())
}
