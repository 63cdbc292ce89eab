//! A custom resource from its derive to its end, as a controller written with kube-rs has it.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::wait::{await_condition, conditions};
use kube::{CustomResource, CustomResourceExt, KubeSchema, Resource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::*;

const KEEPER: &str = "keeper";

/// What shines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "harbour.example.com",
    version = "v1",
    kind = "Lantern",
    namespaced,
    status = "LanternStatus",
    derive = "PartialEq",
    shortname = "lt",
    selectable = ".spec.colour",
    printcolumn = r#"{"name":"Colour","type":"string","jsonPath":".spec.colour"}"#,
    scale(spec_replicas_path = ".spec.brightness", status_replicas_path = ".status.brightness")
)]
#[x_kube(validation = Rule::new("self.colour != 'red' || self.brightness <= 50").message("red light is dim"))]
struct LanternSpec {
    #[schemars(range(min = 1, max = 100))]
    brightness: i32,
    #[serde(default = "white")]
    colour: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    wicks: Vec<Wick>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Wick {
    name: String,
    length: i32,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
struct LanternStatus {
    #[serde(default)]
    brightness: i32,
    phase: Option<String>,
}

fn white() -> String {
    "white".to_owned()
}

fn wick(name: &str, length: i32) -> Wick {
    Wick { name: name.to_owned(), length }
}

fn lantern(brightness: i32, wicks: &[Wick]) -> Lantern {
    Lantern::new("pier", LanternSpec { brightness, colour: white(), wicks: wicks.to_vec() })
}

/// A configuration of some fields.
fn config(fields: serde_json::Value) -> Patch<serde_json::Value> {
    let mut config = json!({"apiVersion": Lantern::api_version(&()), "kind": Lantern::kind(&())});
    config["metadata"] = json!({"name": "pier"});
    for (name, value) in fields.as_object().into_iter().flatten() {
        config[name] = value.clone();
    }
    Patch::Apply(config)
}

/// Applies the definition and waits until it is served.
async fn define(client: &Client) -> Result<Api<Lantern>> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = Lantern::crd_name();
    definitions.patch(name, &PatchParams::apply(KEEPER), &Patch::Apply(Lantern::crd())).await?;
    let established = await_condition(definitions, name, conditions::is_crd_established());
    timeout(PATIENCE, established).await.context("the definition is not established")??;
    Ok(Api::default_namespaced(client.clone()))
}

#[tokio::test]
async fn a_derived_definition_is_established_and_its_objects_are_watched() -> Result<()> {
    let (_server, client) = start().await?;
    let lanterns = define(&client).await?;
    let mut events = std::pin::pin!(watcher(lanterns.clone(), watcher::Config::default().fields("spec.colour=white")));
    ensure!(take(&mut events, 2).await? == ["init", "init done"], "there are no lanterns yet");

    let config = json!({"spec": {"brightness": 20}});
    let made = lanterns.patch("pier", &PatchParams::apply(KEEPER), &self::config(config)).await?;
    ensure!(made.spec == lantern(20, &[]).spec, "the default is filled in: {:?}", made.spec);
    merge(&lanterns, "pier", json!({"spec": {"brightness": 30}})).await?;
    merge(&lanterns, "pier", json!({"spec": {"colour": "green"}})).await?;
    merge(&lanterns, "pier", json!({"spec": {"colour": "white"}})).await?;
    lanterns.delete("pier", &DeleteParams::default()).await?;
    let seen = take(&mut events, 5).await?;
    ensure!(seen == ["apply pier", "apply pier", "delete pier", "apply pier", "delete pier"], "{seen:?}");
    Ok(())
}

#[tokio::test]
async fn an_object_is_refused_by_its_schema_and_by_its_rule() -> Result<()> {
    let (_server, client) = start().await?;
    let lanterns = define(&client).await?;
    let rows = [
        ("too bright", json!({"brightness": 101}), "spec.brightness in body should be less than or equal to 100"),
        ("no brightness", json!({"colour": "blue"}), "spec.brightness: Required value"),
        ("against the rule", json!({"brightness": 51, "colour": "red"}), "spec: Invalid value: red light is dim"),
        ("of another type", json!({"brightness": "much"}), ".spec.brightness: expected"),
    ];
    for (row, spec, words) in rows {
        let applied = lanterns.patch("pier", &PatchParams::apply(KEEPER), &config(json!({"spec": spec}))).await;
        let Err(kube::Error::Api(status)) = applied else { anyhow::bail!("{row}: {applied:?}") };
        ensure!(status.message.contains(words), "{row}: {}", status.message);
        ensure!(lanterns.get_opt("pier").await?.is_none(), "{row}: nothing is stored");
    }
    let strict = PatchParams::apply(KEEPER).validation_strict();
    let unknown = lanterns.patch("pier", &strict, &config(json!({"spec": {"brightness": 1, "smell": "none"}}))).await;
    refused(400, "BadRequest", unknown)
}

#[tokio::test]
async fn two_controllers_apply_to_one_object() -> Result<()> {
    let (_server, client) = start().await?;
    let lanterns = define(&client).await?;
    let (keeper, trimmer) = (PatchParams::apply(KEEPER), PatchParams::apply("trimmer"));
    let made = lanterns.patch("pier", &keeper, &Patch::Apply(lantern(20, &[wick("left", 3)]))).await?;
    let again = lanterns.patch("pier", &keeper, &Patch::Apply(lantern(20, &[wick("left", 3)]))).await?;
    ensure!(again == made, "the same configuration changes nothing");

    let right = config(json!({"spec": {"wicks": [wick("right", 4)]}}));
    let both = lanterns.patch("pier", &trimmer, &right).await?;
    ensure!(both.spec.wicks == [wick("left", 3), wick("right", 4)], "{:?}", both.spec.wicks);
    let shorter = config(json!({"spec": {"wicks": [wick("left", 1), wick("right", 4)]}}));
    refused(409, "Conflict", lanterns.patch("pier", &trimmer, &shorter).await)?;
    let taken = lanterns.patch("pier", &trimmer.clone().force(), &shorter).await?;
    ensure!(taken.spec.wicks == [wick("left", 1), wick("right", 4)], "{:?}", taken.spec.wicks);

    // What the keeper no longer applies stays as far as the trimmer wants it.
    let kept = lanterns.patch("pier", &keeper, &Patch::Apply(lantern(20, &[]))).await?;
    ensure!(kept.spec.wicks == [wick("left", 1), wick("right", 4)], "{:?}", kept.spec.wicks);
    let none = lanterns.patch("pier", &trimmer, &config(json!({}))).await?;
    ensure!(none.spec.wicks.is_empty(), "{:?}", none.spec.wicks);
    Ok(())
}

#[tokio::test]
async fn status_and_scale_are_written_apart() -> Result<()> {
    let (_server, client) = start().await?;
    let lanterns = define(&client).await?;
    let made = lanterns.create(&PostParams::default(), &lantern(20, &[])).await?;
    let lit = json!({"status": {"brightness": 20, "phase": "Lit"}, "spec": {"brightness": 99}});
    let observed = lanterns.patch_status("pier", &PatchParams::apply("observer"), &config(lit)).await?;
    ensure!(observed.status == Some(LanternStatus { brightness: 20, phase: Some("Lit".to_owned()) }));
    ensure!(observed.spec == made.spec && observed.metadata.generation == made.metadata.generation);
    let fields = observed.managed_fields().iter().find(|entry| entry.manager.as_deref() == Some("observer"));
    ensure!(fields.is_some_and(|entry| entry.subresource.as_deref() == Some("status")), "{fields:?}");

    let scale = Patch::Merge(json!({"spec": {"replicas": 7}}));
    let scaled = lanterns.patch_scale("pier", &PatchParams::default(), &scale).await?;
    ensure!(scaled.status.is_some_and(|status| status.replicas == 20));
    ensure!(lanterns.get("pier").await?.spec.brightness == 7);
    Ok(())
}

#[tokio::test]
async fn a_finalizer_holds_a_custom_object_and_its_definition() -> Result<()> {
    const FINALIZER: &str = "harbour.example.com/put-out";
    let (_server, client) = start().await?;
    let lanterns = define(&client).await?;
    lanterns.create(&PostParams::default(), &lantern(20, &[])).await?;
    let reconcile = async || {
        let object = Arc::new(lanterns.get("pier").await?);
        let done = finalizer(&lanterns, FINALIZER, object, |_| async { Ok::<_, Infallible>(Action::await_change()) });
        anyhow::Ok(done.await?)
    };
    reconcile().await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    let definition = definitions.get(Lantern::crd_name()).await?;
    definitions.delete(Lantern::crd_name(), &DeleteParams::default()).await?;
    wait_for("the object to be marked", PATIENCE, || async {
        Ok(lanterns.get("pier").await?.metadata.deletion_timestamp)
    })
    .await?;
    definitions.get(Lantern::crd_name()).await.context("the definition waits for its objects")?;
    reconcile().await?;
    let uid = definition.uid().context("a uid")?;
    let gone = await_condition(definitions, Lantern::crd_name(), conditions::is_deleted(&uid));
    timeout(PATIENCE, gone).await.context("the definition stays")??;
    let left = lanterns.list(&Default::default()).await;
    ensure!(matches!(&left, Err(kube::Error::Api(status)) if status.code == 404), "{left:?}");
    Ok(())
}
