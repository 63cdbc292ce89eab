//! Bodies that are small until somebody unpacks them.

use std::io::Write;
use std::time::Duration;

use anyhow::{Result, ensure};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::Request;
use tokio::time::timeout;

use super::{CONFIG_MAPS, MIB, Victim};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bombs_do_not_go_off() -> Result<()> {
    let victim = Victim::start().await?;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    let zeros = vec![b' '; 1 << 20];
    for _ in 0..1024 {
        gzip.write_all(&zeros)?;
    }
    let gigabyte = gzip.finish()?;
    ensure!(gigabyte.len() < 3 << 20, "{} bytes are no bomb", gigabyte.len());

    let laughs: String =
        (1..30).map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(","))).collect();
    let laughs = format!("apiVersion: v1\nkind: ConfigMap\na0: &a0 lol\n{laughs}");
    let deep = format!("{}{}", "[".repeat(1 << 20), "]".repeat(1 << 20));
    let wide = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","x":[{}0]}}"#, "{},".repeat(900_000));
    type Row<'a> = (&'a str, &'a str, &'a str, Vec<u8>, &'a [u16]);
    let rows: [Row<'_>; 6] = [
        ("gzip", "application/json", "gzip", gigabyte.clone(), &[415]),
        ("gzip in gzip", "application/json", "gzip, gzip", gigabyte.clone(), &[415]),
        ("gzip that is not announced", "application/json", "identity", gigabyte, &[400]),
        ("aliases of aliases", "application/yaml", "identity", laughs.into_bytes(), &[400]),
        ("nested without end", "application/json", "identity", deep.into_bytes(), &[400]),
        ("more than a body's size in objects", "application/json", "identity", wide.into_bytes(), &[400, 422]),
    ];
    for (row, media_type, encoding, body, expected) in rows {
        let request = Request::post(CONFIG_MAPS)
            .header("content-type", media_type)
            .header("content-encoding", encoding)
            .body(Bytes::from(body))?;
        let mut client = victim.server.client()?;
        let answer = timeout(Duration::from_secs(10), client.send(request)).await??;
        let text = answer.text();
        ensure!(expected.contains(&answer.status.as_u16()), "{row}: {} {:.300}", answer.status, text);
        ensure!(text.len() < 64 * 1024, "{row}: a refusal of {} bytes", text.len());
    }
    victim.ensure_growth_below(256 * MIB)?;
    victim.survives().await
}
