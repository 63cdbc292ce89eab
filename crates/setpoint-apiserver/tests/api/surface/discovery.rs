//! How clients find out what is served.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::fixture::{Answer, Api};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// A list's item with this value of a field.
fn with<'a>(list: &'a Value, field: &str, value: &str) -> &'a Value {
    let mut items = list.as_array().into_iter().flatten();
    items.find(|item| item[field] == value).unwrap_or_else(|| panic!("no {field} {value} in {list}"))
}

#[tokio::test]
async fn groups_and_versions_are_listed() {
    let api = Api::new().await;
    let core = api.get("/api").await.expect(200);
    assert_eq!((&core["kind"], &core["versions"]), (&json!("APIVersions"), &json!(["v1"])));
    let groups = api.get("/apis").await.expect(200);
    assert_eq!((&groups["kind"], &groups["apiVersion"]), (&json!("APIGroupList"), &json!("v1")));
    let preferred = json!({"groupVersion": "apps/v1", "version": "v1"});
    assert_eq!(with(&groups["groups"], "name", "apps")["preferredVersion"], preferred);
    let apps = api.get("/apis/apps").await.expect(200);
    assert_eq!((&apps["kind"], &apps["versions"]), (&json!("APIGroup"), &json!([preferred])));
}

#[tokio::test]
async fn resources_are_described_as_kubectl_needs_them() {
    let api = Api::new().await;
    let core = api.get("/api/v1").await.expect(200);
    assert_eq!((&core["kind"], &core["groupVersion"]), (&json!("APIResourceList"), &json!("v1")));
    let pods = with(&core["resources"], "name", "pods");
    assert_eq!(
        (&pods["kind"], &pods["singularName"], &pods["namespaced"]),
        (&json!("Pod"), &json!("pod"), &json!(true))
    );
    assert_eq!((&pods["shortNames"], &pods["categories"]), (&json!(["po"]), &json!(["all"])));
    let verbs: BTreeSet<&str> = pods["verbs"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let all = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    assert_eq!(verbs, all.into());

    let eviction = with(&core["resources"], "name", "pods/eviction");
    assert_eq!((&eviction["group"], &eviction["kind"]), (&json!("policy"), &json!("Eviction")));
    for (name, kind, verbs) in [
        ("pods/attach", "PodAttachOptions", json!(["create", "get"])),
        ("pods/exec", "PodExecOptions", json!(["create", "get"])),
        ("pods/log", "Pod", json!(["get"])),
    ] {
        let stream = with(&core["resources"], "name", name);
        assert_eq!((&stream["kind"], &stream["verbs"]), (&json!(kind), &verbs), "{name}");
    }
    assert_eq!(with(&core["resources"], "name", "namespaces")["namespaced"], false);

    let apps = api.get("/apis/apps/v1").await.expect(200);
    let scale = with(&apps["resources"], "name", "deployments/scale");
    assert_eq!((&scale["group"], &scale["kind"]), (&json!("autoscaling"), &json!("Scale")));
}

#[tokio::test]
async fn everything_is_found_in_two_requests_by_who_asks_for_it() {
    let api = Api::new().await;
    let resource = |list: &Answer, group: &str, plural: &str| {
        let groups = list["items"].as_array().cloned().unwrap_or_default();
        let named = groups.into_iter().find(|item| item["metadata"]["name"].as_str().unwrap_or_default() == group);
        with(&named.expect("the group is there")["versions"][0]["resources"], "resource", plural).clone()
    };
    for (path, group, plural, kind) in [("/api", "", "pods", "Pod"), ("/apis", "apps", "deployments", "Deployment")] {
        let list = api.get(path).accept(AGGREGATED).await.expect(200);
        assert!(list.header("content-type").contains("as=APIGroupDiscoveryList"), "{}", list.header("content-type"));
        assert_eq!(list["kind"], "APIGroupDiscoveryList");
        let found = resource(&list, group, plural);
        assert_eq!((&found["responseKind"]["kind"], &found["scope"]), (&json!(kind), &json!("Namespaced")));
        assert!(
            found["subresources"].as_array().is_some_and(|all| all.iter().any(|one| one["subresource"] == "status"))
        );
    }
}

#[tokio::test]
async fn both_forms_of_discovery_name_the_same_resources() {
    let api = Api::new().await;
    let aggregated = api.get("/apis").accept(AGGREGATED).await.expect(200);
    let mut groups = 0;
    for group in aggregated["items"].as_array().into_iter().flatten() {
        let name = group["metadata"]["name"].as_str().unwrap_or_default();
        for version in group["versions"].as_array().into_iter().flatten() {
            let resources = version["resources"].as_array().into_iter().flatten();
            let names: BTreeSet<String> =
                resources.filter_map(|resource| resource["resource"].as_str()).map(str::to_owned).collect();
            let version = version["version"].as_str().unwrap_or_default();
            let plain = api.get(format!("/apis/{name}/{version}")).await.expect(200);
            let plain = plain["resources"].as_array().cloned().unwrap_or_default();
            let plain: BTreeSet<String> = plain
                .iter()
                .filter_map(|resource| resource["name"].as_str())
                .filter(|resource| !resource.contains('/'))
                .map(str::to_owned)
                .collect();
            assert_eq!(names, plain, "{name}/{version}");
            groups += 1;
        }
    }
    assert!(groups >= 5, "{groups}");
}

#[tokio::test]
async fn every_listed_resource_can_be_listed() {
    let api = Api::new().await;
    let index = api.get("/").await.expect(200);
    let paths = index["paths"].as_array().cloned().unwrap_or_default();
    let versions = paths.iter().filter_map(Value::as_str).filter(|path| path.ends_with("/v1"));
    let mut listed = 0;
    for version in versions {
        let resources = api.get(version).await.expect(200);
        for resource in resources["resources"].as_array().into_iter().flatten() {
            let name = resource["name"].as_str().unwrap_or_default();
            let mut verbs = resource["verbs"].as_array().into_iter().flatten();
            if name.contains('/') || !verbs.any(|verb| verb == "list") {
                continue;
            }
            let list = api.get(format!("{version}/{name}")).await.expect(200);
            assert_eq!(list["kind"], format!("{}List", resource["kind"].as_str().unwrap_or_default()), "{name}");
            listed += 1;
        }
    }
    assert!(listed >= 15, "{listed}");
}

#[tokio::test]
async fn the_version_is_one_that_clients_know() {
    let api = Api::new().await;
    let version = api.get("/version").await.expect(200);
    assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("36")));
    assert!(version["gitVersion"].as_str().is_some_and(|text| text.starts_with("v1.36.")));
}
