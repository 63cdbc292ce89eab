//! `/healthz`, `/livez` and `/readyz`.

use http::StatusCode;

use crate::failure::{Failure, Result};
use crate::query::Query;
use crate::response::{self, Response};
use crate::server::Shared;

/// The checks that are told but do not count, unless they are asked for by themselves: a server whose logs cannot be written
/// goes on, and says so.
const AUDIT: &str = "audit";
const DECISIONS: &str = "decisions";

/// Answers as Kubernetes does: `ok`, or with `?verbose` a line for each check.
pub fn answer(server: &Shared, endpoint: &str, check: Option<&str>, query: &Query) -> Result<Response> {
    let all = checks(server, endpoint);
    let excluded = query.all("exclude");
    let checks: Vec<(&str, bool)> = match check {
        None => all.into_iter().filter(|(name, _)| !excluded.contains(name)).collect(),
        Some(name) => vec![all.into_iter().find(|(known, _)| *known == name).ok_or_else(Failure::page_not_found)?],
    };
    let good = checks.iter().all(|(name, good)| *good || (check.is_none() && [AUDIT, DECISIONS].contains(name)));
    let code = if good { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    if good && query.flag("verbose") != Some(true) {
        return Ok(response::text(code, "ok"));
    }
    let mut lines: String = checks
        .iter()
        .map(|(name, good)| if *good { format!("[+]{name} ok\n") } else { format!("[-]{name} failed\n") })
        .collect();
    lines.push_str(&format!("{endpoint} check {}\n", if good { "passed" } else { "failed" }));
    Ok(response::text(code, lines))
}

fn checks(server: &Shared, endpoint: &str) -> Vec<(&'static str, bool)> {
    // A store whose engine has failed recovers only by a restart, so it counts against being alive too.
    let mut checks = vec![("ping", true), ("store", server.store.is_healthy())];
    if endpoint != "livez" {
        checks.push(("shutdown", !*server.stopping().borrow()));
    }
    if endpoint == "readyz" {
        checks.extend(server.audit.as_ref().map(|log| (AUDIT, log.is_healthy())));
        checks.extend(server.decisions.get().map(|log| (DECISIONS, log.is_healthy())));
        checks.push(("started", server.is_ready()));
    }
    checks
}
