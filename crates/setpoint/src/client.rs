//! A server that commands ask, reached through a kubeconfig as the user whom it names.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};
use clap::Args;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::{Client, Config};
use serde::Serialize;
use serde_json::Value;
use setpoint_apiserver::OBJECT_LIMIT;

use crate::data_dir::DataDir;
use crate::resource::{Resource, resolve};
use crate::terminal::inert;

/// How long an answer may take; the server itself gives up after a minute.
const PATIENCE: Duration = Duration::from_secs(70);

/// Which server to ask, and where in it.
#[derive(Debug, Args)]
pub(crate) struct Connection {
    /// The file that says where the server is and who asks [default: $KUBECONFIG, else that of the data folder]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The namespace to look in [default: the kubeconfig's, else "default"]
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
}

/// A server, and who asks it.
pub(crate) struct Server {
    pub(crate) client: Client,
    address: String,
    /// Where to look unless something else is said.
    pub(crate) namespace: String,
}

/// What a server answered to a read that is in order.
#[derive(Debug)]
pub(crate) enum Answer {
    Found(Value),
    /// There is no such object.
    Absent,
    /// History no longer holds the revision that was asked for; since when it does, in the server's words.
    Forgotten(String),
}

/// What a server answered to a write.
#[derive(Debug)]
pub(crate) enum Reply {
    Done(Value),
    Refused(Box<Status>),
}

impl Reply {
    /// The object that was written, or the server's words on why it was not.
    pub(crate) fn object(self) -> Result<Value> {
        match self {
            Reply::Done(object) => Ok(object),
            Reply::Refused(status) => bail!(words(&status)),
        }
    }
}

impl Connection {
    /// Whether a server is named, by an option or by the environment.
    pub(crate) fn is_named(&self) -> bool {
        self.kubeconfig.is_some() || std::env::var_os("KUBECONFIG").is_some_and(|paths| !paths.is_empty())
    }

    /// The same server as whoever uses its data folder.
    pub(crate) fn through(&self, kubeconfig: PathBuf) -> Connection {
        Connection { kubeconfig: Some(kubeconfig), namespace: self.namespace.clone() }
    }

    pub(crate) async fn connect(&self) -> Result<Server> {
        let mut config = configuration(self.kubeconfig.as_deref()).await?;
        config.read_timeout = Some(PATIENCE);
        // A revision that has not happened is answered like an overload, and does not happen by waiting.
        config.default_retry = false;
        let address = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(|error| unusable("the kubeconfig", &error))?;
        Ok(Server { client, address, namespace })
    }
}

/// How to reach the server that a kubeconfig names, or the default one does.
pub(crate) async fn configuration(path: Option<&Path>) -> Result<Config> {
    let config = Config::from_custom_kubeconfig(kubeconfig(path)?, &KubeConfigOptions::default()).await;
    config.map_err(|error| unusable("the kubeconfig", &error))
}

fn kubeconfig(path: Option<&Path>) -> Result<Kubeconfig> {
    if let Some(path) = path {
        return Kubeconfig::read_from(path).map_err(|error| unusable("--kubeconfig", &error));
    }
    if let Some(kubeconfig) = Kubeconfig::from_env().map_err(|error| unusable("$KUBECONFIG", &error))? {
        return Ok(kubeconfig);
    }
    let path = DataDir::default_path()?.join("kubeconfig");
    if !path.exists() {
        bail!(
            "no server is known: neither --kubeconfig nor $KUBECONFIG names one, and there is no {}; \
             start a server with `setpoint up`",
            path.display()
        );
    }
    Kubeconfig::read_from(path).map_err(|error| unusable("the data folder's kubeconfig", &error))
}

impl Server {
    /// A server in this process.
    pub(crate) fn here(client: Client, namespace: String) -> Server {
        Server { client, address: "the control plane in this process".to_owned(), namespace }
    }

    /// Everything that the server serves.
    pub(crate) async fn resources(&self) -> Result<Vec<Resource>> {
        let core = self.client.list_core_api_versions_aggregated().await.map_err(|error| self.unreachable(error))?;
        let groups = self.client.list_api_groups_aggregated().await.map_err(|error| self.unreachable(error))?;
        Ok(Resource::all(core.items.into_iter().chain(groups.items)))
    }

    /// The resource that a word means: a plural, a singular, a short name or a kind, with or without its group.
    pub(crate) async fn resource(&self, word: &str) -> Result<Resource> {
        Ok(resolve(word, &self.resources().await?)?)
    }

    pub(crate) async fn read(&self, path: &str, accept: &str) -> Result<Answer> {
        let request = Request::get(path).header(ACCEPT, accept).body(Vec::new())?;
        match self.client.request::<Value>(request).await {
            Ok(object) => Ok(Answer::Found(object)),
            Err(kube::Error::Api(status)) => refusal(&status),
            Err(error) => Err(self.unreachable(error)),
        }
    }

