//! Who may use an Environment: the verbs `use` and `adopt` on `environments.setpoint.dev`, by the Environment's name, asked
//! in the namespace of the object.
//!
//! `use` is asked of who writes the spec of a Machine or an App, and `adopt` as well where the spec names something that is
//! there already: a guest or a volume by its `providerId`. The same is asked of who has it planned in a ChangeSet. Of a Pod,
//! `use` is asked of its ServiceAccount where it comes to a node, whoever puts it there: so what makes Pods for others needs
//! no rule of its own. What stands is not asked about again, and neither are status, metadata and deletion: to take `use`
//! away stops writes, not guests.

use std::collections::BTreeSet;

use serde_json::Value;
use setpoint_api::tenancy::{ADOPT, NODE_LABEL, USE};
use setpoint_store::At;

use super::Change;
use super::authorship::serves;
use crate::authentication::{Identity, service_account_of};
use crate::authorization::{Access, Policy};
use crate::failure::{Failure, Result};
use crate::object::Stored;
use crate::registry::text_at;
use crate::server::Shared;

/// The account of a Pod that names none.
const DEFAULT_ACCOUNT: &str = "default";

/// Asks of who writes a Machine or an App whether they may use its Environment.
pub(super) fn check(policy: &Policy, change: &Change<'_>) -> Result<()> {
    let is_place_user = matches!(&*change.resource.plural, "machines" | "apps");
    let (Some(after), true) = (change.after, change.resource.group == setpoint_api::GROUP && is_place_user) else {
        return Ok(());
    };
    let nothing = &Value::Null;
    let (was, spec) = (change.before.map_or(nothing, |before| &before["spec"]), &after["spec"]);
    if was == spec || serves(&change.caller.identity.user) {
        return Ok(());
    }
    let adopts = provider_ids(spec).difference(&provider_ids(was)).next().is_some();
    let verbs: &[&str] = if adopts { &[USE, ADOPT] } else { &[USE] };
    ask(policy, &change.caller.identity, verbs, text_at(spec, &["environment"]), change)
}

/// Asks the same of who has it planned what would be done for Machines: a plan tells what guests are like.
pub(super) async fn check_proposal(server: &Shared, change: &Change<'_>) -> Result<()> {
    let is_change_set = change.resource.group == setpoint_api::GROUP && change.resource.plural == "changesets";
    let (None, Some(after), true) = (change.before, change.after, is_change_set) else { return Ok(()) };
    let proposed = after["spec"]["objects"].as_array().map_or(&[][..], Vec::as_slice);
    if proposed.is_empty() || serves(&change.caller.identity.user) {
        return Ok(());
    }
    let (mut uses, mut adopts) = (false, false);
    for object in proposed {
        let stored = stored_machine(server, change.namespace, text_at(object, &["metadata", "name"])).await?;
        uses |= stored["spec"] != object["spec"];
        adopts |= provider_ids(&object["spec"]).difference(&provider_ids(&stored["spec"])).next().is_some();
    }
    let verbs: &[&str] = match (uses, adopts) {
        (_, true) => &[USE, ADOPT],
        (true, false) => &[USE],
        (false, false) => &[],
    };
    let environment = text_at(after, &["spec", "environment"]);
    ask(&server.policy.read(), &change.caller.identity, verbs, environment, change)
}

/// A Machine as it is stored; null if it is not.
async fn stored_machine(server: &Shared, namespace: Option<&str>, name: &str) -> Result<Value> {
    let registry = server.registry();
    let Some(machines) = registry.kept_as(setpoint_api::GROUP, "machines") else { return Ok(Value::Null) };
    let entry = server.store.get(&machines.key(namespace, name), At::Now).await?.value;
    Ok(entry.map(|entry| machines.value(&Stored::from(&entry))).unwrap_or_default())
}

/// Asks of a Pod's ServiceAccount whether it may use the Environment of the node that the Pod comes to.
pub(super) async fn check_pod(server: &Shared, change: &Change<'_>) -> Result<()> {
    let is_pod = change.resource.group.is_empty() && change.resource.plural == "pods";
    let (Some(after), true) = (change.after, is_pod) else { return Ok(()) };
    let node = text_at(after, &["spec", "nodeName"]);
    if node.is_empty() || change.before.is_some_and(|before| text_at(before, &["spec", "nodeName"]) == node) {
        return Ok(());
    }
    let Some(environment) = environment_of(server, node).await? else { return Ok(()) };
    for account in accounts(&after["spec"]) {
        let identity = Identity::service_account(change.place(), account).proved();
        ask(&server.policy.read(), &identity, &[USE], &environment, change)?;
    }
    Ok(())
}

