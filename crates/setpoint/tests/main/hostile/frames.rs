//! Frames of HTTP/2 that make work out of nothing.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use setpoint_testkit::Kubeconfig;
use setpoint_testkit::client::connect_http2;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::{MIB, Victim};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const END_STREAM_AND_HEADERS: u8 = 0x5;
/// `GET https://a/`, by the fixed table.
const REQUEST: &[u8] = &[0x82, 0x87, 0x84, 0x41, 0x01, b'a'];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame is short").to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_only_makes_work_is_sent_away() -> Result<()> {
    let victim = Victim::start().await?;
    let kubeconfig = victim.server.kubeconfig()?;
    let begin_and_reset = |turn: u32| {
        let stream = 2 * turn + 1;
        let mut frames = frame(HEADERS, END_STREAM_AND_HEADERS, stream, REQUEST);
        frames.extend(frame(RESET, 0, stream, &[0, 0, 0, 8]));
        frames
    };
    let go_on = |turn: u32| match turn {
        0 => frame(HEADERS, 0, 1, REQUEST),
        _ => frame(CONTINUATION, 0, 1, &[&[0x40, 1, b'x', 0x7f, 0xf1, 0x7d][..], &[b'a'; 16_000]].concat()[..16_000]),
    };
    ensure!(flood(&kubeconfig, begin_and_reset).await?, "requests that are given up at once");
    ensure!(flood(&kubeconfig, go_on).await?, "a head without end");
    // These are cheap to answer, and a client that does not read the answers is not read any more.
    for (row, kind, payload) in [("pings", PING, &[0; 8][..]), ("settings", SETTINGS, &[])] {
        flood(&kubeconfig, |_| frame(kind, 0, 0, payload)).await.context(row)?;
    }
    victim.ensure_growth_below(64 * MIB)?;
    victim.survives().await
}

/// Sends frames without reading until the server no longer takes them; whether it ended the connection.
async fn flood(kubeconfig: &Kubeconfig, next: impl Fn(u32) -> Vec<u8>) -> Result<bool> {
    const TOGETHER: u32 = 100;
    const MOST: u32 = 200_000;
    let mut stream = connect_http2(kubeconfig).await?;
    stream.write_all(PREFACE).await?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
    for start in (0..MOST).step_by(TOGETHER as usize) {
        let frames: Vec<u8> = (start..start + TOGETHER).flat_map(&next).collect();
        match timeout(Duration::from_secs(2), stream.write_all(&frames)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Ok(true),
            // It takes no more before somebody reads what it said.
            Err(_) => break,
        }
    }
    let mut rest = Vec::new();
    Ok(timeout(Duration::from_secs(2), stream.read_to_end(&mut rest)).await.is_ok())
}
