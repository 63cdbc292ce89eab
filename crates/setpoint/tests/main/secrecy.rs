//! Nothing that is secret is found in anything the server wrote, nor in any of its refusals.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};
use bytes::Bytes;
use http::{Method, Request};
use serde_json::{Value, json};
use setpoint_testkit::{Client, Kubeconfig, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::SETPOINT;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Texts that must stay secret, and a counter that makes each of them unlike any other.
#[derive(Debug, Default)]
struct Planted(Vec<(String, &'static str)>);

impl Planted {
    fn plant(&mut self, how: &'static str) -> String {
        let text = format!("planted{:016x}", rand::random::<u64>());
        self.0.push((text.clone(), how));
        text
    }

    /// Something secret that the server itself made.
    fn found(&mut self, text: &str, how: &'static str) {
        self.0.push((text.to_owned(), how));
    }
}

#[tokio::test]
async fn nothing_the_server_wrote_holds_a_secret() -> Result<()> {
    let mut server = Server::new(SETPOINT, &["--store", "embedded"])?.environment("SETPOINT_LOG", "trace");
    server.restart().await?;
    let (mut planted, mut refusals) = (Planted::default(), Vec::new());
    // What is not secret is found: so the search would find a secret too.
    let plain = format!("plain{:016x}", rand::random::<u64>());
    let config_map = json!({"metadata": {"name": "plain"}, "data": {"text": plain}});
    server.client()?.post(CONFIG_MAPS, &config_map).await?.success()?;

    write_secrets(&mut server.client()?, &mut planted).await?;
    send_bad_secrets(&mut server.client()?, &mut planted, &mut refusals).await?;
    use_credentials(&server, &mut planted, &mut refusals).await?;
    server.restart().await?;
    server.client()?.delete(&format!("{SECRETS}/json")).await?.success()?;
    let status = server.terminate().await?;
    ensure!(status.success(), "{status}");

    let data = server.data_dir();
    planted.found(fs::read_to_string(data.join("admin.token"))?.trim(), "the administrator's token");
    let mut written: Vec<(PathBuf, Vec<u8>)> = files(&data)?;
    ensure!(written.iter().any(|(_, content)| holds(content, plain.as_bytes())), "the store holds the ConfigMap");
    ensure!(written.iter().any(|(path, _)| path.ends_with("audit/audit.log")), "there is an audit log");
    written.push((PathBuf::from("standard error"), server.log().into_bytes()));
    written.push((PathBuf::from("standard output"), server.stdout().into_bytes()));
    written.push((PathBuf::from("the refusals"), refusals));
    ensure!(server.log().contains("DEBUG"), "the log is as talkative as it was told to be");
    for (secret, how) in &planted.0 {
        for form in forms(secret) {
            for (path, content) in &written {
                let keeps = how.contains("administrator") && is_administrators(path);
                ensure!(keeps || !holds(content, &form), "{} holds {how}", path.display());
            }
        }
    }
    for (path, _) in files(&data)? {
        let mode = fs::metadata(&path)?.permissions().mode() & 0o077;
        let below_store = path.starts_with(data.join("store"));
        ensure!(mode == 0 || below_store, "{} can be read by others", path.display());
    }
    Ok(())
}

/// The two files that are there to hold the administrator's token.
fn is_administrators(path: &Path) -> bool {
    path.ends_with("admin.token") || path.ends_with("kubeconfig")
}

/// A Secret by every way that leads into the store.
async fn write_secrets(client: &mut Client, planted: &mut Planted) -> Result<()> {
    let data = |text: String| json!({"key": BASE64_STANDARD.encode(text)});
    let head = |name: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
    let with = |name: &str, field: &str, value: Value| {
        let mut secret = head(name);
        secret[field] = value;
        secret
    };
    let created = with("json", "data", data(planted.plant("a created Secret")));
    client.post(SECRETS, &created).await?.success()?;
    let text = json!({"key": planted.plant("a Secret given as text")});
    client.post(SECRETS, &with("text", "stringData", text)).await?.success()?;
    let replaced = with("json", "data", data(planted.plant("a replaced Secret")));
    client.put(&format!("{SECRETS}/json"), &replaced).await?.success()?;
    for kind in ["merge-patch", "strategic-merge-patch"] {
        let patch = json!({"data": data(planted.plant("a patched Secret"))});
        client.patch(&format!("{SECRETS}/json"), kind, &patch).await?.success()?;
    }
    let value = BASE64_STANDARD.encode(planted.plant("a Secret patched at a path"));
    let patch = json!([{"op": "replace", "path": "/data/key", "value": value}]);
    client.patch(&format!("{SECRETS}/json"), "json-patch", &patch).await?.success()?;
    let applied = with("applied", "data", data(planted.plant("an applied Secret")));
    client.apply(&format!("{SECRETS}/applied?fieldManager=test"), &applied).await?.success()?;
    let note = planted.plant("what a client notes on a Secret it applied");
    let annotations = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": note}}});
    client.patch(&format!("{SECRETS}/applied"), "merge-patch", &annotations).await?.success()?;
    Ok(())
}

/// Secrets that are wrong in every way that a refusal might want to quote.
async fn send_bad_secrets(client: &mut Client, planted: &mut Planted, refusals: &mut Vec<u8>) -> Result<()> {
    let mut secret = || planted.plant("a refused Secret");
    let rows: Vec<(&str, Method, String, &str, String)> = vec![
        ("not base64", Method::POST, SECRETS.into(), "json", format!(r#"{{"data":{{"key":"!{}"}}}}"#, secret())),
        ("a number", Method::POST, SECRETS.into(), "json", format!(r#"{{"data":["{}"]}}"#, secret())),
        ("cut off", Method::POST, SECRETS.into(), "json", format!(r#"{{"stringData":{{"key":"{}"#, secret())),
        (
            "an unknown field",
            Method::POST,
            format!("{SECRETS}?fieldValidation=Strict"),
            "json",
            format!(r#"{{"metadata":{{"name":"a"}},"stringdata":{{"key":"{}"}}}}"#, secret()),
        ),
        (
            "a field given twice",
            Method::POST,
            format!("{SECRETS}?fieldValidation=Strict"),
            "json",
            format!(r#"{{"metadata":{{"name":"a"}},"stringData":{{"k":"{0}","k":"{0}"}}}}"#, secret()),
        ),
        (
            "a bad key",
            Method::POST,
            SECRETS.into(),
            "json",
            format!(r#"{{"metadata":{{"name":"a"}},"stringData":{{"a b":"{}"}}}}"#, secret()),
        ),
        (
            "not a docker login",
            Method::POST,
            SECRETS.into(),
            "json",
            format!(
                r#"{{"metadata":{{"name":"a"}},"type":"kubernetes.io/dockerconfigjson","stringData":{{".dockerconfigjson":"{{{}"}}}}"#,
                secret()
            ),
        ),
        (
            "half a certificate",
            Method::POST,
            SECRETS.into(),
            "json",
            format!(
                r#"{{"metadata":{{"name":"a"}},"type":"kubernetes.io/tls","stringData":{{"tls.key":"{}"}}}}"#,
                secret()
            ),
        ),
        ("bad YAML", Method::POST, SECRETS.into(), "yaml", format!("stringData:\n  key: {}\n bad: [", secret())),
        ("protobuf", Method::POST, SECRETS.into(), "vnd.kubernetes.protobuf", format!("k8s\0{}", secret())),
        (
            "a failed test in a patch",
            Method::PATCH,
            format!("{SECRETS}/json"),
            "json-patch+json",
            format!(r#"[{{"op":"test","path":"/data/key","value":"{}"}}]"#, secret()),
        ),
        (
            "a patch of the wrong type",
            Method::PATCH,
            format!("{SECRETS}/json"),
            "merge-patch+json",
            format!(r#"{{"data":{{"key":{{"inner":"{}"}}}}}}"#, secret()),
        ),
        (
            "a bad apply",
            Method::PATCH,
            format!("{SECRETS}/applied?fieldManager=other"),
            "apply-patch+yaml",
            format!(
                r#"{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"applied"}},"data":{{"key":"{}"}}}}"#,
                BASE64_STANDARD.encode(secret())
            ),
        ),
        (
            "an old revision",
            Method::PUT,
            format!("{SECRETS}/json"),
            "json",
            format!(r#"{{"metadata":{{"name":"json","resourceVersion":"1"}},"stringData":{{"key":"{}"}}}}"#, secret()),
        ),
        (
            "too large",
            Method::POST,
            SECRETS.into(),
            "json",
            format!(r#"{{"metadata":{{"name":"a"}},"stringData":{{"key":"{}{}"}}}}"#, secret(), "x".repeat(1_100_000)),
        ),
    ];
    for (row, method, path, media_type, body) in rows {
        let content_type = format!("application/{media_type}");
        let request = Request::builder().method(method).uri(&path).header("content-type", content_type);
        let answer = client.send(request.body(Bytes::from(body))?).await?;
        ensure!(answer.status.is_client_error(), "{row}: {} {}", answer.status, answer.text());
        ensure!(!holds(&answer.body, b"planted"), "{row}: {}", answer.text());
        refusals.extend_from_slice(&answer.body);
    }
    Ok(())
}

/// Tokens and keys that are right, wrong, reviewed and revoked.
async fn use_credentials(server: &Server, planted: &mut Planted, refusals: &mut Vec<u8>) -> Result<()> {
    let setpoint = |arguments: &[&str]| -> Result<String> {
        let output = Command::new(SETPOINT).args(arguments).arg("--data-dir").arg(server.data_dir()).output()?;
        ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    };
    let with_token = setpoint(&["user", "create", "ann", "--token"])?;
    let ann = Kubeconfig::parse(&with_token, server.folder())?;
    planted.found(ann.token.as_deref().context("a token")?, "a user's token");
    let with_key = setpoint(&["user", "create", "bob"])?;
    let key = serde_saphyr::from_str::<Value>(&with_key)?["users"][0]["user"]["client-key-data"].take();
    let key = String::from_utf8(BASE64_STANDARD.decode(key.as_str().context("a key")?)?)?;
    planted.found(key.lines().nth(1).context("a key in lines")?, "a user's key");
    let bob = Kubeconfig::parse(&with_key, server.folder())?;
    for user in [&ann, &bob] {
        let refused = Client::new(user)?.get(SECRETS).await?;
        ensure!(refused.status == 403, "{}", refused.text());
        refusals.extend_from_slice(&refused.body);
    }

    // Without TLS, which the log tells at its most talkative.
    let mut plain = TcpStream::connect((ann.host.as_str(), ann.port)).await?;
    let request = format!("GET / HTTP/1.1\r\nAuthorization: Bearer {}\r\n\r\n", planted.plant("a token in plain text"));
    plain.write_all(request.as_bytes()).await?;
    plain.read_to_end(refusals).await?;

    let mut client = server.client()?;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    client.post(accounts, &json!({"metadata": {"name": "robot"}})).await?.success()?;
    let token = client.post(&format!("{accounts}/robot/token"), &json!({"spec": {}})).await?.success()?;
    let token = token["status"]["token"].as_str().context("a token")?.to_owned();
    let signature = token.rsplit('.').next().context("a signature")?;
    planted.found(signature, "the signature of a service account's token");
    let wrong = planted.plant("a wrong token");
    for token in [&token, &wrong] {
        let review = json!({"spec": {"token": token}});
        client.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await?.success()?;
        for authorization in [format!("Bearer {token}"), format!("Basic {token}"), format!("Bearer {token}x")] {
            let request = Request::delete(format!("{SECRETS}/json")).header("authorization", authorization);
            let answer = server.client()?.send(request.body(Bytes::new())?).await?;
            ensure!(answer.status.is_client_error(), "{}", answer.text());
            refusals.extend_from_slice(&answer.body);
        }
    }
    setpoint(&["user", "revoke", "ann"])?;
    let revoked = Client::new(&ann)?.get(SECRETS).await?;
    ensure!(revoked.status == 401, "{}", revoked.text());
    refusals.extend_from_slice(&revoked.body);
    ensure!(
        !holds(setpoint(&["user", "list"])?.as_bytes(), ann.token.unwrap_or_default().as_bytes()),
        "a list of tokens"
    );
    Ok(())
}

/// A text as it is, in base64 wherever it may begin, and in hexadecimal.
fn forms(text: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![text.as_bytes().to_vec()];
    for shift in 0..3 {
        let shifted = [&b"\0\0"[..shift], text.as_bytes()].concat();
        let encoded = BASE64_STANDARD_NO_PAD.encode(shifted);
        // The characters at both ends also depend on what stands beside the text.
        forms.push(encoded.as_bytes()[4..encoded.len() - 4].to_vec());
    }
    forms.push(text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>().into_bytes());
    forms
}

fn files(folder: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => found.extend(files(&path)?),
            false => found.push((path.clone(), fs::read(&path)?)),
        }
    }
    Ok(found)
}

fn holds(content: &[u8], text: &[u8]) -> bool {
    memchr::memmem::find(content, text).is_some()
}
