//! `setpoint drift`: where reality is not as desired, field by field.

use anyhow::{Context as _, Result};
use clap::Args;
use jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};
use setpoint_api::condition::{Condition, ConditionStatus};
use setpoint_api::environment::{Environment, EnvironmentStatus, Orphan};
use setpoint_api::machine::{DriftedField, Machine};
use setpoint_core::count::counted;
use setpoint_core::drift::GUEST;
use setpoint_core::machine::{READY, SYNCED};

use crate::apply::{NOT_LOOKED_AT, condition, is_behind};
use crate::client::words;
use crate::outcome::Outcome;
use crate::output::Output;
use crate::session::{Place, Session};
use crate::style::{Style, Tone};
use crate::terminal::{aligned, inert, remark};

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
        self.place.look(async |session| self.show(session).await)
    }

    async fn show(&self, session: &Session) -> Result<Outcome> {
        session.look().await?;
        let machines = machines(session, self.all_namespaces, self.name.as_deref()).await?;
        let environments = environments(session).await?;
        let report = Report::of(&machines, &environments, self.name.is_none());
        self.output.print(|| report.text(Style::of_stdout()), || Ok(report.data()))?;
        Ok(Outcome::pending_if(report.is_drift()))
    }
}

/// The Machines of the namespace, of all, or the one of a name.
pub(crate) async fn machines(session: &Session, all: bool, name: Option<&str>) -> Result<Vec<Machine>> {
    let (client, namespace) = (session.server.client.clone(), &session.server.namespace);
    let machines: Api<Machine> = match all {
        true => Api::all(client),
        false => Api::namespaced(client, namespace),
    };
    let unreachable = |error| session.server.unreachable(error);
    let Some(name) = name else {
        return Ok(machines.list(&ListParams::default()).await.map_err(unreachable)?.items);
    };
    let found = machines.get_opt(name).await.map_err(unreachable)?;
    let machine = found.with_context(|| {
        let (name, namespace) = (inert(name), inert(namespace));
        format!("there is no Machine {name:?} in namespace {namespace}; `setpoint get machines` shows what there is")
    })?;
    Ok(vec![machine])
}

/// All environments; none for who may not read them.
pub(crate) async fn environments(session: &Session) -> Result<Vec<Environment>> {
    let environments: Api<Environment> = Api::all(session.server.client.clone());
    match environments.list(&ListParams::default()).await {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            remark(&format!("environments and their orphans are not shown: {}", words(&status)));
            Ok(Vec::new())
        }
        Err(error) => Err(session.server.unreachable(error)),
    }
}

/// What is not as desired.
#[derive(Debug)]
struct Report<'a> {
    machines: Vec<(String, &'a [DriftedField])>,
    /// Machines of which it cannot be told, each with why.
    unseen: Vec<(String, String)>,
    /// The orphans that are listed, and how many there are.
    orphans: Vec<(&'a str, &'a Orphan)>,
    orphan_count: usize,
}

