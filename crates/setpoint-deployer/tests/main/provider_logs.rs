//! What containers wrote, as their readers want it.

use std::fs;

use futures::StreamExt;
use jiff::Timestamp;
use setpoint_deployer::Provider;
use setpoint_deployer::process::order::LogLimits;
use setpoint_deployer::session::{LogOptions, LogSource, Logs};

use crate::place::{
    PATIENCE, Place, eventually, order, read_log, script, try_read_log, wait_running, wait_state, wait_word,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_cut_to_what_is_wanted() {
    let place = Place::new();
    let provider = place.open();
    let id = provider.create(&order("web", script("echo one; echo two >&2; echo three"))).await.unwrap();
    wait_word(&provider, &id, "ended").await;
    let all = LogOptions::default();
    let rows = [
        ("output", LogOptions { source: LogSource::Output, ..all.clone() }, "one\nthree\n"),
        ("errors", LogOptions { source: LogSource::Errors, ..all.clone() }, "two\n"),
        ("bytes", LogOptions { limit_bytes: Some(2), source: LogSource::Output, ..all.clone() }, "on"),
        ("no lines", LogOptions { tail_lines: Some(0), ..all.clone() }, ""),
        ("its last", LogOptions { tail_lines: Some(1), source: LogSource::Output, ..all.clone() }, "three\n"),
        ("of the future", LogOptions { since: Some(Timestamp::now()), ..all.clone() }, ""),
        ("followed", LogOptions { follow: true, source: LogSource::Output, ..all.clone() }, "one\nthree\n"),
    ];
    for (name, options, expected) in rows {
        assert_eq!(read_log(&provider, &id, options).await, expected, "{name}");
    }
    let everything = read_log(&provider, &id, all.clone()).await;
    assert_eq!(everything.lines().collect::<std::collections::BTreeSet<_>>().len(), 3);
    let timed = read_log(&provider, &id, LogOptions { timestamps: true, ..all.clone() }).await;
    for (line, plain) in timed.lines().zip(everything.lines()) {
        let (time, text) = line.split_once(' ').unwrap();
        time.parse::<Timestamp>().unwrap();
        assert_eq!(text, plain);
    }
    let first = timed.split_once(' ').unwrap().0.parse().unwrap();
    assert_eq!(read_log(&provider, &id, LogOptions { since: Some(first), ..all.clone() }).await, everything);
    let error = try_read_log(&provider, &id, LogOptions { previous: true, ..all.clone() }).await.unwrap_err();
    assert!(error.to_string().contains("previous terminated container \"main\" in pod \"web\" not found"), "{error}");
    let error = Logs::read(&provider, &id, "other", all).await.err().unwrap();
    assert!(error.to_string().contains("container \"other\" in pod \"web\" is not available"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_reads_on_over_rotations_to_the_end() {
    let mut place = Place::new();
    place.log_limits = LogLimits { max_file_bytes: 4000, max_files: 5 };
    let provider = place.open();
    let count = 500;
    let lines =
        format!("while [ ! -e go ]; do sleep 0.01; done; for i in $(seq {count}); do echo line $i; sleep 0.002; done");
    let id = provider.create(&order("web", script(&lines))).await.unwrap();
    wait_running(&provider, &id).await;
    let follow = LogOptions { follow: true, ..LogOptions::default() };
    let (one, other) = (read_log(&provider, &id, follow.clone()), read_log(&provider, &id, follow.clone()));
    let left = Logs::read(&provider, &id, "main", follow).await.unwrap();
    drop(left);
    let go = async { fs::write(place.folder(&id).join("containers/main/root").join("go"), "").unwrap() };
    let read = async { tokio::join!(one, other, go) };
    let (one, other, ()) = tokio::time::timeout(PATIENCE * 2, read).await.expect("it ends with the container");
    let expected: String = (1..=count).map(|number| format!("line {number}\n")).collect();
    assert_eq!(one, expected);
    assert_eq!(other, expected);
    assert!(fs::read_dir(place.folder(&id).join("logs/main")).unwrap().count() > 1, "it was rotated");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_run_has_a_log_and_a_follower_ends_with_its_run() {
    let place = Place::new();
    let provider = place.open();
    let mut spec = script(
        "if [ -e second ]; then echo second; sleep 100000; fi
        touch second; echo first; while [ ! -e go ]; do sleep 0.01; done; exit 1",
    );
    spec["restartPolicy"] = "Always".into();
    let id = provider.create(&order("web", spec)).await.unwrap();
    wait_running(&provider, &id).await;
    let follow = LogOptions { follow: true, ..LogOptions::default() };
    let mut stream = Logs::read(&provider, &id, "main", follow).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), "first\n");
    fs::write(place.folder(&id).join("containers/main/root").join("go"), "").unwrap();
    let rest = tokio::time::timeout(PATIENCE, stream.next()).await.expect("it ends with its run");
    assert!(rest.is_none(), "{rest:?}");
    wait_state(&provider, &id, "its second run", |state| {
        state.containers[0].restarts == 1 && state.containers[0].is_running()
    })
    .await;
    eventually("its words", async || {
        (read_log(&provider, &id, LogOptions::default()).await == "second\n").then_some(())
    })
    .await;
    let previous = LogOptions { previous: true, ..LogOptions::default() };
    assert_eq!(read_log(&provider, &id, previous).await, "first\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_of_what_is_removed_is_not_left_waiting() {
    let place = Place::new();
    let provider = place.open();
    let id = provider.create(&order("web", script("echo begun; sleep 100000"))).await.unwrap();
    wait_running(&provider, &id).await;
    let follow = LogOptions { follow: true, ..LogOptions::default() };
    let mut stream = Logs::read(&provider, &id, "main", follow).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), "begun\n");
    let (rest, deleted) = tokio::join!(stream.collect::<Vec<_>>(), provider.delete("end", &id));
    deleted.unwrap();
    assert!(rest.iter().all(|piece| piece.is_ok()), "{rest:?}");
}
