//! Containers under a real shim.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::json;
use setpoint_core::pod::{Phase, PortState};
use setpoint_deployer::process::launch::Settings;
use setpoint_deployer::process::order::LogLimits;
use setpoint_deployer::process::process_table;

use crate::instance::{Instance, end, executable, script, wait_for};

#[test]
fn a_container_runs_with_its_variables_and_nothing_else() {
    let ports = vec![PortState {
        container: "a".to_owned(),
        name: Some("my-http".to_owned()),
        container_port: 80,
        assigned_port: 30123,
    }];
    let mut spec = script("Never", "env; pwd; echo bad >&2");
    spec["containers"][0]["args"] = json!(["sh", "$(PORT)", "$$(PORT)", "$(NOPE)"]);
    spec["containers"][0]["command"][2] = json!("env; pwd; echo args=$*");
    let mut instance = Instance::start_with(spec, ports, LogLimits::default());
    instance.ended();
    let log = instance.log("a", 0);
    let root = instance.root("a").canonicalize().unwrap();
    for line in [
        "GREETING=hello",
        "PORT=30123",
        "PORT_MY_HTTP=30123",
        "HOSTNAME=web",
        &format!("SETPOINT_INSTANCE={}", instance.id),
        &format!("SETPOINT_ROOT={}", root.display()),
        &format!("HOME={}", root.display()),
        &root.display().to_string(),
        "args=30123 $(PORT) $(NOPE)",
    ] {
        assert!(log.lines().any(|other| other == line), "{line} is not in:\n{log}");
    }
    assert!(!log.contains("CONTROL_PLANE_SECRET"), "{log}");
}

#[test]
fn exit_codes_are_told_as_a_shell_tells_them() {
    let rows = [
        ("a success", "exit 0", "Completed", 0, None),
        ("a failure", "exit 7", "Error", 7, None),
        ("a signal", "kill -9 $$$$", "Error", 137, Some(9)),
    ];
    for (what, command, reason, code, signal) in rows {
        let mut instance = Instance::start(script("Never", command));
        let state = instance.ended();
        let Phase::Ended(exit) = &state.container("a").unwrap().phase else { panic!("{what}") };
        assert_eq!((exit.reason.as_str(), exit.code, exit.signal), (reason, code, signal), "{what}");
    }
}

#[test]
fn what_cannot_start_says_why() {
    let rows = [
        ("no such program", json!({"name": "a", "command": ["no-such-program"]}), "no-such-program"),
        ("no command", json!({"name": "a", "args": ["x"]}), "`command`"),
        ("no such folder", json!({"name": "a", "command": ["true"], "workingDir": "/no/such"}), "/no/such"),
    ];
    for (what, container, word) in rows {
        let mut instance = Instance::start(json!({"restartPolicy": "Never", "containers": [container]}));
        let state = instance.ended();
        assert_eq!(end(&state.containers[0]), ("StartError".to_owned(), 128), "{what}");
        let Phase::Ended(exit) = &state.containers[0].phase else { unreachable!() };
        assert!(exit.message.contains(word), "{what}: {}", exit.message);
    }
}

#[test]
fn a_container_runs_as_the_user_that_it_names() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("SETPOINT_TESTS_WITHOUT_ROOT").is_some(), "only root can become somebody else");
        return;
    }
    let named = |user: i64, group: Option<i64>| {
        let mut spec = script("Never", "id -u; id -g; touch $SETPOINT_ROOT/own && ls");
        spec["securityContext"] = json!({"runAsUser": user, "runAsGroup": group});
        spec
    };
    let rows = [
        ("its group has the same number", named(65534, None), "65534\n65534\nown\n"),
        ("its group is named", named(65534, Some(7)), "65534\n7\nown\n"),
        ("our own user", named(0, None), "0\n0\nown\n"),
    ];
    for (what, spec, said) in rows {
        let mut instance = Instance::start(spec);
        let state = instance.ended();
        assert_eq!((instance.log("a", 0).as_str(), end(&state.containers[0]).1), (said, 0), "{what}: {state:?}");
    }
}

