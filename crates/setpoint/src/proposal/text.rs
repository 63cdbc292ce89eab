//! A proposal as a person reads it before saying yes.

use std::collections::BTreeSet;

use setpoint_api::price::Price;
use setpoint_api::step::{Action, Counts, Effect, FieldChange, Step};

use super::{FieldEdit, ObjectAction, ObjectChange, Proposal, ProposedSet};
use crate::style::{Style, Tone};
use crate::terminal::{aligned, inert};

/// How long a shown value of a guest's field may be.
const LONGEST_VALUE: usize = 200;

impl Proposal {
    /// Everything that would change, and how much that is.
    pub(crate) fn text(&self, style: Style) -> String {
        let mut blocks: Vec<String> = Vec::new();
        let is_news = |object: &ObjectChange| object.action != ObjectAction::Unchanged || object.note.is_some();
        for object in self.objects.iter().filter(|object| is_news(object)) {
            match self.is_told_by_steps(object) {
                false => blocks.push(object_text(object, style)),
                true => blocks.extend(object.only_marks().map(|marks| object_text(&marks, style))),
            }
        }
        for set in &self.change_sets {
            blocks.extend(set_text(set, style));
        }
        blocks.push(summary(self, style));
        blocks.join("\n")
    }
}

/// `Plan: 2 to create, 1 to change, 1 to delete; +$0.20/h (waits for approval by 1 person; 1 step is beyond limits)`.
fn summary(proposal: &Proposal, style: Style) -> String {
    let Counts { creates, updates, deletes, unchanged, waiting, refused } = proposal.counts();
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
    if !proposal.has_changes() {
        let rest = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
        return format!("{}{rest}\n", style.paint(Tone::Strong, "Nothing to do."));
    }
    let cost = proposal.hourly_cost_delta().filter(|delta| *delta != Price::ZERO);
    let cost = cost.map(|delta| format!("; {}", signed(delta))).unwrap_or_default();
    let holds = proposal.change_sets.iter().flat_map(|set| &set.holds);
    let people: BTreeSet<&str> = holds.map(|hold| hold.by.as_str()).collect();
    let people = people.into_iter().map(inert).collect::<Vec<_>>().join("; ");
    let people = (!people.is_empty()).then(|| format!("waits for approval by {people}"));
    let limited = match proposal.change_sets.iter().map(|set| set.limited.len()).sum() {
        0 => None,
        1 => Some("1 step is beyond limits".to_owned()),
        many => Some(format!("{many} steps are beyond limits")),
    };
    let but: Vec<String> = people.into_iter().chain(limited).collect();
    let but = if but.is_empty() { String::new() } else { format!(" ({})", but.join("; ")) };
    format!("{} {}{cost}{but}\n", style.paint(Tone::Strong, "Plan:"), parts.join(", "))
}

/// The steps of a change set, with what waits and what is refused.
fn set_text(set: &ProposedSet, style: Style) -> Option<String> {
    if set.steps.is_empty() && set.waiting.is_empty() && set.refused.is_empty() {
        return None;
    }
    let head = format!("{} {}\n", style.paint(Tone::Strong, "In environment"), inert(&set.environment));
    let stands = |step: &Step| {
        let people = set.hold(&step.id).map(|hold| ("waits:", hold.words()));
        let limit = set.limit(&step.id).map(|limited| (limited.title(), limited.why.clone()));
        people.into_iter().chain(limit).collect()
    };
    let mut text = head + &steps_text(&set.steps, stands, style);
    let waiting = set.waiting.iter().map(|waiting| {
        let action = waiting.action.map(|action| format!("{}: ", verb(action))).unwrap_or_default();
        vec![waiting.target.to_string(), format!("{action}{}", waiting.message)]
    });
    text += &section("Waiting", waiting.collect(), Tone::Change, style);
    let refused = set
        .refused
        .iter()
        .map(|refusal| vec![refusal.target.to_string(), format!("{}: {}", refusal.field, refusal.message)]);
    text += &section("Refused", refused.collect(), Tone::Bad, style);
    Some(text)
}

