//! `setpoint env grant`: gives somebody verbs on an Environment in a namespace.
//!
//! For each verb there is one Role and one RoleBinding in the namespace, named after the Environment and the verb. What is
//! there stays, and subjects are added, so that the same command twice writes once.

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use http::Method;
use serde_json::{Value, json};
use setpoint_api::{GROUP, names, tenancy};

use crate::client::{Answer, Reply, words};
use crate::get::JSON;
use crate::outcome::Outcome;
use crate::output::Output;
use crate::session::{Place, Session};
use crate::terminal::inert;

const RBAC: &str = "rbac.authorization.k8s.io";
/// How often a binding is read again that others write at the same time.
const TRIES: usize = 10;

#[derive(Debug, Args)]
pub(crate) struct Grant {
    /// The Environment
    environment: String,
    /// The user to give the verbs to; may be repeated
    #[arg(long = "user", value_name = "NAME")]
    users: Vec<String>,
    /// The group to give them to; may be repeated
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// The ServiceAccount to give them to, as NAME or NAMESPACE:NAME; may be repeated
    #[arg(long = "service-account", value_name = "NAME")]
    service_accounts: Vec<String>,
    /// What they may do: `use` the Environment for Machines, Apps and Pods, `adopt` guests that are there, `approve` steps
    #[arg(long, value_enum, value_delimiter = ',', default_value = "use")]
    verbs: Vec<Verb>,
    /// The form to print what was written in
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Verb {
    Use,
    Adopt,
    Approve,
}

impl Verb {
    fn word(self) -> &'static str {
        match self {
            Verb::Use => tenancy::USE,
            Verb::Adopt => tenancy::ADOPT,
            Verb::Approve => tenancy::APPROVE,
        }
    }
}

/// What became of one verb.
struct Given {
    verb: Verb,
    name: String,
    is_new: bool,
}

impl Grant {
    pub(crate) fn run(&self) -> Result<Outcome> {
        self.place.run(async |session| self.grant(session).await)
    }

    async fn grant(&self, session: &Session) -> Result<Outcome> {
        let namespace = session.server.namespace.clone();
        let subjects = self.subjects(&namespace);
        if subjects.is_empty() {
            bail!("nobody is named to grant it to: add --user NAME, --group NAME or --service-account NAME");
        }
        let faults = [("environment", &self.environment), ("namespace", &namespace)];
        if let Some((what, name)) = faults.into_iter().find(|(_, name)| !names::dns1123_subdomain(name).is_empty()) {
            bail!("{:?} is not the name of a {what}", inert(name));
        }
        let path = format!("/apis/{GROUP}/v1alpha1/environments/{}", self.environment);
        if let Answer::Absent = session.server.read(&path, JSON).await? {
            let environment = inert(&self.environment);
            // The Environment of this machine is there without an object.
            if self.environment != tenancy::LOCAL {
                bail!("there is no environment {environment:?}; `setpoint get environments` shows what there is");
            }
        }
        let mut verbs = self.verbs.clone();
        verbs.sort_unstable();
        verbs.dedup();
        let mut given = Vec::new();
        for verb in verbs {
            let name = format!("setpoint:{}:{}", self.environment, verb.word());
            let has_role = put_role(session, &namespace, &name, &self.environment, verb).await?;
            let has_subjects = put_binding(session, &namespace, &name, &subjects).await?;
            given.push(Given { verb, name, is_new: has_role || has_subjects });
        }
        self.tell(&namespace, &subjects, &given)
    }

    fn subjects(&self, namespace: &str) -> Vec<Value> {
        let named = |kind: &str, name: &String| json!({"kind": kind, "apiGroup": RBAC, "name": name});
        let users = self.users.iter().map(|name| named("User", name));
        let groups = self.groups.iter().map(|name| named("Group", name));
        let accounts = self.service_accounts.iter().map(|account| {
            let (home, name) = account.split_once(':').unwrap_or((namespace, account));
            json!({"kind": "ServiceAccount", "name": name, "namespace": home})
        });
        users.chain(groups).chain(accounts).collect()
    }

