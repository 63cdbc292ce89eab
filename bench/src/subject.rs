//! The API server under measurement, and the requests it gets.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Request;
use serde_json::json;
use setpoint_testkit::{Client, Kubeconfig, Server};

use crate::load::Operation;
use crate::object;

/// Where the server comes from.
#[derive(Debug, Clone)]
pub(crate) enum Subject {
    /// This binary, started anew for every part.
    Program(PathBuf),
    /// A server that runs already, and its processes if their memory is to be measured.
    Running(Box<Kubeconfig>, Vec<u32>),
}

/// A server that answers, and a namespace on it for one part of the benchmark.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) kubeconfig: Kubeconfig,
    pub(crate) pids: Vec<u32>,
    /// `None` if the server is not ours to start and stop.
    pub(crate) server: Option<Server>,
    namespace: String,
}

impl Subject {
    pub(crate) async fn start(&self) -> Result<Api> {
        let (server, kubeconfig, pids) = match self {
            Self::Running(kubeconfig, pids) => (None, (**kubeconfig).clone(), pids.clone()),
            Self::Program(program) => {
                let server = Server::start(program).await?;
                let (kubeconfig, pid) = (server.kubeconfig()?, server.pid()?);
                (Some(server), kubeconfig, vec![pid])
            }
        };
        let namespace = format!("bench-{:08x}", rand::random::<u32>());
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        Client::new(&kubeconfig)?.post("/api/v1/namespaces", &body).await?.success()?;
        Ok(Api { kubeconfig, pids, server, namespace })
    }
}

impl Api {
    /// One connection for each of so many clients, open already.
    pub(crate) async fn clients(&self, count: usize) -> Result<Vec<Client>> {
        let mut clients = Vec::with_capacity(count);
        for _ in 0..count {
            let mut client = Client::new(&self.kubeconfig)?;
            client.warm().await?;
            clients.push(client);
        }
        Ok(clients)
    }

    pub(crate) async fn creators(&self, count: usize) -> Result<Vec<Creator>> {
        let path = self.path();
        let clients = self.clients(count).await?;
        Ok(clients.into_iter().map(|client| Creator { client, path: path.clone() }).collect())
    }

    /// Clients that get objects `0..objects`.
    pub(crate) async fn getters(&self, count: usize, objects: u64) -> Result<Vec<Getter>> {
        let path = self.path();
        let clients = self.clients(count).await?;
        Ok(clients.into_iter().map(|client| Getter { client, path: path.clone(), objects }).collect())
    }

    /// Lists everything, and returns how long it took to the last byte.
    pub(crate) async fn list(&self, client: &mut Client) -> Result<(Duration, Bytes)> {
        let start = Instant::now();
        let answer = client.get(&self.path()).await?;
        let elapsed = start.elapsed();
        ensure!(answer.status.is_success(), "list failed: {}", answer.text());
        Ok((elapsed, answer.body))
    }

    /// Opens a watch on what happens from now on.
    pub(crate) async fn watch_path(&self) -> Result<String> {
        let list = Client::new(&self.kubeconfig)?.get(&format!("{}?limit=1", self.path())).await?.success()?;
        let revision = list["metadata"]["resourceVersion"].as_str().context("a list without resourceVersion")?;
        Ok(format!("{}?watch=true&resourceVersion={revision}", self.path()))
    }

    /// Removes the namespace from a server that goes on without us.
    pub(crate) async fn finish(self) -> Result<()> {
        if self.server.is_none() {
            let path = format!("/api/v1/namespaces/{}", self.namespace);
            Client::new(&self.kubeconfig)?.delete(&path).await?.success()?;
        }
        Ok(())
    }

    pub(crate) fn path(&self) -> String {
        self.path_of("configmaps")
    }

    /// Where objects of a core resource are.
    pub(crate) fn path_of(&self, plural: &str) -> String {
        format!("/api/v1/namespaces/{}/{plural}", self.namespace)
    }
}

/// Creates ConfigMaps.
#[derive(Debug)]
pub(crate) struct Creator {
    client: Client,
    path: String,
}

impl Operation for Creator {
    async fn run(&mut self, sequence: u64) -> Result<()> {
        let body = object::config_map(&object::name(sequence));
        let request = Request::post(&self.path).header("content-type", "application/json").body(body)?;
        let answer = self.client.send(request).await?;
        ensure!(answer.status == 201, "create failed: {} {}", answer.status, answer.text());
        Ok(())
    }
}

/// Gets ConfigMaps, each in turn.
#[derive(Debug)]
pub(crate) struct Getter {
    client: Client,
    path: String,
    objects: u64,
}

impl Operation for Getter {
    async fn run(&mut self, sequence: u64) -> Result<()> {
        let answer = self.client.get(&format!("{}/{}", self.path, object::name(sequence % self.objects))).await?;
        ensure!(answer.status == 200, "get failed: {} {}", answer.status, answer.text());
        Ok(())
    }
}
