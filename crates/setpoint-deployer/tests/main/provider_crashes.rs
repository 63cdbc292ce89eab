//! Who calls the provider may die at any moment, and so may a shim: nothing is lost, doubled or disturbed.

use std::fs;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use setpoint_core::pod::Phase;
use setpoint_deployer::Provider;
use setpoint_deployer::process::shim::kill_leftovers;

use crate::place::{
    PATIENCE, Place, eventually, instance, observe, order, run_word, script, sleeper, wait_running, wait_word,
    workloads,
};

#[tokio::test(flavor = "multi_thread")]
async fn who_opens_the_folder_again_disturbs_nothing() {
    let place = Place::new();
    let provider = place.open();
    let id = provider.create(&order("web", sleeper())).await.unwrap();
    wait_running(&provider, &id).await;
    let (before, shim) = (observe(&provider).await.instances, place.shim_pid(&id));
    drop(provider);
    for _ in 0..5 {
        let provider = place.open();
        assert_eq!(observe(&provider).await.instances, before);
        assert_eq!((run_word(&provider, &id).await.as_str(), place.shim_pid(&id)), ("running", shim));
    }
    let provider = place.open();
    provider.stop("end", &id, PATIENCE).await.unwrap();
    wait_word(&provider, &id, "ended").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_over_one_folder_see_and_do_the_same() {
    let place = Place::new();
    let (first, second) = (place.open(), place.open());
    let web = order("web", sleeper());
    let (one, other) = tokio::join!(first.create(&web), second.create(&web));
    let id = one.unwrap();
    assert_eq!(other.unwrap(), id);
    wait_running(&first, &id).await;
    wait_running(&second, &id).await;
    assert_eq!(observe(&first).await.instances, observe(&second).await.instances);
    assert_eq!(observe(&second).await.instances.len(), 1);
    second.stop("end", &id, PATIENCE).await.unwrap();
    wait_word(&first, &id, "ended").await;
    second.delete("end", &id).await.unwrap();
    assert!(instance(&first, &id).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_that_was_dropped_anywhere_can_be_made_again() {
    let place = Place::new();
    for polls in 0..6 {
        let provider = place.open();
        let web = order(&format!("web-{polls}"), sleeper());
        {
            let mut call = pin!(provider.create(&web));
            for _ in 0..polls {
                let is_done = poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_ready())).await;
                if is_done {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        let id = provider.create(&web).await.unwrap();
        wait_running(&provider, &id).await;
        let scripts = workloads(&id).len();
        assert!(scripts <= 2, "{polls}: {scripts} processes run");
        assert_eq!(observe(&provider).await.instances.len(), polls + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_crash_left_half_done_is_swept() {
    let place = Place::new();
    drop(place.open());
    for name in [".new-half", ".gone-half"] {
        fs::create_dir(place.root().join(name)).unwrap();
        fs::write(place.root().join(name).join("order.json"), "{").unwrap();
    }
    let provider = place.open();
    let mut left: Vec<_> = fs::read_dir(place.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [".key", ".lock"]);
    assert!(observe(&provider).await.completeness.is_complete());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_whose_shim_was_never_started_gets_one() {
    let place = Place::new();
    let provider = place.open();
    let web = order("web", sleeper());
    let id = provider.create(&web).await.unwrap();
    wait_running(&provider, &id).await;
    place.kill_shim(&id);
    wait_word(&provider, &id, "stopped").await;
    while kill_leftovers(&id) {}
    for file in ["shim.json", "state.json"] {
        fs::remove_file(place.folder(&id).join(file)).unwrap();
    }
    let again = place.open();
    assert_eq!(run_word(&again, &id).await, "stopped");
    assert_eq!(again.create(&web).await.unwrap(), id);
    wait_running(&again, &id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shim_that_was_killed_is_seen_and_started_again() {
    let place = Place::new();
    let provider = place.open();
    let mut spec = sleeper();
    spec["restartPolicy"] = "Always".into();
    let id = provider.create(&order("web", spec)).await.unwrap();
    wait_running(&provider, &id).await;
    place.kill_shim(&id);
    wait_word(&provider, &id, "stopped").await;
    provider.start("again", &id).await.unwrap();
    let restarted = eventually("it to run again", async || {
        let state = wait_running(&provider, &id).await;
        (state.containers[0].restarts > 0).then_some(state)
    })
    .await;
    let last = restarted.containers[0].last_exit.as_ref().expect("how it ended");
    assert_eq!((last.code, last.reason.as_str()), (137, "ContainerStatusUnknown"));
    let shells = workloads(&id).len();
    assert!(shells <= 2, "{shells} processes run");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_shim_is_ended_by_a_stop() {
    let place = Place::new();
    let provider = place.open();
    let id = provider.create(&order("web", script("trap '' TERM; while :; do sleep 1000; done"))).await.unwrap();
    wait_running(&provider, &id).await;
    place.kill_shim(&id);
    wait_word(&provider, &id, "stopped").await;
    provider.stop("end", &id, Duration::from_secs(1000)).await.unwrap();
    assert_eq!(run_word(&provider, &id).await, "ended");
    assert!(workloads(&id).is_empty());
    let state = instance(&provider, &id).await.unwrap().pod.unwrap();
    assert!(matches!(&state.containers[0].phase, Phase::Ended(exit) if exit.code == 137), "{state:?}");
    provider.delete("end", &id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_on_record_of_nothing_that_runs_may_be_damaged() {
    let place = Place::new();
    let provider = place.open();
    let id = provider.create(&order("web", sleeper())).await.unwrap();
    wait_running(&provider, &id).await;
    place.kill_shim(&id);
    wait_word(&provider, &id, "stopped").await;
    fs::write(place.folder(&id).join("state.json"), "{").unwrap();
    let provider = place.open();
    assert_eq!(run_word(&provider, &id).await, "stopped");
    provider.stop("end", &id, PATIENCE).await.unwrap();
    let state = instance(&provider, &id).await.unwrap().pod.unwrap();
    assert!(matches!(&state.containers[0].phase, Phase::Ended(exit) if exit.code == 137), "{state:?}");
    fs::write(place.folder(&id).join("state.json"), "{").unwrap();
    provider.start("again", &id).await.unwrap();
    // It may have run already, and is to run once.
    wait_word(&provider, &id, "ended").await;
    fs::write(place.folder(&id).join("state.json"), "{").unwrap();
    provider.delete("end", &id).await.unwrap();
    assert!(!place.folder(&id).exists());
}
