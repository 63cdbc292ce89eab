//! A change set as a person reviews it: aligned, and the same text for the same content.

use std::collections::BTreeMap;
use std::fmt;

use setpoint_api::price::Price;
use setpoint_api::step::{Action, Counts, FieldChange, Step, Target};

use super::ChangeSet;

impl ChangeSet {
    /// One line for each object, such as `inference: update (image, gpu_count)`.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<(&Target, Vec<&Step>)> = Vec::new();
        let mut places: BTreeMap<&Target, usize> = BTreeMap::new();
        for step in &self.steps {
            let place = *places.entry(&step.target).or_insert(lines.len());
            match lines.get_mut(place) {
                Some((_, steps)) => steps.push(step),
                None => lines.push((&step.target, vec![step])),
            }
        }
        lines.into_iter().map(|(target, steps)| line(target, &steps)).collect()
    }
}

fn line(target: &Target, steps: &[&Step]) -> String {
    let verbs: Vec<&str> = steps.iter().map(|step| verb(step.action)).collect();
    let created = steps.iter().any(|step| step.action == Action::Create);
    let fields: Vec<&str> = steps.iter().flat_map(|step| &step.changes).map(|change| &*change.field).collect();
    if fields.is_empty() || created {
        format!("{}: {}", target.name, verbs.join(", "))
    } else {
        format!("{}: {} ({})", target.name, verbs.join(", "), fields.join(", "))
    }
}

impl fmt::Display for ChangeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.environment, Summary(&self.counts))?;
        let width = self.steps.iter().map(|step| title(step).chars().count()).max().unwrap_or_default();
        for step in &self.steps {
            writeln!(f)?;
            write_step(step, width, f)?;
        }
        section(
            f,
            "Waiting",
            self.waiting.iter().map(|waiting| {
                let action = waiting.action.map(|action| format!("{}: ", verb(action))).unwrap_or_default();
                (waiting.target.to_string(), format!("{action}{}", waiting.message))
            }),
        )?;
        section(
            f,
            "Refused",
            self.refused
                .iter()
                .map(|refusal| (refusal.target.to_string(), format!("{}: {}", refusal.field, refusal.message))),
        )?;
        match self.hourly_cost_delta() {
            Some(delta) if delta != Price::ZERO => writeln!(f, "\nCost: {}", signed(delta)),
            _ => Ok(()),
        }
    }
}

struct Summary<'a>(&'a Counts);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { creates, updates, deletes, unchanged, waiting, refused } = *self.0;
        let parts = [
            (creates, "to create"),
            (updates, "to change"),
            (deletes, "to delete"),
            (waiting, "waiting"),
            (refused, "refused"),
            (unchanged, "unchanged"),
        ];
        let parts: Vec<String> =
            parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        match parts.is_empty() {
            true => f.write_str("nothing is desired"),
            false if creates + updates + deletes == 0 => write!(f, "nothing to do ({})", parts.join(", ")),
            false => f.write_str(&parts.join(", ")),
        }
    }
}

fn write_step(step: &Step, width: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let cost = step.hourly_cost_delta.filter(|delta| *delta != Price::ZERO);
    let cost = cost.map(|delta| format!(", {}", signed(delta))).unwrap_or_default();
    writeln!(f, "{:<width$}  {:?}{cost}: {}", title(step), step.class, step.class_reason)?;
    writeln!(f, "      {}", step.reason)?;
    let own = step.id.trim_end_matches(verb(step.action));
    for other in step.depends_on.iter().filter(|id| !id.starts_with(own)) {
        writeln!(f, "      after {other}")?;
    }
    let path_width = step.changes.iter().map(|change| change.field.chars().count()).max().unwrap_or_default();
    let from_width = step.changes.iter().map(|change| from(change).chars().count()).max().unwrap_or_default();
    for change in &step.changes {
        let (field, to) = (&change.field, change.to.as_deref().unwrap_or("(removed)"));
        if step.action == Action::Create {
            writeln!(f, "        {field:<path_width$}  {to}")?;
        } else {
            writeln!(f, "        {field:<path_width$}  {:<from_width$} -> {to}", from(change))?;
        }
    }
    Ok(())
}

fn from(change: &FieldChange) -> &str {
    change.from.as_deref().unwrap_or("(none)")
}

/// `  ~ update   shop/db (guest 101)`
fn title(step: &Step) -> String {
    let sign = match step.action {
        Action::Create | Action::Adopt => "  +",
        Action::Delete | Action::Release => "  -",
        Action::Replace if step.create_first => "+/-",
        Action::Replace => "-/+",
        Action::Update | Action::Grow | Action::Start | Action::Stop | Action::Restart => "  ~",
    };
    let guest = match &step.provider_id {
        Some(id) if !step.target.namespace.is_empty() => format!(" (guest {id})"),
        _ => String::new(),
    };
    format!("{sign} {:<7} {}{guest}", verb(step.action), step.target)
}

pub(super) fn verb(action: Action) -> &'static str {
    match action {
        Action::Adopt => "adopt",
        Action::Create => "create",
        Action::Update => "update",
        Action::Grow => "grow",
        Action::Stop => "stop",
        Action::Start => "start",
        Action::Restart => "restart",
        Action::Replace => "replace",
        Action::Release => "release",
        Action::Delete => "delete",
    }
}

fn signed(price: Price) -> String {
    if price < Price::ZERO { format!("-${}/h", -price) } else { format!("+${price}/h") }
}

fn section(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    rows: impl ExactSizeIterator<Item = (String, String)>,
) -> fmt::Result {
    if rows.len() == 0 {
        return Ok(());
    }
    writeln!(f, "\n{title}:")?;
    let rows: Vec<(String, String)> = rows.collect();
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    for (name, message) in rows {
        writeln!(f, "  {name:<width$}  {message}")?;
    }
    Ok(())
}
