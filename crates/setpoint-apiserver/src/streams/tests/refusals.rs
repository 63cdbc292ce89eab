//! Who gets no session, and why.

use std::sync::atomic::Ordering;

use super::*;
use crate::fairness::Allowance;

const EXEC: &str = "/api/v1/namespaces/default/pods/web/exec?command=sleep&stdout=1";

#[tokio::test]
async fn a_session_is_refused_before_it_begins() {
    let cluster = Cluster::new().await;
    let spdy = http::HeaderMap::from_iter([
        (CONNECTION, "Upgrade".parse().expect("a header")),
        (UPGRADE, "SPDY/3.1".parse().expect("a header")),
    ]);
    let pods = "/api/v1/namespaces/default/pods";
    let choose = "a container name must be specified for pod pair, choose one of: [a b]";
    let rows = [
        ("no Pod", "none/exec?command=ls&stdout=1", websocket(V5), 404, "pods \"none\" not found"),
        (
            "no container",
            "web/exec?command=ls&stdout=1&container=x",
            websocket(V5),
            400,
            "container x is not valid for pod web",
        ),
        ("one of two", "pair/attach?stdout=1", websocket(V5), 400, choose),
        (
            "no node",
            "waiting/exec?command=ls&stdout=1",
            websocket(V5),
            400,
            "pod waiting does not have a host assigned",
        ),
        ("no stream", "web/attach", websocket(V5), 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ("a plain request", "web/attach?stdout=1", http::HeaderMap::new(), 400, "Upgrade request required"),
        ("SPDY", "web/attach?stdout=1", spdy, 400, "this server speaks WebSockets and not SPDY"),
        (
            "an unknown protocol",
            "web/attach?stdout=1",
            websocket("v9"),
            403,
            "forbidden: requested protocol(s) are not supported: [v9]",
        ),
    ];
    for (row, path, headers, code, words) in rows {
        let refused = cluster.open(&admin(), Method::GET, &format!("{pods}/{path}"), &headers).await;
        let Err((found, message)) = refused else { panic!("{row} has a session") };
        assert_eq!(found, code, "{row}: {message}");
        assert!(message.starts_with(words), "{row}: {message}");
    }
    assert_eq!(cluster.pods.open.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn until_something_runs_pods_none_can_be_reached() {
    let cluster = Cluster::unconnected(Limits::default()).await;
    let refused = cluster.open(&admin(), Method::GET, EXEC, &websocket(V5)).await;
    let Err((code, message)) = refused else { panic!("nobody could run it") };
    assert_eq!(code, 503, "{message}");
    assert!(message.contains("nothing that runs Pods is connected"), "{message}");
    let (code, _) = cluster.ask(Method::GET, &format!("{POD}/log"), Value::Null).await;
    assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn a_user_has_so_many_sessions_at_once() {
    let limits = Limits { streams: Allowance { each: 1, all: 2 }, ..Limits::default() };
    let cluster = Cluster::limited(limits).await;
    let first = cluster.session(EXEC, V5).await;
    let Err((code, _)) = cluster.open(&admin(), Method::GET, EXEC, &websocket(V5)).await else {
        panic!("one too many")
    };
    assert_eq!(code, 429);
    let (code, _) = cluster.ask(Method::GET, &format!("{POD}/log"), Value::Null).await;
    assert_eq!(code, StatusCode::TOO_MANY_REQUESTS, "a log counts too");
    drop(first);
    until("it is over", || cluster.pods.open.load(Ordering::SeqCst) == 0).await;
    within("the next one", async {
        while cluster.open(&admin(), Method::GET, EXEC, &websocket(V5)).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Gives a user a role of its own in the namespace.
async fn allow(cluster: &Cluster, user: &str, resource: &str, verbs: &[&str]) {
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let rules = json!([{"apiGroups": [""], "resources": [resource], "verbs": verbs}]);
    cluster.write(&format!("{rbac}/roles"), json!({"metadata": {"name": user}, "rules": rules})).await;
    let binding = json!({
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    cluster.write(&format!("{rbac}/rolebindings"), binding).await;
}

#[tokio::test]
async fn who_may_only_look_has_no_session() {
    let cluster = Cluster::new().await;
    let rows: [(&str, &str, &[&str], Option<&str>); 4] = [
        ("nobody", "pods/log", &["get"], Some("get")),
        ("looker", "pods/exec", &["get"], Some("create")),
        ("poster", "pods/exec", &["create"], Some("get")),
        ("actor", "pods/exec", &["get", "create"], None),
    ];
    for (user, resource, verbs, missing) in rows {
        allow(&cluster, user, resource, verbs).await;
        let who = Identity::new(user, Vec::<String>::new());
        let opened = cluster.open(&who, Method::GET, EXEC, &websocket(V5)).await;
        let refused = opened.err().map(|(code, message)| (code, message));
        let expected = missing.map(|verb| {
            let why = format!(
                "User \"{user}\" cannot {verb} resource \"pods/exec\" in API group \"\" in the namespace \"default\""
            );
            (403, format!("pods \"web\" is forbidden: {why}"))
        });
        assert_eq!(refused, expected, "{user}");
    }
}

#[tokio::test]
async fn a_session_ends_with_the_right_to_it() {
    let cluster = Cluster::new().await;
    allow(&cluster, "ada", "pods/exec", &["get", "create"]).await;
    let ada = Identity::new("ada", Vec::<String>::new());
    let Ok(client) = cluster.open(&ada, Method::GET, EXEC, &websocket(V5)).await else { panic!("it is allowed") };
    until("it runs", || cluster.pods.open.load(Ordering::SeqCst) == 1).await;
    let role = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/ada";
    cluster.ask(Method::DELETE, role, Value::Null).await;
    let [.., end] = client.rest().await;
    assert!(message(&end).starts_with("pods \"web\" is forbidden: User \"ada\" cannot get resource"), "{end}");
    until("it is over", || cluster.pods.open.load(Ordering::SeqCst) == 0).await;
}