#[test]
fn a_user_who_cannot_reach_the_folder_is_told_where_the_way_ends() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("SETPOINT_TESTS_WITHOUT_ROOT").is_some(), "only root can become somebody else");
        return;
    }
    let data = tempfile::tempdir().unwrap();
    fs::set_permissions(data.path(), Permissions::from_mode(0o700)).unwrap();
    let root = data.path().join("root");
    fs::create_dir(&root).unwrap();
    let settings = Settings { user: Some(65534), group: Some(65534), root, ..Settings::default() };
    let output = settings.command(&executable(), &["true".to_owned()], &BTreeMap::new()).unwrap().output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(126), "{said}");
    assert!(said.contains(&format!("`chmod o+x {}`", data.path().display())), "{said}");
}

#[test]
fn what_fails_is_started_again_and_then_held_back() {
    let mut instance = Instance::start(script("OnFailure", "echo run; exit 1"));
    let state = instance.wait(
        "back-off",
        "a",
        |state| matches!(&state.phase, Phase::Waiting { reason, .. } if reason == "CrashLoopBackOff"),
    );
    assert_eq!((state.restarts, state.last_exit.unwrap().code), (1, 1));
    assert_eq!((instance.log("a", 0), instance.log("a", 1)), ("run\n".to_owned(), "run\n".to_owned()));
    instance.stop(Duration::from_secs(30));
    assert_eq!(end(instance.ended().container("a").unwrap()), ("Error".to_owned(), 1));
}

#[test]
fn init_containers_run_one_after_the_other() {
    let step = |name: &str| json!({"name": name, "command": ["sh", "-c", format!("echo {name} >> ../../../order")]});
    let mut instance = Instance::start(json!({
        "restartPolicy": "Never",
        "initContainers": [step("one"), step("two")],
        "containers": [step("main")],
    }));
    instance.ended();
    assert_eq!(fs::read_to_string(instance.path().join("order")).unwrap(), "one\ntwo\nmain\n");
}

#[test]
fn a_tree_that_ignores_the_signal_is_killed_as_a_whole_at_the_deadline() {
    let stubborn = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$$$ > child; while :; do sleep 1; done' & \
         echo $$$$ > leader; while :; do sleep 1; done";
    let mut instance = Instance::start(script("Always", stubborn));
    let pids: Vec<u32> = ["leader", "child"]
        .iter()
        .map(|name| wait_for(name, || fs::read_to_string(instance.root("a").join(name)).ok()?.trim().parse().ok()))
        .collect();
    instance.wait_running("a");
    let asked = Instant::now();
    instance.stop(Duration::from_secs(1));
    let state = instance.ended();
    assert!(asked.elapsed() >= Duration::from_secs(1), "its grace was not honoured");
    assert_eq!(end(state.container("a").unwrap()), ("Error".to_owned(), 137));
    for pid in pids {
        assert!(process_table::entry(pid).is_err(), "{pid} still is there");
    }
}