    /// Sends an object, or nothing, and takes the server's answer.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<(&str, &Value)>) -> Result<Reply> {
        let request = Request::builder().method(method).uri(path).header(ACCEPT, "application/json");
        let request = match body {
            Some((form, object)) => request.header(CONTENT_TYPE, form).body(serde_json::to_vec(object)?)?,
            None => request.body(Vec::new())?,
        };
        match self.client.request::<Value>(request).await {
            Ok(object) => Ok(Reply::Done(object)),
            Err(kube::Error::Api(status)) => Ok(Reply::Refused(status)),
            Err(error) => Err(self.unreachable(error)),
        }
    }

    pub(crate) fn unreachable(&self, error: kube::Error) -> anyhow::Error {
        match error {
            kube::Error::Api(status) => anyhow!(words(&status)),
            error => {
                let why = inert(&anyhow!(error).root_cause().to_string());
                anyhow!("cannot ask {}: {why}; see that `setpoint up` runs there", self.address)
            }
        }
    }
}

/// A kubeconfig that leads nowhere. Its errors repeat their sources, so they stand for themselves.
fn unusable(what: &str, error: &dyn std::error::Error) -> anyhow::Error {
    anyhow!("{what} cannot be used: {}; name another file with --kubeconfig", inert(&error.to_string()))
}

/// A refused read, where it says something of the object; anything else is an error.
fn refusal(status: &Status) -> Result<Answer> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let cause = |reason: &str| causes.clone().find(|cause| cause.reason == reason).map(|cause| inert(&cause.message));
    match status.code {
        404 if status.reason == "NotFound" => Ok(Answer::Absent),
        410 => Ok(Answer::Forgotten(cause("HistoryBeginsLater").unwrap_or_else(|| words(status)))),
        504 if cause("ResourceVersionTooLarge").is_some() => {
            bail!("this revision has not happened yet ({}); without --at the newest is shown", words(status))
        }
        _ => bail!(words(status)),
    }
}

/// Says that `what` is larger than what a server stores, and what to do. It is said before anything is sent.
pub(crate) fn must_fit(what: impl Fn() -> String, body: &impl Serialize, remedy: &str) -> Result<()> {
    let size = serde_json::to_vec(body)?.len();
    ensure!(
        size <= OBJECT_LIMIT,
        "{} is too large: {} bytes as JSON, and a server stores {OBJECT_LIMIT}; {remedy}",
        what(),
        size
    );
    Ok(())
}

pub(crate) fn words(status: &Status) -> String {
    match inert(&on_one_line(&status.message)) {
        message if message.is_empty() => format!("the server answered with code {}", status.code),
        message => message,
    }
}

/// What a server lists line by line, as one sentence.
fn on_one_line(text: &str) -> String {
    text.lines().map(str::trim_end).filter(|line| !line.is_empty()).fold(String::new(), |told, line| {
        let (joint, line) = match line.strip_prefix("- ") {
            Some(item) if told.ends_with(':') => (" ", item),
            Some(item) => (", ", item),
            None if told.is_empty() => ("", line),
            None if told.ends_with(':') => (" ", line),
            None => ("; ", line),
        };
        told + joint + line
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(code: u16, reason: &str, message: &str, cause: Option<(&str, &str)>) -> Status {
        let causes: Vec<Value> =
            cause.into_iter().map(|(reason, message)| json!({"reason": reason, "message": message})).collect();
        let status = json!({"code": code, "reason": reason, "message": message, "details": {"causes": causes}});
        serde_json::from_value(status).expect("a Status")
    }

    #[test]
    fn a_refusal_says_what_it_means() {
        let begins = ("HistoryBeginsLater", "history begins at revision 9");
        let ahead = ("ResourceVersionTooLarge", "Too large resource version");
        let rows = [
            ("not there", status(404, "NotFound", "pods \"a\" not found", None), "Absent"),
            ("no such path", status(404, "", "404 page not found", None), "404 page not found"),
            (
                "forgotten",
                status(410, "Expired", "too old", Some(begins)),
                "Forgotten(\"history begins at revision 9\")",
            ),
            ("forgotten by another server", status(410, "Expired", "too old", None), "Forgotten(\"too old\")"),
            (
                "ahead",
                status(504, "Timeout", "too large", Some(ahead)),
                "this revision has not happened yet (too large); without --at the newest is shown",
            ),
            ("too slow", status(504, "Timeout", "timed out", None), "timed out"),
            ("not allowed", status(403, "Forbidden", "no\u{1b}[2J", None), "no\\u001b[2J"),
            ("without a word", status(500, "", "", None), "the server answered with code 500"),
            (
                "line by line",
                status(
                    409,
                    "Conflict",
                    "Apply failed with 2 conflicts: conflicts with \"a\":\n- .spec.cores\n- .spec.memory\nconflicts with \
                     \"b\":\n- .spec.image",
                    None,
                ),
                "Apply failed with 2 conflicts: conflicts with \"a\": .spec.cores, .spec.memory; conflicts with \"b\": \
                 .spec.image",
            ),
        ];
        for (row, status, expected) in rows {
            let told = match refusal(&status) {
                Ok(answer) => format!("{answer:?}"),
                Err(error) => format!("{error:#}"),
            };
            assert_eq!(told, expected, "{row}");
        }
    }
}
