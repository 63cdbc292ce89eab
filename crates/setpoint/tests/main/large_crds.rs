//! Three large sets of definitions, in the style of those that clusters really have.
//!
//! They are built here rather than copied: what makes such definitions hard is their size, their depth and their rules,
//! and all of that fits on a few pages.

mod applications;
mod certificates;
mod gateways;
mod pods;
mod schema;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use setpoint_testkit::{Client, Kubectl, Server};

use self::schema::Definition;
use crate::SETPOINT;

/// How large an annotation can be, and so what client-side apply can remember.
const ANNOTATION_BYTES: usize = 262_144;

/// Definitions that belong together, and objects of them.
struct Family {
    definitions: Vec<Definition>,
    /// How many fields they have at least.
    fields: usize,
    examples: Vec<Example>,
}

/// An object that is let in, and what is not.
struct Example {
    path: &'static str,
    kind: &'static str,
    spec: Value,
    /// What is filled in, and where.
    defaulted: Vec<(&'static str, Value)>,
    wrong: Vec<Wrong>,
    shared: Shared,
}

/// A change that makes an object wrong, and what is said of it.
struct Wrong {
    row: &'static str,
    at: &'static str,
    value: Value,
    says: &'static str,
    /// Whether it would be right in a new object.
    only_later: bool,
}

impl Wrong {
    fn new(row: &'static str, at: &'static str, value: Value, says: &'static str) -> Wrong {
        Wrong { row, at, value, says, only_later: false }
    }

