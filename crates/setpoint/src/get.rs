//! `setpoint get`: objects as they are, or as they were at a revision.

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::client::{Answer, Connection, Server};
use crate::resource::Resource;
use crate::table;
use crate::terminal::{inert, json, print, remark, yaml};

pub(crate) const JSON: &str = "application/json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

#[derive(Debug, Args)]
pub(crate) struct Get {
    /// What to show: a plural, a singular, a short name or a kind, with its group if need be (deployments.apps)
    kind: String,
    /// The one to show; all if none is named
    name: Option<String>,
    #[command(flatten)]
    connection: Connection,
    /// Look in all namespaces
    #[arg(short = 'A', long, conflicts_with_all = ["name", "namespace"])]
    all_namespaces: bool,
    /// The form to print them in
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Show what was there at this revision, a resourceVersion
    #[arg(long, value_name = "REVISION", value_parser = clap::value_parser!(u64).range(1..))]
    at: Option<u64>,
    /// Show managedFields too, in JSON and YAML
    #[arg(long)]
    show_managed_fields: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Wide,
    Json,
    Yaml,
    Name,
}

impl Get {
    pub(crate) fn run(&self) -> Result<()> {
        tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(self.show())
    }

    async fn show(&self) -> Result<()> {
        let server = self.connection.connect().await?;
        let resource = server.resource(&self.kind).await?;
        let namespace = (!self.all_namespaces).then_some(server.namespace.as_str());
        let path = resource.path(namespace, self.name.as_deref());
        let is_table = matches!(self.output, Output::Table | Output::Wide);
        let accept = if is_table { TABLE } else { JSON };
        let Some(answer) = read_at(&server, &path, self.at, accept).await? else {
            let (kind, name) = (resource.qualified(), self.name.clone().unwrap_or_default());
            let when = self.at.map(|at| format!(" at revision {at}")).unwrap_or_default();
            bail!(
                "there is no {} {name:?}{when}; `setpoint get {kind}{}` shows what there is",
                resource.kind,
                self.at_flag()
            );
        };
        let text = match self.output {
            Output::Table | Output::Wide => {
                let spreads = self.all_namespaces && resource.namespaced;
                table::lines(&answer, self.output == Output::Wide, spreads).join("\n") + "\n"
            }
            Output::Name => names(&resource, &answer).iter().map(|name| name.clone() + "\n").collect(),
            Output::Json => json(&self.objects(&resource, answer.clone())),
            Output::Yaml => yaml(&self.objects(&resource, answer.clone()))?,
        };
        let found = if is_table { &answer["rows"] } else { &answer["items"] };
        if self.name.is_none() && found.as_array().is_none_or(Vec::is_empty) {
            remark(&nothing(&resource, namespace));
            if is_table || self.output == Output::Name {
                return Ok(());
            }
        }
        print(&text)
    }

    /// The answer as kubectl shows it: lists are of any kind, and so each object says what it is.
    fn objects(&self, resource: &Resource, mut answer: Value) -> Value {
        if self.name.is_some() {
            self.trim(&mut answer);
            return answer;
        }
        let mut items = answer["items"].as_array().cloned().unwrap_or_default();
        for item in &mut items {
            item["apiVersion"] = resource.api_version().into();
            item["kind"] = resource.kind.as_str().into();
            self.trim(item);
        }
        let metadata = json!({"resourceVersion": answer["metadata"]["resourceVersion"]});
        json!({"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items})
    }

    fn trim(&self, object: &mut Value) {
        if !self.show_managed_fields
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            metadata.remove("managedFields");
        }
    }

    fn at_flag(&self) -> String {
        self.at.map(|at| format!(" --at {at}")).unwrap_or_default()
    }
}

/// What stands at a path now, or stood there at a revision; `None` if that is no object.
pub(crate) async fn read_at(server: &Server, path: &str, at: Option<u64>, accept: &str) -> Result<Option<Value>> {
    let query = at.map(|at| format!("?resourceVersion={at}&resourceVersionMatch=Exact")).unwrap_or_default();
    match (server.read(&format!("{path}{query}"), accept).await?, at) {
        (Answer::Found(found), Some(at)) => {
            ensure!(
                revision(&found).is_some_and(|found| found <= at),
                "this server shows single objects only as they are now; --at needs Setpoint's"
            );
            Ok(Some(found))
        }
        (Answer::Found(found), None) => Ok(Some(found)),
        (Answer::Absent, _) => Ok(None),
        (Answer::Forgotten(since), at) => {
            let at = at.unwrap_or_default();
            bail!("revision {at} is no longer in history: {since}; ask for that one or a later one")
        }
    }
}

/// The revision of an object, a list or a table.
pub(crate) fn revision(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

fn names(resource: &Resource, answer: &Value) -> Vec<String> {
    let object = |object: &Value| inert(&resource.object(object["metadata"]["name"].as_str().unwrap_or_default()));
    match answer["items"].as_array() {
        Some(items) => items.iter().map(object).collect(),
        None => vec![object(answer)],
    }
}

fn nothing(resource: &Resource, namespace: Option<&str>) -> String {
    match namespace.filter(|_| resource.namespaced) {
        Some(namespace) => format!("there are no {} in namespace {namespace}", resource.qualified()),
        None => format!("there are no {}", resource.qualified()),
    }
}
