//! The options of a request: its query, and for deletions its body.

use serde_json::Value;
use setpoint_store::Revision;

use crate::failure::{Failure, Result};
use crate::object_meta::validate_field_manager;
use setpoint_api::field::{Errors, Path};

/// A parsed query string. The first of several values counts, as in Kubernetes.
#[derive(Debug, Clone, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn parse(query: Option<&str>) -> Query {
        let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        });
        Query(pairs.collect())
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    pub fn text(&self, key: &str) -> &str {
        self.get(key).unwrap_or_default()
    }

    pub fn all(&self, key: &str) -> Vec<&str> {
        self.0.iter().filter(|(k, v)| k == key && !v.is_empty()).map(|(_, value)| value.as_str()).collect()
    }

    /// Every value, also those that are empty.
    pub fn values(&self, key: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    /// A boolean as Kubernetes reads one from a query: present means true, unless it says otherwise.
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(|value| !matches!(value, "false" | "False" | "FALSE" | "f" | "F" | "0"))
    }

    pub(crate) fn number(&self, key: &str) -> Result<Option<i64>> {
        match self.get(key) {
            None | Some("") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                Failure::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax ({key} is a number)"))
            }),
        }
    }

    /// Whether this is a watch.
    pub fn is_watch(&self) -> bool {
        self.flag("watch").unwrap_or(false)
    }
}

fn decode(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

const MATCH_AND_CONTINUE: &str = "resourceVersionMatch is forbidden when continue is provided";

/// How a list relates to the revision it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevisionMatch {
    /// Nothing was said: at least as new.
    Unset,
    NotOlderThan,
    Exact,
}

/// The options of a list or a watch.
#[derive(Debug, Clone)]
pub struct ListOptions {
    pub label_selector: String,
    pub field_selector: String,
    /// 0 for no limit.
    pub limit: usize,
    pub continue_token: String,
    /// `None` if it was not given; `Some(0)` is "any".
    pub revision: Option<Revision>,
    pub revision_match: RevisionMatch,
    pub timeout_seconds: Option<u64>,
    pub allow_bookmarks: bool,
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    pub fn parse(query: &Query, watch: bool) -> Result<ListOptions> {
        let revision_text = query.text("resourceVersion");
        let match_text = query.text("resourceVersionMatch");
        let send_initial_events = query.flag("sendInitialEvents");
        let continue_token = query.text("continue").to_owned();
        check_list_options(watch, revision_text, match_text, send_initial_events, !continue_token.is_empty())?;
        let revision = match revision_text {
            "" => None,
            text => Some(text.parse().map_err(|_| bad_revision(text))?),
        };
        if !continue_token.is_empty() && revision.is_some_and(|revision| revision > 0) {
            return Err(Failure::bad_request("specifying resource version is not allowed when using continue"));
        }
        Ok(ListOptions {
            label_selector: query.text("labelSelector").to_owned(),
            field_selector: query.text("fieldSelector").to_owned(),
            limit: query.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(0),
            continue_token,
            revision,
            revision_match: match match_text {
                "Exact" => RevisionMatch::Exact,
                "NotOlderThan" => RevisionMatch::NotOlderThan,
                _ => RevisionMatch::Unset,
            },
            timeout_seconds: query.number("timeoutSeconds")?.and_then(|seconds| u64::try_from(seconds).ok()),
            allow_bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            send_initial_events,
        })
    }
}

impl ListOptions {
    /// Whether the list is to be as it was at its revision. A page that names a revision but not how is meant so.
    pub fn is_exact(&self) -> bool {
        match self.revision_match {
            RevisionMatch::Exact => true,
            RevisionMatch::NotOlderThan => false,
            RevisionMatch::Unset => self.limit > 0 && self.revision.is_some_and(|revision| revision > 0),
        }
    }
}

/// A resourceVersion that is not a number.
fn bad_revision(text: &str) -> Failure {
    Failure::bad_request(format!(
        "invalid resource version: resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
    ))
}

/// The revision a get names; 0 for none.
pub fn get_revision(query: &Query) -> Result<Revision> {
    match query.text("resourceVersion") {
        "" => Ok(0),
        text => text.parse().map_err(|_| bad_revision(text)),
    }
}

