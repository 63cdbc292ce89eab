//! Who is told that people are needed: by a webhook and by a command, of a gate that waits, of drift, and of a budget that
//! is used up; once of each, whoever leads.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use setpoint_testkit::wait_for;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::cluster::{Cluster, ENVIRONMENT, PATIENCE, condition, text};

/// Hears what is posted to it, for as long as it is there.
struct Listener {
    url: String,
    heard: Arc<Mutex<Vec<Value>>>,
    task: JoinHandle<()>,
}

impl Listener {
    async fn open() -> Result<Listener> {
        let socket = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/hook", socket.local_addr()?);
        let heard: Arc<Mutex<Vec<Value>>> = Arc::default();
        let task = tokio::spawn(listen(socket, heard.clone()));
        Ok(Listener { url, heard, task })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(socket: TcpListener, heard: Arc<Mutex<Vec<Value>>>) {
    while let Ok((mut stream, _)) = socket.accept().await {
        // Who breaks off in the middle has told nothing, and will again.
        let Ok(message) = read(&mut stream).await else { continue };
        heard.lock().push(message);
        let answer = b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        let _ = stream.write_all(answer).await;
    }
}

/// The message that a request brings.
async fn read(stream: &mut TcpStream) -> Result<Value> {
    let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut buffer).await?;
        ensure!(read > 0, "the request ends early");
        request.extend_from_slice(&buffer[..read]);
        let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        if let Ok(message) = serde_json::from_slice(&request[end + 4..]) {
            ensure!(request.starts_with(b"POST /hook "), "it is posted elsewhere");
            return Ok(message);
        }
    }
}

/// The two ways that somebody is told by, and what came by each.
struct Ears {
    listener: Listener,
    file: PathBuf,
}

impl Ears {
    async fn open(folder: &Path) -> Result<Ears> {
        Ok(Ears { listener: Listener::open().await?, file: folder.join("told") })
    }

    fn notifications(&self) -> Value {
        let command = json!(["/bin/sh", "-c", "cat >> \"$1\"", "tell", self.file]);
        json!({"webhook": {"url": self.listener.url}, "command": command})
    }

    /// What was told by each of the two, in the order of what it is about.
    fn heard(&self) -> Result<[Vec<Value>; 2]> {
        let lines = fs::read_to_string(&self.file).unwrap_or_default();
        // The last line may be about to be written.
        let whole = lines.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let by_command = whole.map(serde_json::from_str).collect::<Result<_, _>>()?;
        let mut heard = [self.listener.heard.lock().clone(), by_command];
        for told in &mut heard {
            told.sort_by_key(|message| (text(&message["occasion"]), text(&message["object"])));
        }
        Ok(heard)
    }

    /// Waits until something is told by both, and both were told the same; returns all that was.
    async fn until(&self, occasion: &str, object: &str) -> Result<Vec<Value>> {
        let is_meant = |message: &Value| {
            message["occasion"] == occasion && text(&message["object"]).split('/').nth(1).unwrap_or_default() == object
        };
        let is_meant = &is_meant;
        let told = wait_for(format!("{occasion} of {object} to be told"), PATIENCE, || async {
            let [by_webhook, by_command] = self.heard()?;
            let is_told = by_webhook == by_command && by_webhook.iter().any(is_meant);
            Ok(is_told.then_some(by_webhook))
        });
        match told.await {
            Ok(heard) => Ok(heard),
            Err(error) => Err(error.context(format!("{:#?}", self.heard()?))),
        }
    }
}

/// What is told, as occasion and object.
fn told(heard: &[Value]) -> Vec<(String, String)> {
    heard.iter().map(|message| (text(&message["occasion"]), text(&message["object"]))).collect()
}

fn with_data() -> Value {
    json!({"cores": 1, "volumes": [{"name": "data", "size": "10Gi"}]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_are_told_once_of_what_needs_them_also_by_who_leads_next() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let ears = Ears::open(folder.path()).await?;
    let rules = json!({
        "approval": {"rules": [{"class": "Destructive", "approvals": 0}]},
        "guardrails": {"maxDestroysPerHour": 1},
        "notifications": ears.notifications(),
    });
    let mut cluster = Cluster::start(json!({}), rules).await?;
    cluster.make("web", json!({"cores": 2, "run": "Running"})).await?;
    for name in ["one", "two"] {
        cluster.make(name, with_data()).await?;
        cluster.synced(name).await?;
    }
    cluster.synced("web").await?;

    // The second of what is destroyed within an hour is one too many.
    cluster.delete("one").await?;
    cluster.gone("one").await?;
    cluster.delete("two").await?;
    let heard = ears.until("BudgetHit", "lab").await?;
    ensure!(heard.len() == 1 && heard[0]["environment"] == "lab", "{heard:#?}");
    ensure!(heard[0]["message"] == "a limit holds one Machine back", "{heard:#?}");

    // Somebody stops a guest where nothing is started without an approval.
    let rules = json!({"spec": {"approval": {"rules": [{"class": "Destructive", "approvals": 0}, {"class": "Benign", "approvals": 1}]}}});
    cluster.client()?.patch(ENVIRONMENT, "merge-patch", &rules).await?.success()?;
    cluster.configure(json!({"driftEveryMs": 50, "drift": ["stopped"]})).await?;
    let set = cluster.asked_for("web").await?;
    cluster.configure(json!({"driftEveryMs": null})).await?;
    let gate = text(&set["metadata"]["name"]);
    ears.until("Drifted", "web").await.context("of the drift")?;
    let heard = ears.until("GateWaiting", &gate).await?;
    let expected = [
        ("BudgetHit".to_owned(), "environments.setpoint.dev/lab".to_owned()),
        ("Drifted".to_owned(), "machines.setpoint.dev/web".to_owned()),
        ("GateWaiting".to_owned(), format!("changesets.setpoint.dev/{gate}")),
    ];
    ensure!(told(&heard) == expected, "{heard:#?}");
    ensure!(heard[1]["message"] == "it is not as it was made: run" && heard[1]["namespace"] == "default", "{heard:#?}");
    ensure!(heard[2]["requestedBy"] == "admin", "{heard:#?}");
    ensure!(text(&heard[2]["message"]).contains("Benign: 0 of 1 approval"), "{heard:#?}");

    // Times are in whole seconds: who leads in the same second cannot tell that something began before.
    let told_at = Timestamp::now().as_second();
    wait_for("the next second", PATIENCE, || async { Ok((Timestamp::now().as_second() > told_at).then_some(())) })
        .await?;
    cluster.server.kill9()?;
    cluster.server.restart().await?;
    for name in ["two", "web"] {
        let still = cluster.look_again(name).await?;
        ensure!(condition(&still, "Synced")["status"] == "False", "what was told still holds: {still:#}");
    }
    cluster.make("late", json!({"cores": 1})).await?;
    let set = cluster.asked_for("late").await?;
    let late = text(&set["metadata"]["name"]);
    let heard = ears.until("GateWaiting", &late).await?;
    let again: Vec<(String, String)> =
        told(&heard).into_iter().filter(|(_, object)| !object.ends_with(&format!("/{late}"))).collect();
    ensure!(again == expected && heard.len() == expected.len() + 1, "something is told again: {heard:#?}");
    Ok(())
}