/// Refuses the change unless somebody has all of these verbs. The refusal says how those that are missing are granted.
fn ask(policy: &Policy, who: &Identity, verbs: &[&str], environment: &str, change: &Change<'_>) -> Result<()> {
    let kind = [setpoint_api::GROUP, "environments", ""];
    let access = |verb| Access::to_object(verb, kind, environment, change.place());
    let missing: Vec<&str> = verbs.iter().copied().filter(|verb| !access(verb).is_allowed(policy, who)).collect();
    let Some(first) = missing.first() else { return Ok(()) };
    let Err(refusal) = access(first).check(policy, who) else { return Ok(()) };
    let (told, grant) = (refusal.message().to_owned(), grant(who, &missing, environment, change.place()));
    let why = format!("{told}; who may update that Environment grants it with `{grant}`");
    Err(Failure::forbidden(change.resource, change.name(), &why))
}

/// The command that gives somebody verbs on an Environment in a namespace.
pub(super) fn grant(who: &Identity, verbs: &[&str], environment: &str, namespace: &str) -> String {
    let subject = match service_account_of(&who.user) {
        Some((home, name)) if home == namespace => format!("--service-account {name}"),
        Some((home, name)) => format!("--service-account {home}:{name}"),
        None => format!("--user {}", word(&who.user)),
    };
    format!("setpoint env grant {} --namespace {namespace} {subject} --verbs {}", word(environment), verbs.join(","))
}