fn check_list_options(
    watch: bool,
    revision: &str,
    revision_match: &str,
    send_initial_events: Option<bool>,
    continues: bool,
) -> Result<()> {
    let mut errors = Errors::default();
    let (match_path, initial_path) = (Path::of("resourceVersionMatch"), Path::of("sendInitialEvents"));
    if watch {
        match send_initial_events {
            Some(_) if revision_match != "NotOlderThan" => {
                errors
                    .forbidden(&match_path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
            }
            None if !revision_match.is_empty() => {
                let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.forbidden(&match_path, why);
            }
            _ => {}
        }
        if !revision_match.is_empty() && revision_match != "NotOlderThan" {
            errors.unsupported(&match_path, revision_match, &["NotOlderThan"]);
        }
        if !revision_match.is_empty() && continues {
            errors.forbidden(&match_path, MATCH_AND_CONTINUE);
        }
    } else {
        if !revision_match.is_empty() {
            if revision.is_empty() {
                errors.forbidden(&match_path, "resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if continues {
                errors.forbidden(&match_path, MATCH_AND_CONTINUE);
            }
            if !matches!(revision_match, "Exact" | "NotOlderThan") {
                errors.unsupported(&match_path, revision_match, &["Exact", "NotOlderThan", ""]);
            }
            if revision_match == "Exact" && revision == "0" {
                errors.forbidden(&match_path, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
            }
        }
        if send_initial_events.is_some() {
            errors.forbidden(&initial_path, "sendInitialEvents is forbidden for list");
        }
    }
    refuse("ListOptions", errors)
}

/// What to do about fields that the schema does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// The options of a create, update or patch.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    pub dry_run: bool,
    pub field_validation: FieldValidation,
    /// Who writes; "" if that was not said.
    pub manager: String,
    /// Whether an apply takes what others own.
    pub force: bool,
}

/// Whether a write is an apply, which has options of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Apply,
    /// A patch of another type.
    Patch,
    Other,
}

impl WriteOptions {
    /// `kind` names the options in errors, such as `CreateOptions`; `unsaid` holds where nothing is said of unknown fields.
    pub fn parse(query: &Query, kind: &str, unsaid: FieldValidation) -> Result<WriteOptions> {
        WriteOptions::parse_for(query, kind, Manner::Other, unsaid)
    }

    pub fn of_patch(query: &Query, is_apply: bool, unsaid: FieldValidation) -> Result<WriteOptions> {
        let manner = if is_apply { Manner::Apply } else { Manner::Patch };
        WriteOptions::parse_for(query, "PatchOptions", manner, unsaid)
    }

    fn parse_for(query: &Query, kind: &str, manner: Manner, unsaid: FieldValidation) -> Result<WriteOptions> {
        let mut errors = Errors::default();
        let (manager, force) = (query.text("fieldManager"), query.flag("force"));
        let manager_path = Path::of("fieldManager");
        match manner {
            Manner::Apply if manager.is_empty() => errors.required(&manager_path, "is required for apply patch"),
            Manner::Patch if force.is_some() => {
                errors.forbidden(&Path::of("force"), "may not be specified for non-apply patch");
            }
            _ => {}
        }
        validate_field_manager(manager, &manager_path, &mut errors);
        let dry_run = check_dry_run(&query.all("dryRun"), &mut errors);
        let field_validation = match query.text("fieldValidation") {
            "" => unsaid,
            "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                errors.unsupported(&Path::of("fieldValidation"), other, &["", "Ignore", "Strict", "Warn"]);
                FieldValidation::Warn
            }
        };
        refuse(kind, errors)?;
        let force = manner == Manner::Apply && force == Some(true);
        Ok(WriteOptions { dry_run, field_validation, manager: manager.to_owned(), force })
    }
}

/// What happens to the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// The options of a deletion.
#[derive(Debug, Clone, Default)]
pub struct DeleteOptions {
    pub dry_run: bool,
    pub grace_period_seconds: Option<i64>,
    /// `None` if nothing was said.
    pub propagation: Option<Propagation>,
    pub uid: Option<String>,
    pub revision: Option<String>,
}

impl DeleteOptions {
    /// The body counts if there is one, else the query. The body's types have been checked.
    pub fn parse(query: &Query, body: Option<&Value>) -> Result<DeleteOptions> {
        let field = |name: &str| body.map_or(&Value::Null, |body| &body[name]);
        let text = |name: &str| match body {
            Some(_) => field(name).as_str().map(str::to_owned),
            None => query.get(name).filter(|text| !text.is_empty()).map(str::to_owned),
        };
        let mut errors = Errors::default();
        let dry_run_values: Vec<&str> = match body {
            Some(_) => field("dryRun").as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
            None => query.all("dryRun"),
        };
        let dry_run = check_dry_run(&dry_run_values, &mut errors);
        let policy = text("propagationPolicy");
        let orphan = match body {
            Some(_) => field("orphanDependents").as_bool(),
            None => query.flag("orphanDependents"),
        };
        let propagation = propagation(policy.as_deref(), orphan, &mut errors);
        refuse("DeleteOptions", errors)?;
        let grace_period_seconds = match body {
            Some(_) => field("gracePeriodSeconds").as_i64(),
            None => query.number("gracePeriodSeconds")?,
        };
        let precondition = |name: &str| field("preconditions")[name].as_str().map(str::to_owned);
        let (uid, revision) = (precondition("uid"), precondition("resourceVersion"));
        Ok(DeleteOptions { dry_run, grace_period_seconds, propagation, uid, revision })
    }
}

fn propagation(policy: Option<&str>, orphan: Option<bool>, errors: &mut Errors) -> Option<Propagation> {
    let path = Path::of("propagationPolicy");
    if let (Some(policy), Some(_)) = (policy, orphan) {
        errors.invalid(&path, policy, "orphanDependents and deletionPropagation cannot be both set");
    }
    match (policy, orphan) {
        (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
        (Some("Foreground"), _) => Some(Propagation::Foreground),
        (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
        (Some(other), _) => {
            errors.unsupported(&path, other, &["Foreground", "Background", "Orphan", "nil"]);
            None
        }
        (None, None) => None,
    }
}

fn check_dry_run(values: &[&str], errors: &mut Errors) -> bool {
    if values.iter().any(|value| *value != "All") {
        errors.unsupported(&Path::of("dryRun"), values.to_vec(), &["All"]);
    }
    !values.is_empty()
}

fn refuse(kind: &str, errors: Errors) -> Result<()> {
    if errors.is_empty() { Ok(()) } else { Err(Failure::invalid_kind("meta.k8s.io", kind, "", errors)) }
}
