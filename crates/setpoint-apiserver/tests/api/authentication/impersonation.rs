//! Acting as somebody else.

use serde_json::json;
use setpoint_apiserver::Identity;

use super::*;
use crate::objects::*;

fn helper() -> Identity {
    Identity::new("helper", ["people"])
}

#[tokio::test]
async fn somebody_acts_as_another_where_each_part_is_allowed() {
    let api = Api::new().await;
    let rule = |group: &str, resource: &str, names: &[&str]| json!({"verbs": ["impersonate"], "apiGroups": [group], "resources": [resource], "resourceNames": names});
    let authentication = "authentication.k8s.io";
    api.allow(
        "helper",
        json!([
            rule("", "users", &["alice"]),
            rule("", "groups", &["devs"]),
            rule("", "serviceaccounts", &["web"]),
            rule(authentication, "uids", &["u-1"]),
            rule(authentication, "userextras/team", &["blue"]),
        ]),
    )
    .await;
    let cannot = |resource: &str, group: &str, place: &str| {
        Some(format!("User \"helper\" cannot impersonate resource \"{resource}\" in API group \"{group}\" {place}"))
    };
    let everywhere = "at the cluster scope";
    type Headers<'a> = &'a [(&'static str, &'a str)];
    let rows: &[(&str, Headers<'_>, Option<String>)] = &[
        ("a user", &[("impersonate-user", "alice")], None),
        ("another user", &[("impersonate-user", "bob")], cannot("users", "", everywhere)),
        ("a group", &[("impersonate-user", "alice"), ("impersonate-group", "devs")], None),
        (
            "another group",
            &[("impersonate-user", "alice"), ("impersonate-group", "ops")],
            cannot("groups", "", everywhere),
        ),
        (
            "those who may do anything",
            &[("impersonate-user", "alice"), ("impersonate-group", "system:masters")],
            cannot("groups", "", everywhere),
        ),
        ("a uid", &[("impersonate-user", "alice"), ("impersonate-uid", "u-1")], None),
        (
            "another uid",
            &[("impersonate-user", "alice"), ("impersonate-uid", "u-2")],
            cannot("uids", authentication, everywhere),
        ),
        ("a fact", &[("impersonate-user", "alice"), ("impersonate-extra-team", "blue")], None),
        (
            "another value",
            &[("impersonate-user", "alice"), ("impersonate-extra-team", "red")],
            cannot("userextras/team", authentication, everywhere),
        ),
        (
            "another fact",
            &[("impersonate-user", "alice"), ("impersonate-extra-acme.com%2fteam", "blue")],
            cannot("userextras/acme.com/team", authentication, everywhere),
        ),
        ("a service account", &[("impersonate-user", "system:serviceaccount:default:web")], None),
        (
            "another service account",
            &[("impersonate-user", "system:serviceaccount:default:db")],
            cannot("serviceaccounts", "", r#"in the namespace "default""#),
        ),
        (
            "what only looks like one",
            &[("impersonate-user", "system:serviceaccount:web")],
            cannot("users", "", everywhere),
        ),
    ];
    for (row, headers, refusal) in rows {
        let mut sending = api.post(SELF_REVIEWS, json!({})).known_as(helper());
        for (name, value) in *headers {
            sending = sending.header(*name, value);
        }
        let answer = sending.await;
        match refusal {
            None => assert_eq!(answer.expect(201)["status"]["userInfo"]["username"], headers[0].1, "{row}"),
            Some(refusal) => drop(answer.refused(403, "Forbidden", &[refusal])),
        }
    }
}

#[tokio::test]
async fn who_acts_as_another_has_the_rights_of_that_one_and_no_others() {
    let api = Api::new().await;
    let refused = ["User \"alice\" cannot list resource \"configmaps\""];
    api.get(CONFIG_MAPS).acting_as("alice", &[]).await.refused(403, "Forbidden", &refused);
    api.get(CONFIG_MAPS).acting_as("alice", &["system:masters"]).await.expect(200);
    api.allow("alice", json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"]}])).await;
    api.get(CONFIG_MAPS).acting_as("alice", &[]).await.expect(200);
    let nobody = ["User \"system:anonymous\" cannot"];
    api.get(CONFIG_MAPS).acting_as("system:anonymous", &[]).await.refused(403, "Forbidden", &nobody);
}

#[tokio::test]
async fn a_wish_without_a_user_is_none() {
    let api = Api::new().await;
    for (name, value) in
        [("impersonate-group", "system:masters"), ("impersonate-uid", "u"), ("impersonate-extra-x", "y")]
    {
        let answer = api.get(CONFIG_MAPS).header(name, value).await;
        answer.refused(400, "BadRequest", &["without impersonating a user name"]);
    }
    let unknown = api.get(CONFIG_MAPS).anonymous().acting_as("alice", &["system:masters"]).await;
    unknown.refused(401, "Unauthorized", &[]);
}

#[tokio::test]
async fn the_groups_of_another_are_told() {
    let api = Api::new().await;
    let account = "system:serviceaccount:default:web";
    let rows: &[(&str, &[&str], &[&str])] = &[
        ("alice", &[], &["system:authenticated"]),
        ("alice", &["devs", "ops"], &["devs", "ops", "system:authenticated"]),
        (account, &[], &["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]),
    ];
    for (user, groups, expected) in rows {
        let answer = api.post(SELF_REVIEWS, json!({})).acting_as(user, groups).await.expect(201);
        assert_eq!(answer["status"]["userInfo"], json!({"username": user, "groups": expected}));
    }
}
