//! The life of a chart: helm installs, upgrades, rolls back and uninstalls it, and kubectl looks at what is there.
//!
//! The chart is `helm/chart`. It has no hook that waits for a Job: nothing runs Jobs yet.

use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use setpoint_testkit::{Kubectl, Server};

use crate::SETPOINT;

/// What the release has.
const OBJECTS: [(&str, &str); 14] = [
    ("configmap", "web-shop"),
    ("secret", "web-shop"),
    ("serviceaccount", "web-shop"),
    ("deployment", "web-shop"),
    ("service", "web-shop"),
    ("windows.shop.example.com", "web-shop"),
    ("hpa", "web-shop"),
    ("pdb", "web-shop"),
    ("ingress", "web-shop"),
    ("networkpolicy", "web-shop"),
    ("pvc", "web-shop"),
    ("statefulset", "web-shop-db"),
    ("cronjob", "web-shop"),
    ("daemonset", "web-shop"),
];

#[tokio::test]
async fn a_chart_lives() -> Result<()> {
    let shop = Shop { server: Server::start(SETPOINT).await?, kubectl: Kubectl::newest()? };

    let installed = shop.helm(&["install", "web", shop.chart(), "--namespace", "shop", "--create-namespace"])?;
    ensure!(installed.stdout.contains("STATUS: deployed"), "{installed:?}");
    ensure!(installed.stdout.contains("The shop web-shop greets with \"hello\"."), "{installed:?}");
    for undone in ["no Pods will be created", "no Jobs will be created", "nothing will be scaled", "no volume will be"]
    {
        ensure!(installed.stderr.contains(undone), "helm's user is not told that {undone}: {installed:?}");
    }
    shop.has(&OBJECTS)?;
    ensure!(shop.field("configmap/web-shop-before", "/data/revision")? == "1", "the hook ran before all");
    ensure!(shop.field("window/web-shop", "/spec/lit")? == true, "the chart's own kind has its defaults");
    ensure!(shop.field("statefulset/web-shop-db", "/spec/volumeClaimTemplates/0/spec/volumeMode")? == "Filesystem");
    let all = shop.kubectl(&["get", "all", "--output=name"])?.stdout;
    for name in ["horizontalpodautoscaler.autoscaling/", "statefulset.apps/", "daemonset.apps/", "cronjob.batch/"] {
        ensure!(all.contains(name), "`kubectl get all` does not show {name}: {all}");
    }
    let listed: Value = serde_json::from_str(&shop.helm(&["list", "--namespace", "shop", "--output=json"])?.stdout)?;
    ensure!(listed[0]["name"] == "web" && listed[0]["status"] == "deployed", "{listed}");

    let changed =
        ["greeting=ahoy", "image.tag=2.0", "replicas=3", "policy.enabled=false", "schedule=@hourly"].join(",");
    let upgraded = shop.helm(&["upgrade", "web", shop.chart(), "--namespace", "shop", "--set", &changed])?;
    ensure!(upgraded.stdout.contains("REVISION: 2"), "{upgraded:?}");
    ensure!(upgraded.stderr.contains("no Pods will be created"), "an upgrade is a write too: {upgraded:?}");
    shop.is("2.0", "ahoy", 3, "@hourly")?;
    shop.lacks(&[("networkpolicy", "web-shop")])?;
    ensure!(shop.field("configmap/web-shop-before", "/data/revision")? == "2", "the hook ran again");
    let manifest = shop.helm(&["get", "manifest", "web", "--namespace", "shop"])?.stdout;
    ensure!(manifest.contains("schedule: \"@hourly\"") && !manifest.contains("NetworkPolicy"), "{manifest}");

    let refused =
        shop.try_helm(&["upgrade", "web", shop.chart(), "--namespace", "shop", "--set", "storage.size=2Gi"])?;
    ensure!(!refused.success && refused.stderr.contains("is immutable after creation"), "{refused:?}");
    ensure!(shop.field("pvc/web-shop", "/spec/resources/requests/storage")? == "1Gi", "what is refused is not stored");

    let back = shop.helm(&["rollback", "web", "1", "--namespace", "shop"])?;
    ensure!(back.stdout.contains("Rollback was a success"), "{back:?}");
    shop.is("1.0", "hello", 2, "0 3 * * *")?;
    shop.has(&OBJECTS)?;
    let history = shop.helm(&["history", "web", "--namespace", "shop", "--output=json"])?.stdout;
    let history: Value = serde_json::from_str(&history)?;
    let told: Vec<&str> = history.as_array().into_iter().flatten().filter_map(|line| line["status"].as_str()).collect();
    ensure!(told == ["superseded", "superseded", "failed", "deployed"], "{history}");

    let uninstalled = shop.helm(&["uninstall", "web", "--namespace", "shop", "--wait"])?;
    ensure!(uninstalled.stdout.contains("uninstalled"), "{uninstalled:?}");
    shop.lacks(&OBJECTS)?;
    shop.lacks(&[("ingressclass", "gate"), ("secret", "sh.helm.release.v1.web.v1")])?;
    // Helm leaves definitions alone, and what its hooks made.
    shop.has(&[("crd", "windows.shop.example.com"), ("configmap", "web-shop-before")])
}

