//! The addresses and ports of Services.

use std::collections::HashSet;
use std::future::IntoFuture;

use serde_json::{Value, json};

use crate::fixture::{Api, within};
use crate::objects::*;

fn at(name: &str, address: &Value) -> Value {
    let mut object = service(name);
    object["spec"]["clusterIP"] = address.clone();
    object
}

fn on_nodes(name: &str) -> Value {
    let mut object = service(name);
    object["spec"]["type"] = "NodePort".into();
    object
}

#[tokio::test]
async fn a_service_gets_an_address_and_keeps_it() {
    let api = Api::new().await;
    let path = format!("{SERVICES}/web");
    let created = api.post(SERVICES, service("web")).await.expect(201);
    let address = created["spec"]["clusterIP"].clone();
    assert!(address.as_str().is_some_and(|text| text.parse::<std::net::Ipv4Addr>().is_ok()), "{address}");
    assert_eq!(created["spec"]["clusterIPs"], json!([address]));

    let updated = api.put(&path, with(service("web"), "labels", json!({"a": "b"}))).await.expect(200);
    assert_eq!(updated["spec"]["clusterIP"], address, "an update that does not name the address keeps it");
    let moved = api.merge_patch(&path, json!({"spec": {"clusterIP": "10.96.7.7"}})).await;
    moved.refused(422, "Invalid", &["may not change once set"]);
}

#[tokio::test]
async fn an_address_belongs_to_one_service_until_that_is_deleted() {
    let api = Api::new().await;
    let first = api.post(SERVICES, service("first")).await.expect(201);
    let address = &first["spec"]["clusterIP"];
    let taken = api.post(SERVICES, at("second", address)).await.refused(422, "Invalid", &["already allocated"]);
    assert!(taken.fields().iter().any(|field| field.starts_with("spec.clusterIP")), "{}", taken.text());
    api.delete(format!("{SERVICES}/first")).await.expect(200);
    let second = api.post(SERVICES, at("second", address)).await.expect(201);
    assert_eq!(second["spec"]["clusterIP"], *address);
}

#[tokio::test]
async fn a_refused_service_takes_no_address() {
    let api = Api::new().await;
    let address = json!("10.96.44.44");
    let mut bad = at("bad", &address);
    bad["spec"]["ports"][0]["port"] = 0.into();
    api.post(SERVICES, bad).await.refused(422, "Invalid", &["spec.ports[0].port"]);
    api.post(SERVICES, at("good", &address)).await.expect(201);
    api.post(SERVICES, at("good", &json!("10.96.44.45"))).await.refused(409, "AlreadyExists", &[]);
    api.post(SERVICES, at("next", &json!("10.96.44.45"))).await.expect(201);
}

#[tokio::test]
async fn a_dry_run_takes_no_address_and_gives_none_back() {
    let api = Api::new().await;
    let address = json!("10.96.12.34");
    api.post(format!("{SERVICES}?dryRun=All"), at("dry", &address)).await.expect(201);
    api.post(SERVICES, at("web", &address)).await.expect(201);
    api.delete(format!("{SERVICES}/web?dryRun=All")).await.expect(200);
    api.post(SERVICES, at("thief", &address)).await.refused(422, "Invalid", &["already allocated"]);
}

#[tokio::test]
async fn a_node_port_is_given_and_given_back() {
    let api = Api::new().await;
    let created = api.post(SERVICES, on_nodes("web")).await.expect(201);
    let port = created["spec"]["ports"][0]["nodePort"].clone();
    assert!(port.as_i64().is_some_and(|port| (30000..=32767).contains(&port)), "{port}");
    let same_port = |name: &str| {
        let mut object = on_nodes(name);
        object["spec"]["ports"][0]["nodePort"] = port.clone();
        object
    };
    api.post(SERVICES, same_port("thief")).await.refused(422, "Invalid", &["already allocated"]);
    let inward = api.merge_patch(format!("{SERVICES}/web"), json!({"spec": {"type": "ClusterIP"}})).await.expect(200);
    assert!(inward["spec"]["ports"][0]["nodePort"].is_null(), "{}", inward.text());
    api.post(SERVICES, same_port("heir")).await.expect(201);
}

#[tokio::test]
async fn a_service_may_go_without_an_address() {
    let api = Api::new().await;
    let headless = api.post(SERVICES, at("headless", &json!("None"))).await.expect(201);
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
    api.post(SERVICES, at("another", &json!("None"))).await.expect(201);
}

#[tokio::test]
async fn a_write_is_finished_when_its_client_goes_away() {
    let api = Api::new().await;
    let address = json!("10.96.55.55");
    let mut sending = api.post(SERVICES, at("web", &address)).into_future();
    assert!(futures::poll!(&mut sending).is_pending(), "the commit is under way");
    drop(sending);
    api.eventually(format!("{SERVICES}/web"), |answer| answer.status == 200).await;
    api.post(SERVICES, at("thief", &address)).await.refused(422, "Invalid", &["already allocated"]);
}

#[tokio::test]
async fn addresses_are_known_again_after_a_restart() {
    let api = Api::new().await;
    let created = api.post(SERVICES, on_nodes("web")).await.expect(201);
    let reopened = api.reopened().await;
    let taken = reopened.post(SERVICES, at("thief", &created["spec"]["clusterIP"])).await;
    taken.refused(422, "Invalid", &["already allocated"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_address_or_port_is_given_twice_while_services_come_and_go() {
    let api = Api::new().await;
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..200 {
        let api = api.clone();
        clients.spawn(async move {
            let name = format!("svc-{client}");
            api.post(SERVICES, on_nodes(&name)).await.expect(201);
            if client % 2 == 0 {
                api.delete(format!("{SERVICES}/{name}")).await.expect(200);
                api.post(SERVICES, on_nodes(&format!("{name}-again"))).await.expect(201);
            }
        });
    }
    within("all clients", clients.join_all()).await;
    let list = api.get(SERVICES).await.expect(200);
    let services = list["items"].as_array().expect("a list has items");
    assert_eq!(services.len(), 200);
    let addresses: HashSet<&Value> = services.iter().map(|service| &service["spec"]["clusterIP"]).collect();
    let ports: HashSet<&Value> = services.iter().map(|service| &service["spec"]["ports"][0]["nodePort"]).collect();
    assert_eq!((addresses.len(), ports.len()), (200, 200));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_want_one_address_one_gets_it() {
    let api = Api::new().await;
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..32 {
        let api = api.clone();
        let object = at(&format!("svc-{client}"), &json!("10.96.99.99"));
        clients.spawn(async move { api.post(SERVICES, object).await.status });
    }
    let answers = within("all clients", clients.join_all()).await;
    assert_eq!(answers.iter().filter(|status| **status == 201).count(), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|status| **status == 422).count(), 31, "{answers:?}");
}
