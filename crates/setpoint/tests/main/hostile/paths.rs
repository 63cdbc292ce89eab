//! Paths, hosts and methods that mean one thing to one reader and another to the next.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{CONFIG_MAPS, Victim, send_raw, status};

const PLANTED: &str = "planted-where-nobody-looks";

/// What may stand between the method and the version, what somebody with all rights is told, and what a stranger.
const TRICKS: &[(&str, u16, u16)] = &[
    ("/api/v1/namespaces/default/../kube-system/configmaps", 400, 401),
    ("/api/v1/namespaces/default/configmaps/../secrets", 400, 401),
    ("/api/v1/namespaces/default/./configmaps", 400, 401),
    ("/api/v1/namespaces/%2e%2e/configmaps", 400, 401),
    ("/api/v1/namespaces/default%2fconfigmaps", 400, 401),
    ("/api/v1/namespaces/default%2Fconfigmaps%2Fplanted", 400, 401),
    ("/api/v1/namespaces/default%252fconfigmaps", 400, 401),
    ("//api//v1//namespaces//default//configmaps", 200, 401),
    ("/api/v1/namespaces//configmaps", 404, 401),
    ("/api/v1/namespaces/default/configmaps//", 200, 401),
    ("/api/v1/namespaces/default/configmaps/a%00b", 400, 401),
    ("/api/v1/namespaces/default/configmaps/%c0%af", 400, 401),
    ("/api/v1/namespaces/default/configmaps/%c0%ae%c0%ae", 400, 401),
    ("/api/v1/namespaces/default/configmaps/%e0%80%af", 400, 401),
    ("/api/v1/namespaces/default/configmaps/%", 400, 401),
    ("/api/v1/namespaces/default/configmaps/%zz", 400, 401),
    ("/api/v1/namespaces/default/configmaps;a=b", 404, 401),
    ("/api/v1/namespaces/default/configmaps/..;/secrets", 404, 401),
    ("/api\\v1\\namespaces", 404, 401),
    ("/api/v1/namespaces/default/configmaps/..\\..\\secrets", 404, 401),
    ("/API/v1/namespaces/default/configmaps", 404, 401),
    ("/healthz/../api/v1/namespaces/default/configmaps", 400, 401),
    ("/healthz%2f..%2fapi/v1/namespaces/default/configmaps", 400, 401),
    ("/healthz/..;/api/v1/namespaces/default/configmaps", 404, 401),
    ("/healthz/ping/../../api/v1/namespaces/default/configmaps", 400, 401),
    ("/readyz?/api/v1/namespaces/default/configmaps", 200, 200),
    ("/readyz/%2e%2e", 400, 401),
    ("https://elsewhere.example/api/v1/namespaces/default/configmaps", 200, 401),
    ("http://localhost/healthz/../api/v1/namespaces/default/configmaps", 400, 401),
    ("/api/v1/namespaces/default/configmaps#/healthz", 200, 401),
    ("api/v1/namespaces/default/configmaps", 400, 400),
    ("*", 404, 401),
    ("", 400, 400),
];

/// Headers beside a plain path, and the same.
const HEADS: &[(&str, &str, u16, u16)] = &[
    ("another host", "Host: elsewhere.example", 200, 401),
    ("two hosts", "Host: a\r\nHost: b", 200, 401),
    ("no host", "X: a", 200, 401),
    ("a host with a path", "Host: a/healthz", 200, 401),
    ("another method", "Host: a\r\nX-HTTP-Method-Override: DELETE", 200, 401),
    ("another address", "Host: a\r\nX-Original-URL: /healthz\r\nX-Rewrite-URL: /healthz", 200, 401),
    ("a user by a proxy", "Host: a\r\nX-Remote-User: admin\r\nX-Remote-Group: system:masters", 200, 401),
    ("from here", "Host: a\r\nX-Forwarded-For: 127.0.0.1\r\nForwarded: for=127.0.0.1", 200, 401),
    ("two lengths", "Host: a\r\nContent-Length: 0\r\nContent-Length: 5", 400, 400),
    ("a length and chunks", "Host: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked", 200, 401),
    ("chunks that are none", "Host: a\r\nTransfer-Encoding: xchunked", 400, 400),
    ("a folded line", "Host: a\r\nX: b\r\n Authorization: c", 400, 400),
    ("a space before the colon", "Host: a\r\nAuthorization : Bearer x", 400, 400),
    ("a bare line end", "Host: a\nX: b", 200, 401),
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
    let tricks = TRICKS.iter().map(|(path, known, stranger)| (*path, *path, "Host: a", *known, *stranger));
    let heads = HEADS.iter().map(|(row, head, known, stranger)| (*row, CONFIG_MAPS, *head, *known, *stranger));
    // What ends a body in chunks, and is not looked at where there is none.
    const END: &str = "0\r\n\r\n";
    for (row, path, head, to_known, to_stranger) in tricks.chain(heads) {
        let known =
            format!("GET {path} HTTP/1.1\r\n{head}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n{END}");
        let answer = send_raw(&kubeconfig, known.as_bytes()).await.with_context(|| row.to_owned())?;
        ensure!(status(&answer) == to_known, "{row}: {answer}");
        ensure!(!answer.contains("\"namespace\":\"kube-system\""), "{row} leads into another namespace: {answer}");

        let stranger = format!("GET {path} HTTP/1.1\r\n{head}\r\nConnection: close\r\n\r\n{END}");
        let answer =
            send_raw(&kubeconfig, stranger.as_bytes()).await.with_context(|| format!("{row}, by a stranger"))?;
        ensure!(status(&answer) == to_stranger, "{row}, by a stranger: {answer}");
        ensure!(!answer.contains(PLANTED), "{row} lets a stranger in: {answer}");
    }
    victim.survives().await
}