/// A server with the chart's release in the namespace `shop`.
struct Shop {
    server: Server,
    kubectl: Kubectl,
}

/// What a program said.
#[derive(Debug)]
struct Said {
    stdout: String,
    stderr: String,
    success: bool,
}

impl Shop {
    fn chart(&self) -> &'static str {
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/main/helm/chart")
    }

    fn helm(&self, arguments: &[&str]) -> Result<Said> {
        let said = self.try_helm(arguments)?;
        ensure!(said.success, "helm {}: {said:?}", arguments.join(" "));
        Ok(said)
    }

    fn try_helm(&self, arguments: &[&str]) -> Result<Said> {
        let home = self.server.folder();
        let output = Command::new(helm()?)
            .args(arguments)
            .env("KUBECONFIG", self.server.kubeconfig_path())
            .env("HOME", home)
            .env("HELM_CACHE_HOME", home.join("helm-cache"))
            .env("HELM_CONFIG_HOME", home.join("helm-config"))
            .env("HELM_DATA_HOME", home.join("helm-data"))
            .output()?;
        Ok(Said::of(output))
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<Said> {
        let arguments = [arguments, &["--namespace=shop"]].concat();
        let said = Said::of(self.kubectl.run(&self.server.kubeconfig_path(), self.server.folder(), &arguments)?);
        ensure!(said.success, "kubectl {}: {said:?}", arguments.join(" "));
        Ok(said)
    }

    fn field(&self, object: &str, pointer: &str) -> Result<Value> {
        let object: Value = serde_json::from_str(&self.kubectl(&["get", object, "--output=json"])?.stdout)?;
        object.pointer(pointer).cloned().with_context(|| format!("no {pointer} in {object}"))
    }

    /// Checks that these are there.
    fn has(&self, objects: &[(&str, &str)]) -> Result<()> {
        let names: Vec<String> = objects.iter().map(|(kind, name)| format!("{kind}/{name}")).collect();
        self.kubectl(&[vec!["get"], names.iter().map(String::as_str).collect()].concat())?;
        Ok(())
    }

    /// Checks that these are not there.
    fn lacks(&self, objects: &[(&str, &str)]) -> Result<()> {
        let names: Vec<String> = objects.iter().map(|(kind, name)| format!("{kind}/{name}")).collect();
        let get = vec!["get", "--ignore-not-found", "--output=name"];
        let left = self.kubectl(&[get, names.iter().map(String::as_str).collect()].concat())?.stdout;
        ensure!(left.is_empty(), "still there:\n{left}");
        Ok(())
    }

    /// Checks what the values of a release have become.
    fn is(&self, tag: &str, greeting: &str, replicas: i64, schedule: &str) -> Result<()> {
        let image = format!("example.com/shop:{tag}");
        let rows = [
            ("deployment/web-shop", "/spec/template/spec/containers/0/image", Value::from(&*image)),
            ("deployment/web-shop", "/spec/replicas", replicas.into()),
            ("hpa/web-shop", "/spec/minReplicas", replicas.into()),
            ("statefulset/web-shop-db", "/spec/template/spec/containers/0/image", Value::from(&*image)),
            ("configmap/web-shop", "/data/greeting", greeting.into()),
            ("window/web-shop", "/spec/greeting", greeting.into()),
            ("cronjob/web-shop", "/spec/schedule", schedule.into()),
        ];
        for (object, pointer, expected) in rows {
            let found = self.field(object, pointer)?;
            ensure!(found == expected, "{object}{pointer}: {found}, not {expected}");
        }
        Ok(())
    }
}

impl Said {
    fn of(output: Output) -> Said {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Said { success: output.status.success(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// The helm that `SETPOINT_HELM` names, or else the first on PATH.
fn helm() -> Result<PathBuf> {
    if let Some(program) = std::env::var_os("SETPOINT_HELM") {
        return Ok(program.into());
    }
    let folders = std::env::var_os("PATH").context("PATH")?;
    let found = std::env::split_paths(&folders).map(|folder| folder.join("helm")).find(|program| program.is_file());
    found.context("no helm on PATH; ./test installs one")
}