    fn tell(&self, namespace: &str, subjects: &[Value], given: &[Given]) -> Result<Outcome> {
        let who: Vec<String> = subjects.iter().map(shown).collect();
        let text = || {
            let line = |given: &Given| {
                let (may, environment) = (given.verb.word(), inert(&self.environment));
                let who = who.join(", ");
                match given.is_new {
                    true => format!(
                        "{who} may {may} {environment} in the namespace {}: Role and RoleBinding {}\n",
                        inert(namespace),
                        inert(&given.name)
                    ),
                    false => format!("{who} could {may} {environment} in the namespace {} before\n", inert(namespace)),
                }
            };
            given.iter().map(line).collect()
        };
        let data = || {
            let granted = given.iter().map(|given| {
                json!({"verb": given.verb.word(), "role": given.name, "roleBinding": given.name, "written": given.is_new})
            });
            let granted: Vec<Value> = granted.collect();
            let (environment, subjects) = (&self.environment, subjects);
            Ok(json!({"environment": environment, "namespace": namespace, "subjects": subjects, "granted": granted}))
        };
        self.output.print(text, data)?;
        Ok(Outcome::Settled)
    }
}

fn shown(subject: &Value) -> String {
    let text = |field: &str| inert(subject[field].as_str().unwrap_or_default());
    match subject["kind"].as_str() {
        Some("User") => format!("the user {}", text("name")),
        Some("Group") => format!("the group {}", text("name")),
        _ => format!("the ServiceAccount {}/{}", text("namespace"), text("name")),
    }
}

fn path_of(plural: &str, namespace: &str) -> String {
    format!("/apis/{RBAC}/v1/namespaces/{namespace}/{plural}")
}

/// Makes the Role that gives one verb on the Environment. Whether it was written.
async fn put_role(session: &Session, namespace: &str, name: &str, environment: &str, verb: Verb) -> Result<bool> {
    let rules = json!([{
        "verbs": [verb.word()], "apiGroups": [GROUP], "resources": ["environments"], "resourceNames": [environment],
    }]);
    let role = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": {"name": name}, "rules": rules,
    });
    put(session, &path_of("roles", namespace), &role, |existing| {
        if existing["rules"] == rules {
            return false;
        }
        existing["rules"] = rules.clone();
        true
    })
    .await
    .with_context(|| format!("cannot write the Role {}", inert(name)))
}

/// Makes the RoleBinding that gives the Role to the subjects, or adds to it those that it lacks. Whether it was written.
async fn put_binding(session: &Session, namespace: &str, name: &str, subjects: &[Value]) -> Result<bool> {
    let binding = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name}, "subjects": subjects,
    });
    put(session, &path_of("rolebindings", namespace), &binding, |existing| {
        let mut known = existing["subjects"].as_array().cloned().unwrap_or_default();
        let lacking: Vec<Value> = subjects.iter().filter(|subject| !known.contains(subject)).cloned().collect();
        let is_lacking = !lacking.is_empty();
        known.extend(lacking);
        existing["subjects"] = Value::Array(known);
        is_lacking
    })
    .await
    .with_context(|| format!("cannot write the RoleBinding {}", inert(name)))
}

/// Creates an object, or changes the one that is there if the change finds something to do. Whether it was written.
async fn put(session: &Session, path: &str, wanted: &Value, change: impl Fn(&mut Value) -> bool) -> Result<bool> {
    let server = &session.server;
    let named = format!("{path}/{}", wanted["metadata"]["name"].as_str().unwrap_or_default());
    for _ in 0..TRIES {
        let reply = match server.read(&named, JSON).await? {
            Answer::Found(mut existing) => {
                if !change(&mut existing) {
                    return Ok(false);
                }
                server.send(Method::PUT, &format!("{named}?fieldManager=setpoint"), Some((JSON, &existing))).await?
            }
            _ => server.send(Method::POST, &format!("{path}?fieldManager=setpoint"), Some((JSON, wanted))).await?,
        };
        match reply {
            Reply::Done(_) => return Ok(true),
            // Somebody was faster: it is there now, or is another.
            Reply::Refused(status) if status.code == 409 => {}
            Reply::Refused(status) => bail!(words(&status)),
        }
    }
    bail!("others go on changing it; try again")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        grant: Grant,
    }

    #[test]
    fn subjects_are_those_that_are_named() {
        let arguments =
            "x lab --user alice --group devs --service-account bot --service-account ci:bot --verbs use,approve";
        let Line { grant } = Line::parse_from(arguments.split(' '));
        assert_eq!(grant.verbs, [Verb::Use, Verb::Approve]);
        let shown: Vec<String> = grant.subjects("shop").iter().map(shown).collect();
        let expected = ["the user alice", "the group devs", "the ServiceAccount shop/bot", "the ServiceAccount ci/bot"];
        assert_eq!(shown, expected);
    }
}
