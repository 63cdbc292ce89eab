//! `setpoint drift`: where reality is not as desired, field by field.

use anyhow::Result;
use clap::Args;
use jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};
use setpoint_api::environment::{Environment, Orphan};
use setpoint_api::machine::{DriftedField, Machine};

use crate::outcome::Outcome;
use crate::output::Output;
use crate::session::{Place, Session};
use crate::style::{Style, Tone};
use crate::terminal::{aligned, inert};

#[derive(Debug, Args)]
pub(crate) struct Drift {
    /// The Machine to show; all of the namespace if none is named
    name: Option<String>,
    /// Look in all namespaces
    #[arg(short = 'A', long, conflicts_with_all = ["name", "namespace"])]
    all_namespaces: bool,
    /// The form to print it in
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    #[command(flatten)]
    place: Place,
}

impl Drift {
    pub(crate) fn run(&self) -> Result<Outcome> {
        self.place.run(async |session| self.show(session).await)
    }

    async fn show(&self, session: &Session) -> Result<Outcome> {
        let machines = machines(session, self.all_namespaces, self.name.as_deref()).await?;
        let environments = environments(session).await?;
        let report = Report::of(&machines, &environments, self.name.is_none());
        self.output.print(|| report.text(Style::of_stdout()), || Ok(report.data()))?;
        Ok(Outcome::pending_if(report.is_drift()))
    }
}

/// The Machines of the namespace, of all, or the one of a name.
pub(crate) async fn machines(session: &Session, all: bool, name: Option<&str>) -> Result<Vec<Machine>> {
    let client = session.server.client.clone();
    let machines: Api<Machine> = match all {
        true => Api::all(client),
        false => Api::namespaced(client, &session.server.namespace),
    };
    match name {
        Some(name) => Ok(vec![machines.get(name).await.map_err(|error| session.server.unreachable(error))?]),
        None => {
            Ok(machines.list(&ListParams::default()).await.map_err(|error| session.server.unreachable(error))?.items)
        }
    }
}

/// All environments; none for who may not read them.
pub(crate) async fn environments(session: &Session) -> Result<Vec<Environment>> {
    let environments: Api<Environment> = Api::all(session.server.client.clone());
    match environments.list(&ListParams::default()).await {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(Vec::new()),
        Err(error) => Err(session.server.unreachable(error)),
    }
}

/// What is not as desired.
#[derive(Debug)]
struct Report<'a> {
    machines: Vec<(String, &'a [DriftedField])>,
    orphans: Vec<(&'a str, &'a Orphan)>,
}

impl<'a> Report<'a> {
    fn of(machines: &'a [Machine], environments: &'a [Environment], with_orphans: bool) -> Report<'a> {
        let drifted = machines.iter().filter_map(|machine| {
            let drift =
                machine.status.as_ref().map(|status| status.drift.as_slice()).filter(|drift| !drift.is_empty())?;
            let metadata = &machine.metadata;
            let word = |text: &Option<String>| text.clone().unwrap_or_default();
            Some((format!("{}/{}", word(&metadata.namespace), word(&metadata.name)), drift))
        });
        let orphans = environments.iter().filter(|_| with_orphans).flat_map(|environment| {
            let name = environment.metadata.name.as_deref().unwrap_or_default();
            let orphans = environment.status.as_ref().map(|status| status.orphans.as_slice()).unwrap_or_default();
            orphans.iter().map(move |orphan| (name, orphan))
        });
        Report { machines: drifted.collect(), orphans: orphans.collect() }
    }

    /// Muted fields may differ.
    fn is_drift(&self) -> bool {
        !self.orphans.is_empty() || self.machines.iter().any(|(_, drift)| drift.iter().any(|field| !field.muted))
    }

    fn text(&self, style: Style) -> String {
        if self.machines.is_empty() && self.orphans.is_empty() {
            return "Nothing has drifted.\n".to_owned();
        }
        let mut text = String::new();
        for (name, drift) in &self.machines {
            text += &format!("{} {}\n", style.paint(Tone::Change, "  ~"), style.paint(Tone::Strong, &inert(name)));
            let rows: Vec<Vec<String>> = drift.iter().map(row).collect();
            text.extend(aligned(&rows, 2).into_iter().map(|line| format!("        {line}\n")));
        }
        for (environment, orphan) in &self.orphans {
            let name = orphan.name.as_deref().map(|name| format!(" ({})", inert(name))).unwrap_or_default();
            let cost = orphan.hourly_cost.map(|cost| format!(", ${cost}/h")).unwrap_or_default();
            let guest = format!("guest {}{name} in {}", inert(&orphan.provider_id), inert(environment));
            let since = seconds(orphan.since);
            let sign = style.paint(Tone::Bad, "  ?");
            text += &format!("{sign} {guest}: carries our mark and belongs to nothing since {since}{cost}\n");
        }
        let fields: usize =
            self.machines.iter().map(|(_, drift)| drift.iter().filter(|field| !field.muted).count()).sum();
        let muted: usize =
            self.machines.iter().map(|(_, drift)| drift.iter().filter(|field| field.muted).count()).sum();
        let muted = if muted == 0 { String::new() } else { format!(" ({muted} more muted)") };
        let orphans = if self.orphans.is_empty() { String::new() } else { format!(", {} orphans", self.orphans.len()) };
        let machines = self.machines.len();
        text + &format!(
            "\n{} {fields} fields of {machines} Machines{muted}{orphans}\n",
            style.paint(Tone::Strong, "Drift:")
        )
    }

    fn data(&self) -> Value {
        let machines: Vec<Value> =
            self.machines.iter().map(|(name, drift)| json!({"machine": name, "drift": drift})).collect();
        let orphans: Vec<Value> = self
            .orphans
            .iter()
            .map(|(environment, orphan)| json!({"environment": environment, "orphan": orphan}))
            .collect();
        json!({"machines": machines, "orphans": orphans})
    }
}

