//! Each kind of credential, and what becomes of those who have none that is good.

use serde_json::json;
use setpoint_apiserver::Identity;

use super::*;
use crate::fixture::{TOKEN, URL};
use crate::objects::*;

#[tokio::test]
async fn only_good_credentials_let_somebody_in() {
    let api = Api::new().await;
    api.make_account("web").await;
    let good = api.token_of("web", json!({})).await;
    let elsewhere = api.token_of("web", json!({"audiences": ["vault"]})).await;
    let both = api.token_of("web", json!({"audiences": ["vault", URL]})).await;
    let account = "system:serviceaccount:default:web";
    let bearer = |token: &str| format!("Bearer {token}");
    let rows = [
        ("a person's token", bearer(TOKEN), Some("tester")),
        ("an account's token", bearer(&good), Some(account)),
        ("a token for two audiences", bearer(&both), Some(account)),
        ("the scheme in other letters", format!("bEaReR {good}"), Some(account)),
        ("a token for somebody else", bearer(&elsewhere), None),
        ("a token that lost its end", bearer(&good[..good.len() - 1]), None),
        ("a token that lost its signature", bearer(good.rsplit_once('.').expect("parts").0), None),
        ("a token that goes on", bearer(&format!("{good}A")), None),
        ("two tokens", format!("Bearer {good} {good}"), None),
        ("a token in quotes", format!("Bearer \"{good}\""), None),
        ("a token without a scheme", good.clone(), None),
        ("a token as a password", format!("Basic {good}"), None),
        ("an endless token", bearer(&"x".repeat(100_000)), None),
        ("an empty token", "Bearer ".to_owned(), None),
        ("an empty header", String::new(), None),
    ];
    for (row, header, user) in rows {
        let answer = api.post(SELF_REVIEWS, json!({})).anonymous().header("authorization", &header).await;
        match user {
            Some(user) => assert_eq!(answer.expect(201)["status"]["userInfo"]["username"], user, "{row}"),
            None => {
                let answer = answer.refused(401, "Unauthorized", &[]);
                assert_eq!(answer.message(), "Unauthorized", "{row}: nothing more is told");
            }
        }
    }
    api.post(SELF_REVIEWS, json!({})).anonymous().await.refused(401, "Unauthorized", &[]);
}

#[tokio::test]
async fn two_headers_are_none() {
    let api = Api::new().await;
    let mut sending = api.get(CONFIG_MAPS).token(TOKEN);
    sending = sending.also("authorization", "Bearer other");
    sending.await.refused(401, "Unauthorized", &[]);
}

#[tokio::test]
async fn what_the_transport_knows_comes_first() {
    let api = Api::new().await;
    let alice = Identity::new("alice", ["devs"]);
    let answer = api.post(SELF_REVIEWS, json!({})).header("authorization", "Bearer nonsense").known_as(alice).await;
    let user = json!({"username": "alice", "groups": ["devs", "system:authenticated"]});
    assert_eq!(answer.expect(201)["status"]["userInfo"], user);
}

#[tokio::test]
async fn a_token_ends_with_its_account() {
    let api = Api::new().await;
    api.make_account("web").await;
    let token = api.token_of("web", json!({})).await;
    assert!(api.bearer(&token).await.is_some());
    api.delete(format!("{ACCOUNTS}/web")).await.expect(200);
    assert_eq!(api.bearer(&token).await, None, "the account is gone");
    api.make_account("web").await;
    assert_eq!(api.bearer(&token).await, None, "the account is another one");
    assert!(api.bearer(&api.token_of("web", json!({})).await).await.is_some());
}

#[tokio::test]
async fn a_token_ends_with_what_it_is_bound_to() {
    let api = Api::new().await;
    api.make_account("web").await;
    let mut web = pod("web-1");
    web["spec"]["serviceAccountName"] = "web".into();
    let node = json!({"metadata": {"name": "worker"}});
    let rows = [
        ("Pod", "web-1", PODS, web),
        ("Secret", "web-1", SECRETS, secret("web-1")),
        ("Node", "worker", "/api/v1/nodes", node),
    ];
    for (kind, name, path, object) in rows {
        let made = api.post(path, object.clone()).await.expect(201);
        let reference = json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": made["metadata"]["uid"]});
        let token = api.token_of("web", json!({"boundObjectRef": reference})).await;
        let user = api.bearer(&token).await.unwrap_or_else(|| panic!("bound to a {kind}"));
        let extra = |key: &str| &user["extra"][format!("authentication.kubernetes.io/{key}")];
        if kind != "Secret" {
            let kind = kind.to_lowercase();
            assert_eq!(extra(&format!("{kind}-name")), &json!([name]));
            assert_eq!(extra(&format!("{kind}-uid")), &json!([made["metadata"]["uid"]]));
        }
        api.delete_with(format!("{path}/{name}"), json!({"gracePeriodSeconds": 0})).await.expect(200);
        assert_eq!(api.bearer(&token).await, None, "the {kind} is gone");
        api.post(path, object).await.expect(201);
        assert_eq!(api.bearer(&token).await, None, "the {kind} is another one");
    }
}

#[tokio::test]
async fn tokens_outlive_the_server() {
    let api = Api::new().await;
    api.make_account("web").await;
    let token = api.token_of("web", json!({})).await;
    assert!(api.reopened().await.bearer(&token).await.is_some());
}

#[tokio::test]
async fn nobody_is_let_in_by_half() {
    let api = Api::new().await;
    api.make_account("web").await;
    let token = api.token_of("web", json!({})).await;
    api.get(CONFIG_MAPS).token(&token).await.refused(
        403,
        "Forbidden",
        &[r#"User "system:serviceaccount:default:web" cannot list resource "configmaps" in API group """#],
    );
}
