//! What survives every crash of the controllers: the server, its store, the places, and time.

use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use setpoint_apiserver::authorization::MASTERS;
use setpoint_apiserver::fairness::Limits;
use setpoint_apiserver::{Identity, InProcess, Issuer, Server, Setup, Surroundings, Users};
use setpoint_controllers::runtime::Clock;
use setpoint_deployer::simulated::SimulatedDriver;
use setpoint_deployer::{Deadlines, Registry};

use super::dice::Dice;
use super::faulty_store::FaultyStore;
use super::ledger::Ledger;
use super::trace::Trace;

/// When every simulation begins.
const EPOCH: Timestamp = Timestamp::constant(1_900_000_000, 0);

pub(super) struct World {
    pub(super) server: Server,
    pub(super) store: Arc<FaultyStore>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) clock: Clock,
    pub(super) trace: Trace,
    /// For whoever needs a seed of their own.
    pub(super) seeds: Dice,
    /// As the people who use it.
    pub(super) admin: Client,
    /// Which control plane it is.
    pub(super) cluster: String,
    /// Where the places are.
    pub(super) deployer: Arc<SimulatedDriver>,
    pub(super) registry: Registry,
}

impl World {
    pub(super) async fn new(seed: u64, issuer: Issuer, trace: Trace) -> Result<World> {
        let ledger = Arc::new(Ledger::default());
        let store = Arc::new(FaultyStore::new(Dice::new(seed, 1), ledger.clone(), trace.clone()));
        let clock = Clock::simulated(EPOCH);
        let chance = Dice::new(seed, 2);
        let setup = Setup {
            users: Users::new(Vec::new()),
            issuer,
            limits: Limits::default(),
            audit: None,
            surroundings: Surroundings::new(move || clock.now(), move || chance.number()),
        };
        let server = Server::open(store.clone(), setup).await.map_err(|failure| anyhow!("{failure:?}"))?;
        let admin = person(&server, "admin");
        let namespace = Api::<Namespace>::all(admin.clone()).get("kube-system").await?;
        let cluster = namespace.metadata.uid.context("the namespace kube-system has no uid")?;
        let deployer = Arc::new(SimulatedDriver::by(move || clock.now()));
        let mut registry = Registry::new(Deadlines::default());
        registry.register(deployer.clone())?;
        let seeds = Dice::new(seed, 3);
        Ok(World { server, store, ledger, clock, trace, seeds, admin, cluster, deployer, registry })
    }

    /// The server as somebody sees it who may do everything.
    pub(super) fn as_person(&self, name: &str) -> Client {
        person(&self.server, name)
    }

    /// The server as the controllers see it.
    pub(super) fn as_controllers(&self) -> InProcess {
        self.server.acting_as(Identity::new("system:kube-controller-manager", Vec::<String>::new()))
    }
}

fn person(server: &Server, name: &str) -> Client {
    Client::new(server.acting_as(Identity::new(name, [MASTERS])), "default")
}
