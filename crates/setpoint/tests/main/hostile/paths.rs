//! Paths, hosts and methods that mean one thing to one reader and another to the next.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{CONFIG_MAPS, Victim, send_raw, status};

const PLANTED: &str = "planted-where-nobody-looks";

/// What may stand between the method and the version, and what the administrator gets for it: an answer that blames them,
/// or the same as for the plain path.
const TRICKS: &[(&str, &[u16])] = &[
    ("/api/v1/namespaces/default/../kube-system/configmaps", &[400]),
    ("/api/v1/namespaces/default/configmaps/../secrets", &[400]),
    ("/api/v1/namespaces/default/./configmaps", &[400]),
    ("/api/v1/namespaces/%2e%2e/configmaps", &[400]),
    ("/api/v1/namespaces/default%2fconfigmaps", &[400]),
    ("/api/v1/namespaces/default%2Fconfigmaps%2Fplanted", &[400]),
    ("/api/v1/namespaces/default%252fconfigmaps", &[400]),
    ("//api//v1//namespaces//default//configmaps", &[200]),
    ("/api/v1/namespaces//configmaps", &[200, 400, 404]),
    ("/api/v1/namespaces/default/configmaps//", &[200]),
    ("/api/v1/namespaces/default/configmaps/a%00b", &[400]),
    ("/api/v1/namespaces/default/configmaps/%c0%af", &[400]),
    ("/api/v1/namespaces/default/configmaps/%c0%ae%c0%ae", &[400]),
    ("/api/v1/namespaces/default/configmaps/%e0%80%af", &[400]),
    ("/api/v1/namespaces/default/configmaps/%", &[400, 404]),
    ("/api/v1/namespaces/default/configmaps/%zz", &[400, 404]),
    ("/api/v1/namespaces/default/configmaps;a=b", &[404]),
    ("/api/v1/namespaces/default/configmaps/..;/secrets", &[404]),
    ("/api\\v1\\namespaces", &[400, 404]),
    ("/api/v1/namespaces/default/configmaps/..\\..\\secrets", &[400, 404]),
    ("/API/v1/namespaces/default/configmaps", &[404]),
    ("/healthz/../api/v1/namespaces/default/configmaps", &[400]),
    ("/healthz%2f..%2fapi/v1/namespaces/default/configmaps", &[400]),
    ("/healthz/..;/api/v1/namespaces/default/configmaps", &[404]),
    ("/healthz/ping/../../api/v1/namespaces/default/configmaps", &[400]),
    ("/readyz?/api/v1/namespaces/default/configmaps", &[200]),
    ("/readyz/%2e%2e", &[400]),
    ("https://elsewhere.example/api/v1/namespaces/default/configmaps", &[200]),
    ("http://localhost/healthz/../api/v1/namespaces/default/configmaps", &[400]),
    ("/api/v1/namespaces/default/configmaps#/healthz", &[200, 400]),
    ("api/v1/namespaces/default/configmaps", &[400]),
    ("*", &[400, 404, 405]),
    ("", &[400]),
];

const HEADS: &[(&str, &str, &[u16])] = &[
    ("another host", "Host: elsewhere.example", &[200]),
    ("two hosts", "Host: a\r\nHost: b", &[200, 400]),
    ("no host", "X: a", &[200, 400]),
    ("a host with a path", "Host: a/healthz", &[200, 400]),
    ("another method", "Host: a\r\nX-HTTP-Method-Override: DELETE", &[200]),
    ("another address", "Host: a\r\nX-Original-URL: /healthz\r\nX-Rewrite-URL: /healthz", &[200]),
    ("a user by a proxy", "Host: a\r\nX-Remote-User: admin\r\nX-Remote-Group: system:masters", &[200]),
    ("from here", "Host: a\r\nX-Forwarded-For: 127.0.0.1\r\nForwarded: for=127.0.0.1", &[200]),
    ("two lengths", "Host: a\r\nContent-Length: 0\r\nContent-Length: 5", &[400]),
    ("a length and chunks", "Host: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked", &[400, 408]),
    ("chunks that are none", "Host: a\r\nTransfer-Encoding: xchunked", &[400]),
    ("a folded line", "Host: a\r\nX: b\r\n Authorization: c", &[400]),
    ("a space before the colon", "Host: a\r\nAuthorization : Bearer x", &[400]),
    ("a bare line end", "Host: a\nX: b", &[200, 400]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_trick_gets_anybody_anywhere() -> Result<()> {
    let victim = Victim::start().await?;
    let kubeconfig = victim.server.kubeconfig()?;
    let token = kubeconfig.token.clone().context("the administrator has a token")?;
    let mut client = victim.server.client()?;
    for namespace in ["default", "kube-system"] {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": PLANTED}});
        client.post(&format!("/api/v1/namespaces/{namespace}/configmaps"), &object).await?.success()?;
    }
    let tricks = TRICKS.iter().map(|(path, expected)| (*path, *path, "Host: a", *expected));
    let heads = HEADS.iter().map(|(row, head, expected)| (*row, CONFIG_MAPS, *head, *expected));
    for (row, path, head, expected) in tricks.chain(heads) {
        let known =
            format!("GET {path} HTTP/1.1\r\n{head}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n");
        let answer = send_raw(&kubeconfig, known.as_bytes()).await?;
        ensure!(expected.contains(&status(&answer)), "{row}: {answer}");
        ensure!(
            !answer.contains("\"namespace\":\"kube-system\"") || path == "/api/v1/namespaces//configmaps",
            "{row} leads into another namespace: {answer}"
        );

        let stranger = format!("GET {path} HTTP/1.1\r\n{head}\r\nConnection: close\r\n\r\n");
        let answer = send_raw(&kubeconfig, stranger.as_bytes()).await?;
        let told_of_health = path.starts_with("/readyz") && status(&answer) == 200;
        ensure!(told_of_health || [0, 400, 401, 404, 405].contains(&status(&answer)), "{row}, by a stranger: {answer}");
        ensure!(!answer.contains(PLANTED), "{row} lets a stranger in: {answer}");
    }
    victim.survives().await
}
