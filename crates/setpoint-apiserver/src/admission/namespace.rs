//! A namespace goes after its Machines: in one that is being deleted nobody can be asked any more what becomes of a guest.

use setpoint_store::{At, Range};

use super::Change;
use crate::failure::{Failure, Result};
use crate::object::Stored;
use crate::registry::text_at;
use crate::server::Shared;

/// How many Machines a refusal names.
const TOLD: usize = 3;

pub(super) async fn check(server: &Shared, change: &Change<'_>) -> Result<()> {
    let (Some(before), None, true) = (change.before, change.after, change.resource.is_namespaces()) else {
        return Ok(());
    };
    // What was on its way out already says itself what keeps it.
    if before["metadata"]["deletionTimestamp"].is_string() {
        return Ok(());
    }
    let registry = server.registry();
    let Some(machines) = registry.kept_as(setpoint_api::GROUP, "machines") else { return Ok(()) };
    let scope = machines.directory(Some(change.name()));
    let number = server.store.count(&scope);
    if number == 0 {
        return Ok(());
    }
    let page = server.store.range(Range { scope: &scope, after: None, limit: TOLD, at: At::Now }).await?;
    let names = page.entries.iter().map(|entry| text_at(&Stored::from(entry).metadata(), &["name"]).to_owned());
    Err(Failure::forbidden(change.resource, change.name(), &refusal(number, &names.collect::<Vec<_>>())))
}

fn refusal(number: u64, names: &[String]) -> String {
    let noun = if number == 1 { "Machine" } else { "Machines" };
    let them = if number == 1 { "it" } else { "them" };
    let more = if number > names.len() as u64 { ", …" } else { "" };
    let names = names.join(", ");
    format!(
        "it holds {number} {noun} ({names}{more}): delete {them} first, since in a namespace that is being deleted nobody \
         can be asked what becomes of a guest"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_first_machines() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let rows = [
            (1, names(&["web"]), "it holds 1 Machine (web): delete it first, "),
            (2, names(&["db", "web"]), "it holds 2 Machines (db, web): delete them first, "),
            (9, names(&["a", "b", "c"]), "it holds 9 Machines (a, b, c, …): delete them first, "),
        ];
        for (number, names, expected) in rows {
            assert!(refusal(number, &names).starts_with(expected), "{number}: {}", refusal(number, &names));
        }
    }
}
