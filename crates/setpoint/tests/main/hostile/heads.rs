//! Heads that never end, bodies that trickle, handshakes that nobody finishes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use setpoint_testkit::client::connect_tls;
use setpoint_testkit::wait_for;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{CONFIG_MAPS, MIB, PATIENCE, Victim, allow_open_files, send_raw, status};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_are_bounded_in_every_direction() -> Result<()> {
    let victim = Victim::start().await?;
    let kubeconfig = victim.server.kubeconfig()?;
    let many: String = (0..200).map(|number| format!("X-{number}: a\r\n")).collect();
    let rows = [
        ("too many", format!("GET /readyz HTTP/1.1\r\nHost: a\r\n{many}\r\n"), 431),
        ("one too long", format!("GET /readyz HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(1 << 18)), 431),
        ("a long address", format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(70_000)), 414),
        ("one line for ever", "a".repeat(4 << 20), 400),
    ];
    for (row, request, expected) in rows {
        let answer = send_raw(&kubeconfig, request.as_bytes()).await?;
        // A connection that is closed with something unread may take the answer with it.
        ensure!([expected, 431, 0].contains(&status(&answer)), "{row}: {answer}");
    }
    victim.ensure_growth_below(64 * MIB)?;
    victim.survives().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_head_is_cut_off() -> Result<()> {
    const MOST: usize = 16 << 20;
    let victim = Victim::start().await?;
    let kubeconfig = victim.server.kubeconfig()?;
    let endless = (0..50).map(async |_| {
        let mut stream = connect_tls(&kubeconfig).await?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\n").await?;
        let mut sent = 0;
        let line = format!("X: {}\r\n", "a".repeat(4096));
        while sent < MOST && timeout(PATIENCE, stream.write_all(line.as_bytes())).await?.is_ok() {
            sent += line.len();
        }
        ensure!(sent < MOST, "{sent} bytes of a head were taken");
        Ok(())
    });
    try_join_all(endless).await?;
    victim.ensure_growth_below(64 * MIB)?;
    victim.survives().await
}

/// Heads that go on to just below their bound, and are left there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_heads_may_be_long_at_once() -> Result<()> {
    const HEADS: usize = 1_000;
    /// How many may be long, and what each of all may cost beside.
    const LONG: u64 = 256;
    const EACH: u64 = 64 * 1024;
    allow_open_files(HEADS as u64 + 200)?;
    let victim = Victim::start().await?;
    let kubeconfig = victim.server.kubeconfig()?;
    let begin = async || {
        let mut stream = connect_tls(&kubeconfig).await?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\n").await?;
        let line = format!("X: {}\r\n", "a".repeat(4096));
        for _ in 0..24 {
            if stream.write_all(line.as_bytes()).await.is_err() {
                break;
            }
        }
        let _ = stream.flush().await;
        anyhow::Ok(stream)
    };
    let mut heads = Vec::new();
    for _ in 0..HEADS / 50 {
        heads.extend(try_join_all((0..50).map(|_| begin())).await?);
    }
    victim.ensure_growth_below(LONG * 256 * 1024 + HEADS as u64 * EACH)?;
    let mut open = 0;
    for stream in &mut heads {
        open += u64::from(timeout(Duration::from_millis(5), stream.read(&mut [0])).await.is_err());
    }
    ensure!((1..=LONG).contains(&open), "{open} of {HEADS} long heads are still being read");
    // A selector of many names, by somebody who is known.
    drop(heads);
    let names = vec!["some-name"; 4_000].join(",");
    let selected = format!("{CONFIG_MAPS}?labelSelector=name+in+({names})");
    wait_for("room for a long head", PATIENCE, || async {
        let answer = victim.server.client()?.get(&selected).await;
        Ok(answer.is_ok_and(|answer| answer.status == 200).then_some(()))
    })
    .await?;
    victim.survives().await
}

/// Health is told to strangers, who need not send what they announce.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_waits_for_nobody() -> Result<()> {
    let victim = Victim::start().await?;
    let kubeconfig = victim.server.kubeconfig()?;
    for (row, head) in [("a length", "Content-Length: 100"), ("chunks", "Transfer-Encoding: chunked")] {
        let mut stream = connect_tls(&kubeconfig).await?;
        stream.write_all(format!("GET /healthz HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n").as_bytes()).await?;
        stream.flush().await?;
        let mut answer = Vec::new();
        // The end of the connection, which may be abrupt.
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.with_context(|| row.to_owned())?;
        let answer = String::from_utf8_lossy(&answer);
        ensure!(status(&answer) == 200 && answer.ends_with("ok"), "{row}: {answer}");
    }
    victim.survives().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_trickle_take_nothing_from_others() -> Result<()> {
    let victim = Victim::start().await?;
    let kubeconfig = victim.server.kubeconfig()?;
    let token = kubeconfig.token.clone().context("the administrator has a token")?;
    let open = |length: usize| {
        let (kubeconfig, token) = (&kubeconfig, &token);
        async move {
            let mut stream = connect_tls(kubeconfig).await?;
            let head = format!(
                "POST {CONFIG_MAPS} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\
                 Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{{"
            );
            stream.write_all(head.as_bytes()).await?;
            stream.flush().await?;
            anyhow::Ok(stream)
        }
    };
    // More than there are seats of any sort.
    let mut slow = try_join_all((0..300).map(|_| open(1000))).await?;
    let mut client = victim.server.client()?;
    for _ in 0..20 {
        timeout(Duration::from_secs(5), client.get(CONFIG_MAPS)).await??.success()?;
        for stream in &mut slow {
            stream.write_all(b" ").await?;
        }
    }
    // What they announce is counted, so that it need not be kept.
    let large = try_join_all((0..100).map(|_| open(3 << 20))).await?;
    let mut refused = 0;
    for mut stream in large {
        let mut start = [0; 12];
        if let Ok(Ok(_)) = timeout(Duration::from_millis(50), stream.read_exact(&mut start)).await {
            ensure!(start == *b"HTTP/1.1 429", "{}", String::from_utf8_lossy(&start));
            refused += 1;
        }
    }
    ensure!(refused > 0, "300 MiB were announced");
    victim.ensure_growth_below(128 * MIB)?;
    victim.survives().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_has_an_end() -> Result<()> {
    let victim = Victim::start().await?;
    let kubeconfig = victim.server.kubeconfig()?;
    let address = (kubeconfig.host.as_str(), kubeconfig.port);
    let mut waiting = try_join_all((0..200).map(async |number| {
        let mut stream = TcpStream::connect(address).await?;
        if number % 2 == 0 {
            // The beginning of a record that is announced to be longer.
            stream.write_all(&[0x16, 0x03, 0x01, 0x40, 0x00]).await?;
        }
        anyhow::Ok(stream)
    }))
    .await?;
    for stream in &mut waiting {
        let mut rest = Vec::new();
        let ended = timeout(Duration::from_secs(30), stream.read_to_end(&mut rest)).await;
        ended.context("the server waits for ever")?.ok();
    }
    victim.survives().await
}
