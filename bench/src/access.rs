//! What it costs to find out whether somebody may: the same gets by one whom no rule concerns, and by one whose rights
//! have to be looked up.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use setpoint_testkit::{Client, Kubeconfig};

use crate::arguments::Arguments;
use crate::latency::Latencies;
use crate::load::{self, Until};
use crate::object;
use crate::report::{Peer, Report, Row, Target};
use crate::subject::{Api, Subject};

const BINDINGS: usize = 1_000;
const OBJECTS: u64 = 1_000;
/// How much a request may take longer because its sender's rights are looked up.
const LIMIT_MICROSECONDS: f64 = 10.0;

/// Whose the bindings are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    /// Each has one; the one who asks too.
    Many,
    /// All are of the one who asks, and only the last looked at allows what is asked.
    One,
}

pub(crate) async fn measure(subject: &Subject, arguments: &Arguments, report: &mut Report) -> Result<()> {
    let Subject::Program(program) = subject else { return Ok(()) };
    for (holder, what) in [(Holder::Many, "one of 1 000 bindings is the asker's"), (Holder::One, "all 1 000 are")] {
        let api = subject.start().await?;
        let server = api.server.as_ref().context("a program is started")?;
        let user = Command::new(program)
            .args(["user", "create", "asker", "--token", "--data-dir"])
            .arg(server.data_dir())
            .output()?;
        ensure!(user.status.success(), "no user: {}", String::from_utf8_lossy(&user.stderr));
        let user = Kubeconfig::parse(&String::from_utf8(user.stdout)?, server.folder())?;
        bind(&api, holder).await?;
        load::run(api.creators(16).await?, 0, Until::Count(OBJECTS)).await?;
        let (master, asker) = compare(&api, &user, arguments).await?;
        report.add(
            Row::new(format!("get p50, {what}"), "ms", asker).peer(Some(Peer { name: "unchecked", figure: master })),
        );
        let added = (asker - master) * 1e3;
        report.add(Row::new(format!("authorization, {what}"), "µs", added).target(Target::AtMost(LIMIT_MICROSECONDS)));
        api.finish().await?;
    }
    Ok(())
}

async fn bind(api: &Api, holder: Holder) -> Result<()> {
    let mut client = Client::new(&api.kubeconfig)?;
    let path = |plural: &str| {
        api.path().replace("/api/v1/", "/apis/rbac.authorization.k8s.io/v1/").replace("configmaps", plural)
    };
    for number in 0..BINDINGS {
        let last = number == BINDINGS - 1;
        let name = format!("role-{number:04}");
        let resource = if last { "configmaps" } else { "secrets" };
        let user = if last || holder == Holder::One { "asker".to_owned() } else { format!("user-{number}") };
        let role = json!({
            "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["get", "list", "watch"]}],
        });
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        client.post(&path("roles"), &role).await?.success()?;
        client.post(&path("rolebindings"), &binding).await?.success()?;
    }
    Ok(())
}

/// The medians of gets by the administrator and by the user, one after the other on the same machine and moment.
async fn compare(api: &Api, user: &Kubeconfig, arguments: &Arguments) -> Result<(f64, f64)> {
    let mut clients = [Client::new(&api.kubeconfig)?, Client::new(user)?];
    let mut nanoseconds = [Vec::new(), Vec::new()];
    let end = Instant::now() + arguments.duration() * 2;
    let mut sequence = 0;
    while Instant::now() < end {
        let path = format!("{}/{}", api.path(), object::name(sequence % OBJECTS));
        for (client, nanoseconds) in clients.iter_mut().zip(&mut nanoseconds) {
            let sent = Instant::now();
            let answer = client.get(&path).await?;
            ensure!(answer.status == 200, "get failed: {} {}", answer.status, answer.text());
            nanoseconds.push(sent.elapsed().as_nanos() as u64);
        }
        sequence += 1;
    }
    let [master, asker] = nanoseconds.map(|nanoseconds| Latencies::new(nanoseconds).quantile_ms(0.5));
    Ok((master, asker))
}