/// Steps, one after the other, each with how it stands with people and limits: titles, and words.
pub(crate) fn steps_text(
    steps: &[Step],
    stands: impl Fn(&Step) -> Vec<(&'static str, String)>,
    style: Style,
) -> String {
    steps.iter().map(|step| format!("\n{}", step_text(step, stands(step), style))).collect()
}

fn step_text(step: &Step, stands: Vec<(&str, String)>, style: Style) -> String {
    let (sign, tone) = sign(step);
    let guest = match &step.provider_id {
        Some(id) if !step.target.namespace.is_empty() => format!(" (guest {})", inert(id)),
        _ => String::new(),
    };
    let target = style.paint(Tone::Strong, &inert(&step.target.to_string()));
    let mut lines = vec![format!("{} {} {target}{guest}", style.paint(tone, sign), verb(step.action))];
    let rows: Vec<Vec<String>> = step.changes.iter().map(|change| row(step.action, change)).collect();
    lines.extend(aligned(&rows, 2).into_iter().map(|line| format!("        {line}")));
    lines.push(format!("      {} {}", style.paint(Tone::Quiet, "reason:"), inert(&step.reason)));
    let cost = step.hourly_cost_delta.filter(|delta| *delta != Price::ZERO);
    let cost = cost.map(|delta| format!(", {}", signed(delta))).unwrap_or_default();
    let class = format!("{:?}{cost}: {}", step.class, inert(&step.class_reason));
    lines.push(format!("      {}  {class}", style.paint(Tone::Quiet, "class:")));
    let own = step.id.rsplit_once('/').map_or("", |(own, _)| own);
    let others = step.depends_on.iter().filter(|id| id.rsplit_once('/').map_or("", |(other, _)| other) != own);
    lines.extend(others.map(|id| format!("      {}  {}", style.paint(Tone::Quiet, "after:"), inert(id))));
    for (title, words) in stands {
        let title = style.paint(Tone::Quiet, &format!("{title:<7}"));
        lines.push(format!("      {title} {}", style.paint(Tone::Change, &inert(&words))));
    }
    lines.join("\n") + "\n"
}

fn row(action: Action, change: &FieldChange) -> Vec<String> {
    let value = |text: &Option<String>, absent: &str| text.as_deref().map_or(absent.to_owned(), short);
    let note = match change.effect {
        Effect::InPlace | Effect::Grow => "",
        Effect::Restart if action == Action::Create => "",
        Effect::Restart => " (at the next start)",
        Effect::Replace if action == Action::Create => "",
        Effect::Replace => " (forces replacement)",
        Effect::Unsupported => " (cannot be changed)",
    };
    let change_text = match (action, &change.from) {
        (Action::Create, None) => value(&change.to, "(none)"),
        _ => format!("{} -> {}{note}", value(&change.from, "(none)"), value(&change.to, "(removed)")),
    };
    vec![inert(&change.field), change_text]
}

fn object_text(object: &ObjectChange, style: Style) -> String {
    let (sign, tone, verb) = match object.action {
        ObjectAction::Create => ("  +", Tone::Good, "create"),
        ObjectAction::Update => ("  ~", Tone::Change, "update"),
        ObjectAction::Delete => ("  -", Tone::Bad, "delete"),
        ObjectAction::Unchanged => ("   ", Tone::Quiet, "keep"),
    };
    let title = style.paint(Tone::Strong, &inert(&object.title()));
    let mut lines = vec![format!("{} {verb} {} {title}", style.paint(tone, sign), inert(&object.kind))];
    let rows: Vec<Vec<String>> = object.changes.iter().map(|edit| edit_row(object.action, edit)).collect();
    lines.extend(aligned(&rows, 2).into_iter().map(|line| format!("        {line}")));
    if let Some(note) = &object.note {
        lines.push(format!("      {} {}", style.paint(Tone::Quiet, "note:"), inert(note)));
    }
    lines.join("\n") + "\n"
}

fn edit_row(action: ObjectAction, edit: &FieldEdit) -> Vec<String> {
    let (from, to) = (edit.from.as_deref().map(inert), edit.to.as_deref().map(inert));
    let change = match (action, from, to) {
        (ObjectAction::Create, None, Some(to)) => to,
        (_, from, to) => {
            format!("{} -> {}", from.as_deref().unwrap_or("(none)"), to.as_deref().unwrap_or("(removed)"))
        }
    };
    vec![inert(&edit.field), change]
}

fn sign(step: &Step) -> (&'static str, Tone) {
    match step.action {
        Action::Create | Action::Adopt => ("  +", Tone::Good),
        Action::Delete | Action::Release => ("  -", Tone::Bad),
        Action::Replace if step.create_first => ("+/-", Tone::Bad),
        Action::Replace => ("-/+", Tone::Bad),
        Action::Update | Action::Grow | Action::Start | Action::Stop | Action::Restart => ("  ~", Tone::Change),
    }
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

fn section(title: &str, rows: Vec<Vec<String>>, tone: Tone, style: Style) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = rows.into_iter().map(|row| row.iter().map(|cell| inert(cell)).collect()).collect();
    let lines: String = aligned(&rows, 2).into_iter().map(|line| format!("  {line}\n")).collect();
    format!("\n{}\n{lines}", style.paint(tone, &format!("{title}:")))
}

fn signed(price: Price) -> String {
    if price < Price::ZERO { format!("-${}/h", -price) } else { format!("+${price}/h") }
}

fn short(text: &str) -> String {
    let text = inert(text);
    match text.char_indices().nth(LONGEST_VALUE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
