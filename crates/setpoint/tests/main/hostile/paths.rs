//! Paths, hosts and methods that mean one thing to one reader and another to the next.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{CONFIG_MAPS, Victim, send_raw, status};

const PLANTED: &str = "planted-where-nobody-looks";

/// What may stand between the method and the version, and whether it may lead anywhere for somebody with all rights: all
/// others get an answer that blames the client.
const TRICKS: &[(&str, bool)] = &[
    ("/api/v1/namespaces/default/../kube-system/configmaps", false),
    ("/api/v1/namespaces/default/configmaps/../secrets", false),
    ("/api/v1/namespaces/default/./configmaps", false),
    ("/api/v1/namespaces/%2e%2e/configmaps", false),
    ("/api/v1/namespaces/default%2fconfigmaps", false),
    ("/api/v1/namespaces/default%2Fconfigmaps%2Fplanted", false),
    ("/api/v1/namespaces/default%252fconfigmaps", false),
    ("//api//v1//namespaces//default//configmaps", true),
    ("/api/v1/namespaces//configmaps", true),
    ("/api/v1/namespaces/default/configmaps//", true),
    ("/api/v1/namespaces/default/configmaps/a%00b", false),
    ("/api/v1/namespaces/default/configmaps/%c0%af", false),
    ("/api/v1/namespaces/default/configmaps/%c0%ae%c0%ae", false),
    ("/api/v1/namespaces/default/configmaps/%e0%80%af", false),
    ("/api/v1/namespaces/default/configmaps/%", false),
    ("/api/v1/namespaces/default/configmaps/%zz", false),
    ("/api/v1/namespaces/default/configmaps;a=b", false),
    ("/api/v1/namespaces/default/configmaps/..;/secrets", false),
    ("/api\\v1\\namespaces", false),
    ("/api/v1/namespaces/default/configmaps/..\\..\\secrets", false),
    ("/API/v1/namespaces/default/configmaps", false),
    ("/healthz/../api/v1/namespaces/default/configmaps", false),
    ("/healthz%2f..%2fapi/v1/namespaces/default/configmaps", false),
    ("/healthz/..;/api/v1/namespaces/default/configmaps", false),
    ("/healthz/ping/../../api/v1/namespaces/default/configmaps", false),
    ("/readyz?/api/v1/namespaces/default/configmaps", true),
    ("/readyz/%2e%2e", false),
    ("https://elsewhere.example/api/v1/namespaces/default/configmaps", true),
    ("http://localhost/healthz/../api/v1/namespaces/default/configmaps", false),
    ("/api/v1/namespaces/default/configmaps#/healthz", true),
    ("api/v1/namespaces/default/configmaps", false),
    ("*", false),
    ("", false),
];

/// Headers beside a plain path.
const HEADS: &[(&str, &str, bool)] = &[
    ("another host", "Host: elsewhere.example", true),
    ("two hosts", "Host: a\r\nHost: b", true),
    ("no host", "X: a", true),
    ("a host with a path", "Host: a/healthz", true),
    ("another method", "Host: a\r\nX-HTTP-Method-Override: DELETE", true),
    ("another address", "Host: a\r\nX-Original-URL: /healthz\r\nX-Rewrite-URL: /healthz", true),
    ("a user by a proxy", "Host: a\r\nX-Remote-User: admin\r\nX-Remote-Group: system:masters", true),
    ("from here", "Host: a\r\nX-Forwarded-For: 127.0.0.1\r\nForwarded: for=127.0.0.1", true),
    ("two lengths", "Host: a\r\nContent-Length: 0\r\nContent-Length: 5", false),
    ("a length and chunks", "Host: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked", true),
    ("chunks that are none", "Host: a\r\nTransfer-Encoding: xchunked", false),
    ("a folded line", "Host: a\r\nX: b\r\n Authorization: c", false),
    ("a space before the colon", "Host: a\r\nAuthorization : Bearer x", false),
    ("a bare line end", "Host: a\nX: b", true),
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
    let tricks = TRICKS.iter().map(|(path, leads)| (*path, *path, "Host: a", *leads));
    let heads = HEADS.iter().map(|(row, head, leads)| (*row, CONFIG_MAPS, *head, *leads));
    // What ends a body in chunks, and is not looked at where there is none.
    const END: &str = "0\r\n\r\n";
    for (row, path, head, leads) in tricks.chain(heads) {
        let known =
            format!("GET {path} HTTP/1.1\r\n{head}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n{END}");
        let answer = send_raw(&kubeconfig, known.as_bytes()).await.with_context(|| row.to_owned())?;
        let code = status(&answer);
        ensure!((400..500).contains(&code) || (leads && code == 200), "{row}: {answer}");
        ensure!(
            !answer.contains("\"namespace\":\"kube-system\"") || path == "/api/v1/namespaces//configmaps",
            "{row} leads into another namespace: {answer}"
        );

        let stranger = format!("GET {path} HTTP/1.1\r\n{head}\r\nConnection: close\r\n\r\n{END}");
        let answer = send_raw(&kubeconfig, stranger.as_bytes()).await.with_context(|| format!("{row}, by a stranger"))?;
        let told_of_health = path.starts_with("/readyz") && status(&answer) == 200;
        ensure!(told_of_health || (400..500).contains(&status(&answer)), "{row}, by a stranger: {answer}");
        ensure!(!answer.contains(PLANTED), "{row} lets a stranger in: {answer}");
    }
    victim.survives().await
}