fn row(field: &DriftedField) -> Vec<String> {
    let value = |text: &Option<String>| text.as_deref().map_or("(none)".to_owned(), inert);
    let muted = if field.muted { " (muted)" } else { "" };
    let change = format!("desired {}, is {}{muted}", value(&field.desired), value(&field.observed));
    vec![inert(&field.field), change, format!("since {}", seconds(field.since))]
}

/// A time without parts of a second.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_is_shown_field_by_field() {
        let machine = |name: &str, drift: Value| -> Machine {
            serde_json::from_value(json!({
                "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine",
                "metadata": {"name": name, "namespace": "shop"}, "spec": {"environment": "lab"},
                "status": {"drift": drift},
            }))
            .expect("a Machine")
        };
        let environment = |orphans: Value| -> Environment {
            serde_json::from_value(json!({
                "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment", "metadata": {"name": "lab"},
                "spec": {"deployer": {"name": "simulated"}}, "status": {"orphans": orphans},
            }))
            .expect("an Environment")
        };
        let field = |name: &str, muted: bool| {
            json!({
                "field": name, "desired": "2", "observed": "4\u{1b}[2J", "since": "2026-01-02T03:04:05.6Z", "muted": muted,
            })
        };
        let orphan =
            json!([{"providerId": "sim-9", "name": "lost", "since": "2026-01-02T03:04:05Z", "hourlyCost": "0.10"}]);
        let rows = [
            ("nothing", vec![machine("web", json!([]))], json!([]), false, "Nothing has drifted.\n"),
            (
                "a field, and a muted one",
                vec![machine("web", json!([field("cores", false), field("env.MODE", true)]))],
                json!([]),
                true,
                "  ~ shop/web\n        \
                 cores     desired 2, is 4\\u001b[2J          since 2026-01-02T03:04:05Z\n        \
                 env.MODE  desired 2, is 4\\u001b[2J (muted)  since 2026-01-02T03:04:05Z\n\n\
                 Drift: 1 fields of 1 Machines (1 more muted)\n",
            ),
            (
                "only what is muted",
                vec![machine("web", json!([field("cores", true)]))],
                json!([]),
                false,
                "  ~ shop/web\n        cores  desired 2, is 4\\u001b[2J (muted)  since 2026-01-02T03:04:05Z\n\n\
                 Drift: 0 fields of 1 Machines (1 more muted)\n",
            ),
            (
                "an orphan",
                Vec::new(),
                orphan,
                true,
                "  ? guest sim-9 (lost) in lab: carries our mark and belongs to nothing since 2026-01-02T03:04:05Z, \
                 $0.10/h\n\nDrift: 0 fields of 0 Machines, 1 orphans\n",
            ),
        ];
        for (row, machines, orphans, drifted, expected) in rows {
            let environments = [environment(orphans)];
            let report = Report::of(&machines, &environments, true);
            assert_eq!((report.text(Style::Plain).as_str(), report.is_drift()), (expected, drifted), "{row}");
        }
    }
}
