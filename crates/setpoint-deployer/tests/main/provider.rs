//! The verbs of the process provider, with real processes.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use setpoint_core::observation::Completeness;
use setpoint_core::pod::Phase;
use setpoint_deployer::provider::{Change, Scope, Variables};
use setpoint_deployer::{Error, Fault, Provider, SpecError};

use crate::place::{
    PATIENCE, Place, eventually, instance, observe, order, order_of, pod, read_log, run_word, script, sleeper,
    wait_running, wait_state, wait_word, workloads,
};

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_made_seen_stopped_and_removed() {
    let place = Place::new();
    let provider = place.open();
    let order = order("web", sleeper());
    let id = provider.create(&order).await.unwrap();
    wait_running(&provider, &id).await;
    let seen = instance(&provider, &id).await.unwrap();
    assert_eq!((&*seen.guest.name, seen.guest.mark.as_ref()), ("web", Some(&order.mark)));
    assert_eq!(run_word(&provider, &id).await, "running");
    assert!(!workloads(&id).is_empty());
    assert_eq!(provider.create(&order).await.unwrap(), id);
    assert_eq!(observe(&provider).await.instances.len(), 1);

    provider.stop("end", &id, PATIENCE).await.unwrap();
    wait_word(&provider, &id, "ended").await;
    let state = instance(&provider, &id).await.unwrap().pod.unwrap();
    assert!(matches!(&state.containers[0].phase, Phase::Ended(exit) if exit.code == 0), "{state:?}");
    assert!(workloads(&id).is_empty());
    provider.stop("end", &id, PATIENCE).await.unwrap();

    provider.delete("end", &id).await.unwrap();
    assert!(instance(&provider, &id).await.is_none());
    assert!(!place.folder(&id).exists());
    provider.delete("end", &id).await.unwrap();
    provider.stop("end", &id, PATIENCE).await.unwrap();
    let error = provider.start("again", &id).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_ends_what_does_not_want_to() {
    let place = Place::new();
    let provider = place.open();
    let spec = script("trap '' TERM; (trap '' TERM; setsid sleep 100000) & while :; do sleep 100000; done");
    let id = provider.create(&order("stubborn", spec)).await.unwrap();
    wait_running(&provider, &id).await;
    eventually("its child", async || (workloads(&id).len() >= 3).then_some(())).await;
    provider.delete("end", &id).await.unwrap();
    assert!(workloads(&id).is_empty());
    assert_eq!(fs::read_dir(place.root()).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_stopped_begins_again() {
    let place = Place::new();
    let provider = place.open();
    let id = provider.create(&order("web", sleeper())).await.unwrap();
    wait_running(&provider, &id).await;
    provider.stop("end", &id, PATIENCE).await.unwrap();
    wait_word(&provider, &id, "ended").await;
    provider.start("again", &id).await.unwrap();
    provider.start("again", &id).await.unwrap();
    wait_running(&provider, &id).await;
    assert_eq!(run_word(&provider, &id).await, "running");
    let log = async || (read_log(&provider, &id, Default::default()).await == "begun\n").then_some(());
    eventually("the log of its new life alone", log).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_still_stopping_cannot_be_started() {
    let place = Place::new();
    let provider = place.open();
    let id = provider.create(&order("web", script("trap '' TERM; while :; do sleep 1000; done"))).await.unwrap();
    wait_running(&provider, &id).await;
    provider.stop("end", &id, PATIENCE).await.unwrap();
    let error = provider.start("again", &id).await.unwrap_err();
    assert!(matches!(&error, Error::Provider(error) if error.fault == Fault::Busy), "{error}");
    provider.stop("end", &id, Duration::ZERO).await.unwrap();
    wait_word(&provider, &id, "ended").await;
    provider.start("again", &id).await.unwrap();
    wait_running(&provider, &id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_that_comes_before_the_shim_is_ready_is_heard() {
    let place = Place::new();
    let provider = place.open();
    for number in 0..10 {
        let id = provider.create(&order(&format!("web-{number}"), sleeper())).await.unwrap();
        provider.stop("end", &id, Duration::from_secs(1)).await.unwrap();
        wait_word(&provider, &id, "ended").await;
        assert!(workloads(&id).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_refused_before_anything_is_made() {
    let place = Place::new();
    let provider = place.open();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut host_port = sleeper();
    host_port["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": port}]);
    let rows = [
        ("no command", json!({"containers": [{"name": "main"}]}), "spec.containers[0].command"),
        ("a port that is taken", host_port, "spec.containers[0].ports[0].hostPort"),
    ];
    for (name, spec, field) in rows {
        let error = provider.create(&order("web", spec)).await.unwrap_err();
        let Error::Spec(SpecError::Field { field: found, .. }) = &error else { panic!("{name}: {error}") };
        assert_eq!(found, field, "{name}");
    }
    assert!(observe(&provider).await.instances.is_empty());
    assert_eq!(fs::read_dir(place.root()).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_are_distinct_and_announced() {
    let place = Place::new();
    let (first, second) = (place.open(), place.open());
    let mut spec = script("echo port $PORT; sleep 100000");
    spec["containers"][0]["ports"] = json!([{"name": "http", "containerPort": 18_080}]);
    let spec = &spec;
    let make = |number: usize| {
        let mut pod = pod(&format!("web-{number}"), spec.clone());
        pod.variables = [("main".to_owned(), Variables(vec![("PORT".to_owned(), "18080".to_owned())]))].into();
        let provider = if number.is_multiple_of(2) { &first } else { &second };
        async move { provider.create(&order_of(pod)).await.unwrap() }
    };
    let ids = join_all((0..8).map(make)).await;
    let mut ports = BTreeSet::new();
    for id in &ids {
        let state = wait_running(&first, id).await;
        let port = state.ports[0].assigned_port;
        assert!(ports.insert(port), "{port} was given twice");
        let announced = format!("port {port}\n");
        eventually("the port", async || (read_log(&first, id, Default::default()).await == announced).then_some(()))
            .await;
    }
    assert_eq!(ports.len(), ids.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_ours_is_shown_and_never_touched() {
    let place = Place::new();
    let (ours, theirs) = (place.open(), place.open_as("another"));
    let mut foreign = order("web", sleeper());
    foreign.mark.cluster = "another".into();
    let id = theirs.create(&foreign).await.unwrap();
    wait_running(&theirs, &id).await;
    assert_eq!(instance(&ours, &id).await.unwrap().guest.mark, Some(foreign.mark));
    let refusals =
        [ours.stop("end", &id, Duration::ZERO).await, ours.start("again", &id).await, ours.delete("end", &id).await];
    for refusal in refusals {
        let error = refusal.unwrap_err();
        assert!(matches!(&error, Error::Provider(error) if error.fault == Fault::Refused), "{error}");
    }
    assert_eq!(run_word(&theirs, &id).await, "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_in_the_folder_is_told_and_left_alone() {
    let place = Place::new();
    let provider = place.open();
    fs::create_dir(place.folder("stranger")).unwrap();
    fs::write(place.folder("stranger").join("file"), "x").unwrap();
    fs::write(place.folder("a-file"), "x").unwrap();
    fs::write(place.folder("stranger").join("state.json"), "x").unwrap();
    let observed = observe(&provider).await;
    assert!(observed.instances.is_empty() && observed.completeness.is_complete(), "{observed:?}");

    fs::create_dir(place.folder("broken")).unwrap();
    fs::write(place.folder("broken").join("order.json"), r#"{"id": "broken", "pod": "s3cret"#).unwrap();
    let id = provider.create(&order("web", sleeper())).await.unwrap();
    wait_running(&provider, &id).await;
    for provider in [&provider, &place.open()] {
        let observed = observe(provider).await;
        assert!(matches!(&observed.completeness, Completeness::Partial(_)), "{observed:?}");
        let broken = observed.instance("broken").expect("it is not dropped");
        assert_eq!((broken.guest.run.known(), &broken.guest.mark, &broken.pod), (None, &None, &None));
        assert!(!format!("{observed:?}").contains("s3cret"));
        assert_eq!(run_word(provider, &id).await, "running");
        let own = provider.observe(&Scope::Instance(id.clone())).await.unwrap();
        assert!(own.completeness.is_complete(), "{own:?}");
    }
    provider.delete("end", "broken").await.expect_err("whose it is cannot be told");
    assert!(provider.delete("end", "../outside").await.is_ok());
    assert!(place.folder("broken").exists() && place.folder("stranger").exists());

    fs::write(place.folder(&id).join("state.json.next"), "nonsense").unwrap();
    fs::rename(place.folder(&id).join("state.json.next"), place.folder(&id).join("state.json")).unwrap();
    let seen = instance(&provider, &id).await.unwrap();
    assert!(seen.guest.mark.is_some() && seen.guest.run.known().is_none() && seen.pod.is_none(), "{seen:?}");
    provider.delete("end", &id).await.unwrap();
    assert!(workloads(&id).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_unknown_only_to_whom_it_may_belong() {
    let place = Place::new();
    let provider = place.open();
    let mut web = order("web", sleeper());
    web.mark.intent = Some(web.mark.owner_uid.clone());
    let id = provider.create(&web).await.unwrap();
    wait_running(&provider, &id).await;
    provider.stop("end", &id, PATIENCE).await.unwrap();
    wait_word(&provider, &id, "ended").await;
    fs::write(place.folder(&id).join("order.json"), "{").unwrap();
    let provider = place.open();
    let rows = [
        ("its own owner", Scope::Owner(web.mark.owner_uid), 1),
        ("another owner", Scope::Owner("uid-other".into()), 0),
        ("itself", Scope::Instance(id), 1),
        ("all", Scope::Everything, 1),
    ];
    for (name, scope, shown) in rows {
        let observed = provider.observe(&scope).await.unwrap();
        assert_eq!((observed.completeness.is_complete(), observed.instances.len()), (shown == 0, shown), "{name}");
    }
    let other = provider.create(&order("other", sleeper())).await.unwrap();
    wait_running(&provider, &other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_told_as_they_happen() {
    let place = Place::new();
    let provider = place.open();
    let mut events = provider.events().unwrap();
    let other = place.open();
    let id = other.create(&order("web", script("exit 3"))).await.unwrap();
    let told = async {
        loop {
            let change = events.recv().await.expect("the provider is there");
            assert_eq!(change, Change::Instance(id.clone()));
            let state = instance(&provider, &id).await.and_then(|instance| instance.pod);
            if state.is_some_and(|state| state.has_ended()) {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, told).await.expect("its end is told");
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_instances_are_started_at_once_and_none_becomes_a_zombie() {
    let place = Place::new();
    let provider = &place.open();
    let begin = Instant::now();
    let make =
        |number: usize| async move { provider.create(&order(&format!("web-{number}"), sleeper())).await.unwrap() };
    let ids = join_all((0..50).map(make)).await;
    println!("created after {:?}", begin.elapsed());
    join_all(ids.iter().map(|id| wait_running(provider, id))).await;
    println!("running after {:?}", begin.elapsed());
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 50);
    join_all(ids.iter().map(|id| provider.stop("end", id, PATIENCE))).await.into_iter().for_each(|done| done.unwrap());
    for id in &ids {
        wait_word(provider, id, "ended").await;
    }
    let own = std::process::id();
    let zombies = setpoint_deployer::process::process_table::entries().unwrap();
    let zombies = zombies.iter().filter(|entry| entry.parent == own && entry.is_zombie).count();
    assert_eq!(zombies, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_stop_only_shortens_the_time_that_is_left() {
    let place = Place::new();
    let provider = place.open();
    let id =
        provider.create(&order("web", script("trap '' TERM; echo begun; while :; do sleep 1000; done"))).await.unwrap();
    eventually("it to listen", async || {
        let is_running = wait_running(&provider, &id).await.containers[0].is_running();
        (is_running && read_log(&provider, &id, Default::default()).await == "begun\n").then_some(())
    })
    .await;
    provider.stop("end", &id, Duration::from_secs(1000)).await.unwrap();
    wait_state(&provider, &id, "it to be asked", |state| state.stopping_since.is_some()).await;
    assert_eq!(run_word(&provider, &id).await, "running");
    provider.stop("end", &id, Duration::from_millis(10)).await.unwrap();
    provider.stop("end", &id, Duration::from_secs(1000)).await.unwrap();
    wait_word(&provider, &id, "ended").await;
}