impl<'a> Report<'a> {
    fn of(machines: &'a [Machine], environments: &'a [Environment], with_orphans: bool) -> Report<'a> {
        let drifted = machines.iter().filter_map(|machine| {
            let drift =
                machine.status.as_ref().map(|status| status.drift.as_slice()).filter(|drift| !drift.is_empty())?;
            Some((full_name(machine), drift))
        });
        let unseen = machines.iter().filter_map(|machine| {
            let environment =
                environments.iter().find(|it| it.metadata.name.as_ref() == Some(&machine.spec.environment));
            Some((full_name(machine), unseen(machine, environment)?))
        });
        let swept = environments.iter().filter(|_| with_orphans).filter_map(|environment| {
            Some((environment.metadata.name.as_deref().unwrap_or_default(), environment.status.as_ref()?))
        });
        let listed =
            |(name, status): (&'a str, &'a EnvironmentStatus)| status.orphans.iter().map(move |orphan| (name, orphan));
        let count = |status: &EnvironmentStatus| {
            let count = status.orphan_count.and_then(|count| usize::try_from(count).ok());
            count.unwrap_or_default().max(status.orphans.len())
        };
        Report {
            machines: drifted.collect(),
            unseen: unseen.collect(),
            orphan_count: swept.clone().map(|(_, status)| count(status)).sum(),
            orphans: swept.flat_map(listed).collect(),
        }
    }

    /// Muted fields may differ. What could not be seen may differ as well.
    fn is_drift(&self) -> bool {
        let mut fields = self.machines.iter().flat_map(|(_, drift)| drift.iter());
        self.orphan_count > 0 || !self.unseen.is_empty() || fields.any(|field| !field.muted)
    }

    fn text(&self, style: Style) -> String {
        if self.machines.is_empty() && self.unseen.is_empty() && self.orphan_count == 0 {
            return "Nothing has drifted.\n".to_owned();
        }
        let mut text = String::new();
        for (name, drift) in &self.machines {
            text += &format!("{} {}\n", style.paint(Tone::Change, "  ~"), style.paint(Tone::Strong, &inert(name)));
            let rows: Vec<Vec<String>> = drift.iter().map(row).collect();
            text.extend(aligned(&rows, 2).into_iter().map(|line| format!("        {line}\n")));
        }
        for (name, why) in &self.unseen {
            text += &format!("{} {}: not known: {}\n", style.paint(Tone::Bad, "  ?"), inert(name), inert(why));
        }
        for (environment, orphan) in &self.orphans {
            let name = orphan.name.as_deref().map(|name| format!(" ({})", inert(name))).unwrap_or_default();
            let cost = orphan.hourly_cost.map(|cost| format!(", ${cost}/h")).unwrap_or_default();
            let guest = format!("guest {}{name} in {}", inert(&orphan.provider_id), inert(environment));
            let since = seconds(orphan.since);
            let sign = style.paint(Tone::Bad, "  ?");
            text += &format!("{sign} {guest}: carries our mark and belongs to nothing since {since}{cost}\n");
        }
        text + &format!("\n{} {}\n", style.paint(Tone::Strong, "Drift:"), self.summary())
    }

    /// `2 differences in 1 Machine (1 more muted), 3 orphans`.
    fn summary(&self) -> String {
        let fields = self.machines.iter().flat_map(|(_, drift)| drift.iter());
        let (muted, heard): (Vec<&DriftedField>, Vec<&DriftedField>) = fields.partition(|field| field.muted);
        let mut parts = Vec::new();
        if !self.machines.is_empty() {
            let muted = if muted.is_empty() { String::new() } else { format!(" ({} more muted)", muted.len()) };
            let machines = counted(self.machines.len(), "Machine");
            parts.push(format!("{} in {machines}{muted}", counted(heard.len(), "difference")));
        }
        if !self.unseen.is_empty() {
            parts.push(format!("not known of {}", counted(self.unseen.len(), "Machine")));
        }
        if self.orphan_count > 0 {
            let unlisted = self.orphan_count.saturating_sub(self.orphans.len());
            let unlisted = if unlisted == 0 { String::new() } else { format!(" ({unlisted} of them not listed)") };
            parts.push(counted(self.orphan_count, "orphan") + &unlisted);
        }
        parts.join(", ")
    }

    fn data(&self) -> Value {
        let machines: Vec<Value> =
            self.machines.iter().map(|(name, drift)| json!({"machine": name, "drift": drift})).collect();
        let unseen: Vec<Value> =
            self.unseen.iter().map(|(name, why)| json!({"machine": name, "message": why})).collect();
        let orphans: Vec<Value> = self
            .orphans
            .iter()
            .map(|(environment, orphan)| json!({"environment": environment, "orphan": orphan}))
            .collect();
        json!({"machines": machines, "unknown": unseen, "orphans": orphans, "orphanCount": self.orphan_count})
    }
}

/// Why it cannot be told whether a Machine has drifted, if it cannot.
fn unseen(machine: &Machine, environment: Option<&Environment>) -> Option<String> {
    let told = |condition: &Condition| {
        condition.message.clone().or(condition.reason.clone()).unwrap_or_else(|| "nobody says why".to_owned())
    };
    let conditions = machine.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let is_unseen = |condition: &&Condition| {
        condition.status == ConditionStatus::Unknown || condition.reason.as_deref() == Some("Unobserved")
    };
    if let Some(unseen) = [SYNCED, READY].iter().filter_map(|type_| condition(conditions, type_)).find(is_unseen) {
        return Some(told(unseen));
    }
    if condition(conditions, READY).is_none() {
        return Some("it was not looked at yet".to_owned());
    }
    if is_behind(machine) {
        return Some(format!("it was {NOT_LOOKED_AT}"));
    }
    let ready = condition(&environment?.status.as_ref()?.conditions, READY)?;
    let name = &machine.spec.environment;
    (ready.status != ConditionStatus::True).then(|| format!("environment {name} is not ready: {}", told(ready)))
}

fn full_name(machine: &Machine) -> String {
    let word = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{}", word(&machine.metadata.namespace), word(&machine.metadata.name))
}

fn row(field: &DriftedField) -> Vec<String> {
    let value = |text: &Option<String>| text.as_deref().map_or("(none)".to_owned(), inert);
    let muted = if field.muted { " (muted)" } else { "" };
    let change = match field.field == GUEST {
        true => format!("missing (was {})", value(&field.desired)),
        false => format!("desired {}, is {}{muted}", value(&field.desired), value(&field.observed)),
    };
    vec![inert(&field.field), change, format!("since {}", seconds(field.since))]
}