/// A text as one word of a shell, that no browser takes for markup.
fn word(text: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "@._:/-".contains(char);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let quoted = format!("'{}'", text.replace('\'', r"'\''"));
    quoted.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// What a spec names at the provider: a guest, and volumes.
fn provider_ids(spec: &Value) -> BTreeSet<(&str, &str)> {
    let guest = spec["providerId"].as_str().map(|id| ("guest", id));
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let volumes = volumes.filter_map(|volume| Some(("volume", volume["providerId"].as_str()?)));
    guest.into_iter().chain(volumes).collect()
}

/// The Environment of a node; none for a node that is of no Environment. A node that is not there may come later, and is
/// named as its Environment then.
async fn environment_of(server: &Shared, node: &str) -> Result<Option<String>> {
    let key = server.registry().built_in("", "v1", "nodes").key(None, node);
    let Some(entry) = server.store.get(&key, At::Now).await?.value else { return Ok(Some(node.to_owned())) };
    let metadata = Stored::from(&entry).metadata();
    Ok(metadata["labels"][NODE_LABEL].as_str().map(str::to_owned))
}

/// The accounts that a Pod's spec names, by its newer or older field.
fn accounts(spec: &Value) -> BTreeSet<&str> {
    let named = ["serviceAccountName", "serviceAccount"].into_iter().filter_map(|field| spec[field].as_str());
    let named: BTreeSet<&str> = named.filter(|name| !name.is_empty()).collect();
    if named.is_empty() { BTreeSet::from([DEFAULT_ACCOUNT]) } else { named }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::authorship::CONTROLLERS;
    use super::super::fixture::{acting_as, judge, judge_by};
    use super::*;
    use crate::authorization::{Change as PolicyChange, Kind};

    /// In the namespace shop, ursula may `use` the Environment lab, and adam may `adopt` there too.
    fn policy() -> Policy {
        let mut policy = Policy::default();
        for (user, verbs) in [("ursula", vec![USE]), ("adam", vec![USE, ADOPT])] {
            let role = json!({
                "metadata": {"name": user, "namespace": "shop"},
                "rules": [{
                    "verbs": verbs, "apiGroups": [setpoint_api::GROUP], "resources": ["environments"],
                    "resourceNames": ["lab"],
                }],
            });
            let binding = json!({
                "metadata": {"name": user, "namespace": "shop"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
            });
            policy.apply(&PolicyChange::Set(Kind::Role, &role));
            policy.apply(&PolicyChange::Set(Kind::RoleBinding, &binding));
        }
        policy
    }

    #[test]
    fn who_writes_a_machine_may_use_its_environment_and_adopt_what_it_names() {
        let policy = policy();
        let machine = |spec: Value| Some(json!({"metadata": {"name": "web"}, "spec": spec, "status": {}}));
        let plain = || machine(json!({"environment": "lab", "cores": 1}));
        let pinned = || machine(json!({"environment": "lab", "cores": 1, "providerId": "100"}));
        let more = || machine(json!({"environment": "lab", "cores": 2, "providerId": "100"}));
        let mounts = |ids: &[&str]| {
            let volumes: Vec<Value> = ids.iter().map(|id| json!({"name": id, "providerId": id})).collect();
            machine(json!({"environment": "lab", "volumes": volumes}))
        };
        let elsewhere = || machine(json!({"environment": "production"}));
        let mut labelled = pinned();
        if let Some(machine) = &mut labelled {
            machine["metadata"]["labels"] = json!({"team": "shop"});
            machine["status"] = json!({"providerId": "100"});
        }
        type Row<'a> = (&'a str, &'a str, Option<Value>, Option<Value>, std::result::Result<(), &'a str>);
        let rows: [Row<'_>; 17] = [
            ("who may use makes one", "ursula", None, plain(), Ok(())),
            ("who may not use makes one", "carol", None, plain(), Err("--user carol --verbs use`")),
            (
                "who may use another place makes one",
                "ursula",
                None,
                elsewhere(),
                Err("grant production --namespace shop"),
            ),
            ("who may not use changes one", "carol", pinned(), more(), Err("--verbs use`")),
            ("who may use changes one that was adopted", "ursula", pinned(), more(), Ok(())),
            ("who may not adopt names a guest", "ursula", None, pinned(), Err("--user ursula --verbs adopt`")),
            ("who may neither names a guest", "carol", None, pinned(), Err("--verbs use,adopt`")),
            ("who may adopt names a guest", "adam", None, pinned(), Ok(())),
            ("who may not adopt names a guest later", "ursula", plain(), pinned(), Err("--verbs adopt`")),
            ("who may not adopt names a volume", "ursula", None, mounts(&["v1"]), Err("--verbs adopt`")),
            ("who may not adopt names another volume", "ursula", mounts(&["v1"]), mounts(&["v1", "v2"]), Err("adopt`")),
            ("who may not adopt drops a volume", "ursula", mounts(&["v1", "v2"]), mounts(&["v1"]), Ok(())),
            ("metadata and status change", "carol", pinned(), labelled, Ok(())),
            ("it is deleted", "carol", pinned(), None, Ok(())),
            ("a controller writes", CONTROLLERS, pinned(), more(), Ok(())),
            ("the server writes", "system:setpoint", pinned(), more(), Ok(())),
            ("a name that is no word", "a b", None, plain(), Err("--user 'a b' --verbs use`")),
        ];
        for (name, user, before, after, expected) in rows {
            let judged = judge(user, "Machine", (before.as_ref(), after.as_ref()), |change| check(&policy, change));
            match (judged, expected) {
                (Ok(()), Ok(())) => {}
                (Err(refusal), Err(words)) => {
                    assert!(refusal.message().contains(words), "{name}: {}", refusal.message())
                }
                (judged, _) => panic!("{name}: {judged:?}"),
            }
        }
        let as_ursula = acting_as("mallory", "ursula");
        let judged = judge_by(&as_ursula, "Machine", (None, plain().as_ref()), |change| check(&policy, change));
        assert!(judged.is_ok(), "the user that somebody acts as is asked");
        let app = json!({"metadata": {"name": "web"}, "spec": {"environment": "lab"}});
        let scaled = json!({"metadata": {"name": "web"}, "spec": {"environment": "lab", "replicas": 3}});
        let by = |user| judge(user, "App", (Some(&app), Some(&scaled)), |change| check(&policy, change)).is_ok();
        assert_eq!((by("ursula"), by("carol")), (true, false), "an App is scaled");
        let judged = judge("carol", "Goal", (None, Some(&app)), |change| check(&policy, change));
        assert!(judged.is_ok(), "other kinds use no place");
    }

    #[test]
    fn the_grant_names_who_lacks_it() {
        let rows = [
            (Identity::new("alice", ["people"]), "--user alice"),
            (Identity::service_account("shop", "deployer"), "--service-account deployer"),
            (Identity::service_account("ci", "deployer"), "--service-account ci:deployer"),
            (Identity::new("o'hara", ["people"]), r"--user 'o'\''hara'"),
            (Identity::new("<b>", ["people"]), "--user '&lt;b&gt;'"),
        ];
        for (who, subject) in rows {
            let expected = format!("setpoint env grant lab --namespace shop {subject} --verbs use");
            assert_eq!(grant(&who, &[USE], "lab", "shop"), expected);
        }
    }
}