#[test]
fn what_a_container_leaves_running_ends_with_it() {
    let mut instance = Instance::start(script("Never", "setsid sleep 1000 & echo started"));
    let asked = Instant::now();
    assert_eq!(end(instance.ended().container("a").unwrap()).1, 0);
    assert!(asked.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_pre_stop_hook_runs_before_the_signal() {
    let mut spec = script("Always", "trap 'echo term; exit 3' TERM; while :; do sleep 0.05; done");
    spec["containers"][0]["lifecycle"] = json!({"preStop": {"exec": {"command": ["sh", "-c", "echo pre > pre"]}}});
    let mut instance = Instance::start(spec);
    instance.wait_running("a");
    instance.signal(rustix::process::Signal::TERM);
    assert_eq!(end(instance.ended().container("a").unwrap()), ("Error".to_owned(), 3));
    assert_eq!(fs::read_to_string(instance.root("a").join("pre")).unwrap(), "pre\n");
    assert!(instance.log("a", 0).ends_with("term\n"));
}

#[test]
fn memory_beyond_the_limit_is_told_as_out_of_memory() {
    let mut spec = script("Never", "head -c 300000000 /dev/zero | tail");
    spec["containers"][0]["resources"] = json!({"limits": {"memory": "32Mi", "cpu": "500m"}});
    let mut instance = Instance::start(spec);
    let state = instance.ended();
    let container = state.container("a").unwrap();
    let is_limited = !state.notices.iter().any(|notice| notice.reason == "LimitNotEnforced");
    println!("limited by a control group: {is_limited}; {:?}", container.usage);
    if is_limited {
        assert_eq!(end(container).0, "OOMKilled");
        let usage = container.usage.unwrap();
        assert!(usage.peak_memory_bytes > 16 << 20 && usage.peak_memory_bytes <= 32 << 20, "{usage:?}");
        assert!(usage.cpu_microseconds > 0, "{usage:?}");
    } else {
        assert_ne!(end(container).1, 0);
    }
}

#[test]
fn a_log_is_put_aside_without_losing_a_line() {
    let limits = LogLimits { max_file_bytes: 64 << 10, max_files: 9 };
    let mut instance = Instance::start_with(script("Never", "seq 1 5000"), Vec::new(), limits);
    instance.ended();
    let expected: String = (1..=5000).map(|number| format!("{number}\n")).collect();
    assert_eq!(instance.log("a", 0), expected);
    assert!(instance.path().join("logs/a/0.log.1").exists());
}

#[test]
fn lines_of_any_length_are_kept_whole() {
    let mut instance = Instance::start(script("Never", "head -c 100000 /dev/zero | tr '\\0' x; echo; printf end"));
    instance.ended();
    assert_eq!(instance.log("a", 0), format!("{}\nend", "x".repeat(100_000)));
}

#[test]
fn last_words_are_told() {
    let mut spec = script("Never", "echo said > $SETPOINT_TERMINATION_LOG; echo log; exit 1");
    let rows = [("its own", spec.clone(), "said\n"), ("the log's end", script("Never", "echo log; exit 1"), "log\n")];
    for (what, mut row, words) in rows {
        row["containers"][0]["terminationMessagePolicy"] = json!("FallbackToLogsOnError");
        let state = Instance::start(row).ended();
        let Phase::Ended(exit) = &state.containers[0].phase else { panic!("{what}") };
        assert_eq!(exit.message, words, "{what}");
    }
    spec["containers"][0]["command"][2] = json!("echo log; exit 1");
    let state = Instance::start(spec).ended();
    let Phase::Ended(exit) = &state.containers[0].phase else { panic!("it has ended") };
    assert_eq!(exit.message, "", "without the policy the log stays where it is");
}

#[test]
fn there_is_only_one_shim() {
    let mut instance = Instance::start(script("Always", "while :; do sleep 1; done"));
    let first = instance.wait_running("a");
    let status = instance.shim_command().status().unwrap();
    assert!(!status.success());
    assert!(first.is_alive());
    assert_eq!(instance.process("a"), Some(first));
    instance.stop(Duration::ZERO);
    instance.ended();
}

#[test]
fn containers_die_with_their_shim_and_a_new_one_goes_on() {
    let orphan = "setsid sleep 1000 & while :; do sleep 1; done";
    let mut instance = Instance::start(script("Always", orphan));
    let first = instance.wait_running("a");
    instance.crash();
    wait_for("the container to die with its shim", || (!first.is_alive()).then_some(()));
    instance.start_shim();
    let state = instance.wait("a new run", "a", |state| state.restarts == 1 && state.is_running());
    let exit = state.last_exit.unwrap();
    assert_eq!((exit.reason.as_str(), exit.code), ("ContainerStatusUnknown", 137));
    instance.stop(Duration::ZERO);
    instance.ended();
}

#[test]
fn an_instance_whose_state_was_damaged_goes_on_and_can_be_stopped() {
    for damaged in ["", "{\"state\":"] {
        let mut spec = script("Always", "while :; do sleep 1; done");
        spec["initContainers"] = json!([{"name": "init", "command": ["true"]}]);
        let mut instance = Instance::start(spec);
        instance.wait_running("a");
        instance.crash();
        fs::write(instance.path().join("state.json"), damaged).unwrap();
        instance.start_shim();
        wait_for("a state", || {
            let text = fs::read(instance.path().join("state.json")).ok()?;
            serde_json::from_slice::<serde_json::Value>(&text).ok()
        });
        let state = instance.wait("a new run", "a", |state| state.restarts == 1 && state.is_running());
        assert_eq!(state.last_exit.unwrap().reason, "ContainerStatusUnknown", "after {damaged:?}");
        instance.stop(Duration::ZERO);
        let state = instance.ended();
        assert_eq!(end(state.container("init").unwrap()), ("Completed".to_owned(), 0), "it is not run again");
        assert!(state.notices.iter().any(|notice| notice.reason == "StateLost"), "{:?}", state.notices);
    }
}

#[test]
fn who_leaves_makes_room_for_the_next_to_attach() {
    let mut instance = Instance::start(script("Always", "while :; do sleep 1; done"));
    instance.wait_running("a");
    let attach = |stdin: bool| {
        let mut stream = UnixStream::connect(instance.path().join("attach")).unwrap();
        stream.write_all(format!("{{\"container\":\"a\",\"stdin\":{stdin}}}\n").as_bytes()).unwrap();
        stream
    };
    for round in 0..40 {
        let stream = attach(round % 2 == 0);
        stream.shutdown(Shutdown::Write).unwrap();
    }
    wait_for("a place", || {
        let mut stream = attach(false);
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        // Who is sent away reads an end; who stays hears nothing of a silent container.
        stream.read(&mut [0]).is_err().then_some(())
    });
    instance.stop(Duration::ZERO);
    instance.ended();
}

#[test]
fn a_hook_may_say_more_than_a_pipe_holds() {
    let mut spec = script("Always", "while :; do sleep 1; done");
    let hook = json!({"exec": {"command": ["sh", "-c", "head -c 300000 /dev/zero"]}});
    spec["containers"][0]["lifecycle"] = json!({"postStart": hook});
    let mut instance = Instance::start(spec);
    instance.wait("its hook to end", "a", |state| state.is_started);
    instance.stop(Duration::ZERO);
    instance.ended();
}

#[test]
fn a_shim_is_small_and_leaves_no_zombies() {
    let churn = "while :; do (sleep 0.01 &); sleep 0.02; done";
    let mut instance = Instance::start(script("Always", churn));
    instance.wait_running("a");
    let shim = instance.shim_pid();
    // Long enough for many orphans to have fallen to the shim.
    let until = Instant::now() + Duration::from_millis(500);
    wait_for("a while", || (Instant::now() > until).then_some(()));
    wait_for("no zombie", || {
        let entries = process_table::entries().unwrap();
        let zombies = entries.iter().filter(|entry| entry.parent == shim && entry.is_zombie).count();
        (zombies == 0).then_some(())
    });
    let rollup = fs::read_to_string(format!("/proc/{shim}/smaps_rollup")).unwrap();
    let kilobytes = |name: &str| -> u64 {
        let line = rollup.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    println!(
        "a shim: Pss {} kB, Pss_Anon {} kB, Rss {} kB",
        kilobytes("Pss:"),
        kilobytes("Pss_Anon:"),
        kilobytes("Rss:")
    );
    assert!(kilobytes("Pss_Anon:") <= 3072, "{rollup}");
    instance.stop(Duration::ZERO);
    instance.ended();
}