/// A time without parts of a second.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str, status: Value) -> Machine {
        let metadata = json!({"name": name, "namespace": "shop"});
        let object = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine", "metadata": metadata,
            "spec": {"environment": "lab"}, "status": status,
        });
        serde_json::from_value(object).expect("a Machine")
    }

    fn environment(status: Value) -> Environment {
        let object = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment", "metadata": {"name": "lab"},
            "spec": {"deployer": {"name": "simulated"}}, "status": status,
        });
        serde_json::from_value(object).expect("an Environment")
    }

    #[test]
    fn drift_is_shown_field_by_field() {
        let seen = |name: &str, drift: Value| {
            let conditions = json!([{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "True"}]);
            vec![machine(name, json!({"conditions": conditions, "drift": drift}))]
        };
        let field = |name: &str, muted: bool| {
            json!({
                "field": name, "desired": "2", "observed": "4\u{1b}[2J", "since": "2026-01-02T03:04:05.6Z", "muted": muted,
            })
        };
        let gone = json!([{"field": "guest", "desired": "101", "since": "2026-01-02T03:04:05Z"}]);
        let orphans =
            json!([{"providerId": "sim-9", "name": "lost", "since": "2026-01-02T03:04:05Z", "hourlyCost": "0.10"}]);
        let rows = [
            ("nothing", seen("web", json!([])), json!({}), false, "Nothing has drifted.\n"),
            (
                "a field, and a muted one",
                seen("web", json!([field("cores", false), field("env.MODE", true)])),
                json!({}),
                true,
                "  ~ shop/web\n        \
                 cores     desired 2, is 4\\u001b[2J          since 2026-01-02T03:04:05Z\n        \
                 env.MODE  desired 2, is 4\\u001b[2J (muted)  since 2026-01-02T03:04:05Z\n\n\
                 Drift: 1 difference in 1 Machine (1 more muted)\n",
            ),
            (
                "only what is muted",
                seen("web", json!([field("cores", true)])),
                json!({}),
                false,
                "  ~ shop/web\n        cores  desired 2, is 4\\u001b[2J (muted)  since 2026-01-02T03:04:05Z\n\n\
                 Drift: 0 differences in 1 Machine (1 more muted)\n",
            ),
            (
                "a guest that is gone",
                seen("web", gone),
                json!({}),
                true,
                "  ~ shop/web\n        guest  missing (was 101)  since 2026-01-02T03:04:05Z\n\n\
                 Drift: 1 difference in 1 Machine\n",
            ),
            (
                "an orphan",
                Vec::new(),
                json!({"orphans": orphans, "orphanCount": 1}),
                true,
                "  ? guest sim-9 (lost) in lab: carries our mark and belongs to nothing since 2026-01-02T03:04:05Z, \
                 $0.10/h\n\nDrift: 1 orphan\n",
            ),
            (
                "more orphans than are listed",
                Vec::new(),
                json!({"orphans": orphans, "orphanCount": 300}),
                true,
                "  ? guest sim-9 (lost) in lab: carries our mark and belongs to nothing since 2026-01-02T03:04:05Z, \
                 $0.10/h\n\nDrift: 300 orphans (299 of them not listed)\n",
            ),
            (
                "one that nobody has seen",
                vec![machine("web", Value::Null)],
                json!({}),
                true,
                "  ? shop/web: not known: it was not looked at yet\n\nDrift: not known of 1 Machine\n",
            ),
        ];
        for (row, machines, status, drifted, expected) in rows {
            let environments = [environment(status)];
            let report = Report::of(&machines, &environments, true);
            assert_eq!((report.text(Style::Plain).as_str(), report.is_drift()), (expected, drifted), "{row}");
        }
    }

    #[test]
    fn what_could_not_be_seen_is_not_said_to_be_as_desired() {
        let condition = |type_: &str, status: &str, reason: &str| json!({"type": type_, "status": status, "reason": reason, "message": format!("{type_} {reason}")});
        let fine = || json!([condition("Ready", "True", "AsDesired"), condition("Synced", "True", "Synced")]);
        let lab = |status: &str| json!({"conditions": [condition("Ready", status, "Unreachable")]});
        let unobserved = |type_: &str, status: &str| json!([condition(type_, status, "Unobserved")]);
        let rows = [
            ("all was seen", fine(), lab("True"), None),
            ("its environment is hidden from us", fine(), Value::Null, None),
            ("its environment is down", fine(), lab("False"), Some("environment lab is not ready: Ready Unreachable")),
            ("its config could not be read", unobserved("Synced", "False"), lab("True"), Some("Synced Unobserved")),
            ("not everything was seen", unobserved("Ready", "Unknown"), lab("True"), Some("Ready Unobserved")),
            ("its environment is not there", unobserved("Synced", "Unknown"), Value::Null, Some("Synced Unobserved")),
            ("it is new", json!([]), lab("True"), Some("it was not looked at yet")),
        ];
        for (row, conditions, status, expected) in rows {
            let machine = machine("web", json!({"conditions": conditions}));
            assert_eq!(unseen(&machine, Some(&environment(status))).as_deref(), expected, "{row}");
        }
        let mut changed = machine("web", json!({"conditions": fine(), "observedGeneration": 1}));
        changed.metadata.generation = Some(2);
        assert_eq!(unseen(&changed, None).as_deref(), Some("it was not looked at since it was changed"));
    }
}