    /// Wrong only because it was otherwise before.
    fn later(row: &'static str, at: &'static str, value: Value, says: &'static str) -> Wrong {
        Wrong { only_later: true, ..Wrong::new(row, at, value, says) }
    }
}

/// A list that two managers share: what the second adds, and what the first does not let it change.
struct Shared {
    list: &'static str,
    element: Value,
    conflicting: Value,
    conflict: &'static str,
}

impl Shared {
    fn nothing() -> Shared {
        Shared { list: "", element: Value::Null, conflicting: Value::Null, conflict: "" }
    }
}

#[tokio::test]
async fn a_set_like_a_certificate_managers() -> Result<()> {
    prove(certificates::family()).await
}

#[tokio::test]
async fn a_set_like_that_of_continuous_delivery() -> Result<()> {
    prove(applications::family()).await
}

#[tokio::test]
async fn a_set_like_a_gateway_apis() -> Result<()> {
    prove(gateways::family()).await
}

async fn prove(family: Family) -> Result<()> {
    let server = Server::start_with(SETPOINT, &["--store", "memory"]).await?;
    let (user, mut client) = (User::new(&server)?, server.client()?);
    let (mut fields, mut largest) = (0, 0);
    for definition in family.definitions {
        let (name, value) = (definition.name(), definition.into_value());
        fields += schema::fields(&value);
        largest = largest.max(value.to_string().len());
        define(&user, &mut client, &name, &value).await.with_context(|| name.clone())?;
    }
    ensure!(fields >= family.fields, "the family has {fields} fields");
    println!("{fields} fields, {largest} bytes at most");
    for example in &family.examples {
        accept(&mut client, example).await.context(example.kind)?;
        refuse(&mut client, example).await.context(example.kind)?;
        if !example.shared.list.is_empty() {
            share(&mut client, example).await.context(example.kind)?;
        }
        explain(&user, example).context(example.kind)?;
    }
    Ok(())
}

/// Applies a definition with kubectl, as people do, and reads it back.
async fn define(user: &User, client: &mut Client, name: &str, definition: &Value) -> Result<()> {
    let file = user.folder.join(format!("{name}.json"));
    fs::write(&file, definition.to_string())?;
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    if definition.to_string().len() > ANNOTATION_BYTES {
        let said = user.apply(&file, &[])?;
        let error = String::from_utf8_lossy(&said.stderr);
        ensure!(error.contains("metadata.annotations: Too long: may not be more than 262144 bytes"), "{error}");
        ensure!(!said.status.success() && client.get(&path).await?.status == 404, "nothing is defined");
    }
    succeeded(user.apply(&file, &["--server-side"])?)?;
    succeeded(user.kubectl(&["wait", "crd", name, "--for", "condition=Established", "--timeout", "30s"])?)?;

    let mut found = client.get(&path).await?.success()?;
    let revision = found["metadata"]["resourceVersion"].clone();
    ensure!(found["spec"]["conversion"] == json!({"strategy": "None"}), "{}", found["spec"]["conversion"]);
    found["spec"].as_object_mut().context("a spec")?.remove("conversion");
    ensure!(found["spec"] == definition["spec"], "what is read is not what was written");

    succeeded(user.apply(&file, &["--server-side"])?)?;
    let again = client.get(&path).await?.success()?;
    ensure!(again["metadata"]["resourceVersion"] == revision, "the same definition changes nothing");
    Ok(())
}

/// Somebody with a kubectl.
struct User {
    kubectl: Kubectl,
    kubeconfig: PathBuf,
    folder: PathBuf,
}

impl User {
    fn new(server: &Server) -> Result<User> {
        let (kubeconfig, folder) = (server.kubeconfig_path(), server.folder().to_owned());
        Ok(User { kubectl: Kubectl::newest()?, kubeconfig, folder })
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<Output> {
        self.kubectl.run(&self.kubeconfig, &self.folder, arguments)
    }

    fn apply(&self, file: &Path, options: &[&str]) -> Result<Output> {
        self.kubectl(&[&["apply", "-f", file.to_str().context("a path")?], options].concat())
    }
}

/// What a command printed, if it did what it should.
fn succeeded(output: Output) -> Result<String> {
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

impl Example {
    fn version(&self) -> String {
        self.path.split('/').skip(2).take(2).collect::<Vec<_>>().join("/")
    }

    fn object(&self, name: &str) -> Value {
        json!({"apiVersion": self.version(), "kind": self.kind, "metadata": {"name": name}, "spec": self.spec})
    }

    /// An object with nothing but this element in the shared list.
    fn only(&self, element: &Value) -> Value {
        let mut object = self.object("example");
        object["spec"] = json!({});
        let steps: Vec<&str> = self.shared.list.split('/').skip(1).collect();
        steps.iter().fold(&mut object, |part, step| &mut part[*step]).clone_from(&json!([element]));
        object
    }
}

/// A good object is stored, with what it leaves out.
async fn accept(client: &mut Client, example: &Example) -> Result<()> {
    let object = example.object("example");
    let path = format!("{}/example?fieldManager=one", example.path);
    let made = client.apply(&path, &object).await?.success()?;
    for (at, value) in &example.defaulted {
        ensure!(made.pointer(at) == Some(value), "{at} is {:?}", made.pointer(at));
    }
    let again = client.apply(&path, &object).await?.success()?;
    ensure!(again == made, "the same configuration changes nothing");
    let older = path.replace("/v1/", "/v1beta1/");
    if older != path {
        let seen = client.get(&older).await?.success()?;
        ensure!(seen["spec"] == made["spec"] && seen["apiVersion"] != made["apiVersion"], "{seen}");
    }
    Ok(())
}

/// A wrong object is not stored, and a good one not made wrong.
async fn refuse(client: &mut Client, example: &Example) -> Result<()> {
    let path = format!("{}/example", example.path);
    let before = client.get(&path).await?.success()?;
    for Wrong { row, at, value, says, only_later } in &example.wrong {
        let change = json!([{"op": "add", "path": at, "value": value}]);
        let refused = client.patch(&path, "json-patch", &change).await?;
        ensure!(refused.status == 422 && message(&refused.json()?).contains(says), "{row}: {}", refused.text());
        ensure!(client.get(&path).await?.success()? == before, "{row}: it has changed");
        if *only_later {
            continue;
        }
        let mut object = example.object("wrong");
        match at.strip_suffix("/-") {
            Some(list) => object.pointer_mut(list).and_then(Value::as_array_mut).context("a list")?.push(value.clone()),
            None => at.split('/').skip(1).fold(&mut object, step).clone_from(value),
        }
        let refused = client.post(example.path, &object).await?;
        ensure!(refused.status == 422 && message(&refused.json()?).contains(says), "{row}: {}", refused.text());
        ensure!(client.get(&format!("{}/wrong", example.path)).await?.status == 404, "{row}: it is stored");
    }
    Ok(())
}

/// A part of an object, which is made if it is not there.
fn step<'v>(value: &'v mut Value, name: &str) -> &'v mut Value {
    match name.parse::<usize>() {
        Ok(position) if value.is_array() => &mut value[position],
        _ => &mut value[name],
    }
}

fn message(status: &Value) -> &str {
    status["message"].as_str().unwrap_or_default()
}

/// Two managers have elements in one list, and neither changes the other's.
async fn share(client: &mut Client, example: &Example) -> Result<()> {
    let Shared { list, element, conflicting, conflict } = &example.shared;
    let path = format!("{}/example", example.path);
    let by_two = format!("{path}?fieldManager=two");
    let length = |object: &Value| object.pointer(list).and_then(Value::as_array).map_or(0, Vec::len);
    let before = client.get(&path).await?.success()?;
    let both = client.apply(&by_two, &example.only(element)).await?.success()?;
    ensure!(length(&both) == length(&before) + 1, "{:?}", both.pointer(list));

    let refused = client.apply(&by_two, &example.only(conflicting)).await?;
    let said = refused.json()?;
    ensure!(refused.status == 409 && message(&said).contains(conflict), "{said}");
    let by_one = format!("{path}?fieldManager=one");
    let kept = client.apply(&by_one, &example.object("example")).await?.success()?;
    ensure!(kept["spec"] == both["spec"], "the first one's configuration leaves the second's element alone");
    let mut nothing = example.only(element);
    nothing["spec"] = json!({});
    let alone = client.apply(&by_two, &nothing).await?.success()?;
    ensure!(alone["spec"] == before["spec"], "what the second no longer applies is gone: {}", alone["spec"]);
    Ok(())
}

/// The documents of so large a kind are complete.
fn explain(user: &User, example: &Example) -> Result<()> {
    let kind = example.kind.to_lowercase();
    // Other groups may have a kind of the same name.
    let version = format!("--api-version={}", example.version());
    let text = succeeded(user.kubectl(&["explain", &format!("{kind}.spec"), "--recursive", &version])?)?;
    for field in example.spec.as_object().into_iter().flatten().map(|(name, _)| name) {
        ensure!(text.contains(&format!("  {field}\t<")), "{field} is not in\n{text}");
    }
    Ok(())
}
