//! Commands in containers, and their own input and output.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use setpoint_deployer::Provider;
use setpoint_deployer::process::ProcessProvider;
use setpoint_deployer::session::{Command, Exec, Terminal, TerminalSize};
use tokio::sync::mpsc;

use crate::place::{
    PATIENCE, Place, eventually, order, order_of, pod, script, sleeper, wait_running, wait_word, workloads,
};

/// The other ends of a [`Terminal`].
struct Ends {
    input: mpsc::Sender<Bytes>,
    output: mpsc::Receiver<Bytes>,
    errors: mpsc::Receiver<Bytes>,
    sizes: mpsc::Sender<TerminalSize>,
}

fn terminal() -> (Terminal, Ends) {
    let (input, input_end) = mpsc::channel(4);
    let (output_end, output) = mpsc::channel(4);
    let (errors_end, errors) = mpsc::channel(4);
    let (sizes, sizes_end) = mpsc::channel(4);
    let terminal =
        Terminal { input: Some(input_end), output: Some(output_end), errors: Some(errors_end), sizes: sizes_end };
    (terminal, Ends { input, output, errors, sizes })
}

async fn all(mut pieces: mpsc::Receiver<Bytes>) -> String {
    let mut said = Vec::new();
    while let Some(piece) = pieces.recv().await {
        said.extend_from_slice(&piece);
    }
    String::from_utf8(said).unwrap()
}

fn shell(script: &str, has_terminal: bool) -> Command {
    Command { arguments: ["sh", "-c", script].map(str::to_owned).to_vec(), has_terminal }
}

/// Runs a script with this input, and returns its code, its output and its errors.
async fn run(provider: &ProcessProvider, id: &str, script: &str, input: &'static [u8]) -> (i32, String, String) {
    let (terminal, ends) = terminal();
    let speak = async move {
        for piece in input.chunks(1000) {
            if ends.input.send(Bytes::from_static(piece)).await.is_err() {
                return;
            }
        }
    };
    let command = Exec::exec(provider, id, "main", shell(script, false), terminal);
    let run = async { tokio::join!(command, all(ends.output), all(ends.errors), speak) };
    let (exit, output, errors, ()) = tokio::time::timeout(PATIENCE, run).await.expect("it ends");
    (exit.unwrap().code, output, errors)
}

async fn running(place: &Place) -> (ProcessProvider, Box<str>) {
    let provider = place.open();
    let mut pod = pod("web", sleeper());
    pod.variables.get_mut("main").unwrap().0.push(("GREETING".to_owned(), "hello".to_owned()));
    let id = provider.create(&order_of(pod)).await.unwrap();
    wait_running(&provider, &id).await;
    (provider, id)
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_say_what_they_have_to_and_how_they_ended() {
    static LONG: [u8; 300_000] = [b'x'; 300_000];
    let place = Place::new();
    let (provider, id) = running(&place).await;
    let root = place.folder(&id).canonicalize().unwrap().join("containers/main/root");
    type Row = (&'static str, &'static str, &'static [u8], (i32, String, String));
    let rows: [Row; 8] = [
        ("its output and errors", "echo out; echo err >&2", b"", (0, "out\n".into(), "err\n".into())),
        ("its code", "exit 7", b"", (7, String::new(), String::new())),
        ("a signal", "kill -9 $$", b"", (137, String::new(), String::new())),
        ("its input", "cat; echo end", b"a\nb\n", (0, "a\nb\nend\n".into(), String::new())),
        ("much input", "wc -c | tr -d ' '", &LONG, (0, "300000\n".into(), String::new())),
        ("input that nobody reads", "exec <&-; echo done", &LONG, (0, "done\n".into(), String::new())),
        ("its variables", "echo $GREETING", b"", (0, "hello\n".into(), String::new())),
        ("its folder", "pwd", b"", (0, format!("{}\n", root.display()), String::new())),
    ];
    for (name, script, input, expected) in rows {
        assert_eq!(run(&provider, &id, script, input).await, expected, "{name}");
    }
    let (code, output, _) = run(&provider, &id, "seq 100000", b"").await;
    assert_eq!((code, output.lines().count()), (0, 100_000));
    let (code, output, _) = run(&provider, &id, "sleep 100000 & echo begun", b"").await;
    assert_eq!((code, output.as_str()), (0, "begun\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_run_says_why() {
    let place = Place::new();
    let (provider, id) = running(&place).await;
    let (terminal_of_it, ends) = terminal();
    drop(ends.input);
    let command = Command { arguments: vec!["/no/such/program".to_owned()], has_terminal: false };
    let (exit, errors) = tokio::join!(Exec::exec(&provider, &id, "main", command, terminal_of_it), all(ends.errors));
    assert_eq!(exit.unwrap().code, 127);
    assert!(errors.contains("/no/such/program"), "{errors}");

    let exec = async |id: &str, container: &str| {
        let (terminal, _ends) = terminal();
        Exec::exec(&provider, id, container, shell("true", false), terminal).await.map(drop)
    };
    assert!(exec("nothing", "main").await.unwrap_err().is_not_found());
    let error = exec(&id, "other").await.unwrap_err();
    assert!(error.to_string().contains("container \"other\" in pod \"web\" is not available"), "{error}");
    provider.stop("end", &id, PATIENCE).await.unwrap();
    wait_word(&provider, &id, "ended").await;
    let error = exec(&id, "main").await.unwrap_err();
    assert!(error.to_string().contains("container \"main\" in pod \"web\" is not running"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_has_a_size_that_changes() {
    let place = Place::new();
    let (provider, id) = running(&place).await;
    let (terminal, mut ends) = terminal();
    let script = "test -t 0 && test -t 1 && test -t 2 && echo terminal; while read -r line; do echo \"<$(stty size)>\"; done; exit 3";
    ends.sizes.send(TerminalSize { columns: 100, rows: 40 }).await.unwrap();
    let talk = async {
        let mut said = String::new();
        let mut hear = async |wanted: &str| {
            while !said.contains(wanted) {
                let piece = ends.output.recv().await.unwrap_or_else(|| panic!("{wanted} was not said: {said}"));
                said.push_str(&String::from_utf8_lossy(&piece));
            }
        };
        hear("terminal").await;
        ends.input.send(Bytes::from_static(b"a\n")).await.unwrap();
        hear("<40 100>").await;
        ends.sizes.send(TerminalSize { columns: 80, rows: 24 }).await.unwrap();
        while !said_after_resize(&mut ends, "<24 80>").await {}
        drop(ends.input);
        while ends.output.recv().await.is_some() {}
    };
    let run = async { tokio::join!(Exec::exec(&provider, &id, "main", shell(script, true), terminal), talk) };
    let (exit, ()) = tokio::time::timeout(PATIENCE, run).await.expect("it ends");
    assert_eq!(exit.unwrap().code, 3);
}

/// Asks for the size once more, as it may not have changed yet.
async fn said_after_resize(ends: &mut Ends, wanted: &str) -> bool {
    ends.input.send(Bytes::from_static(b"a\n")).await.unwrap();
    let mut said = String::new();
    while !said.contains('>') {
        said.push_str(&String::from_utf8_lossy(&ends.output.recv().await.expect("it goes on")));
    }
    said.contains(wanted)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_stops_waiting_ends_the_command_and_all_it_began() {
    let place = Place::new();
    let (provider, id) = running(&place).await;
    for has_terminal in [false, true] {
        let (terminal, mut ends) = terminal();
        let script = "trap '' TERM HUP; sleep 100000 & (setsid sleep 100000 &) ; echo begun; wait";
        {
            let command = Exec::exec(&provider, &id, "main", shell(script, has_terminal), terminal);
            let begun = async {
                let said = ends.output.recv().await.unwrap();
                assert!(said.starts_with(b"begun"), "{said:?}");
            };
            tokio::select! {
                exit = command => panic!("it has ended: {exit:?}"),
                () = begun => {}
            }
        }
        let is_of_command = |pid: &u32| {
            let variables = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            String::from_utf8_lossy(&variables).contains("SETPOINT_COMMAND=")
        };
        eventually("the command to be gone", async || (!workloads(&id).iter().any(is_of_command)).then_some(())).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_joins_hears_what_the_container_says_and_is_heard() {
    let place = Place::new();
    let provider = place.open();
    let mut spec = script("while read -r line; do echo \"heard $line\"; [ \"$line\" = end ] && exit 5; done");
    spec["containers"][0]["stdin"] = json!(true);
    let id = provider.create(&order("web", spec)).await.unwrap();
    wait_running(&provider, &id).await;
    let (left, _ends) = terminal();
    let leave = tokio::time::timeout(Duration::from_millis(50), provider.attach(&id, "main", left)).await;
    assert!(leave.is_err(), "it goes on");
    let (terminal_of_it, mut ends) = terminal();
    let talk = async {
        ends.input.send(Bytes::from_static(b"hello\n")).await.unwrap();
        let mut said = String::new();
        while !said.contains("heard hello") {
            said.push_str(&String::from_utf8_lossy(&ends.output.recv().await.expect("it speaks")));
        }
        ends.input.send(Bytes::from_static(b"end\n")).await.unwrap();
        while ends.output.recv().await.is_some() {}
    };
    let run = async { tokio::join!(provider.attach(&id, "main", terminal_of_it), talk) };
    let (exit, ()) = tokio::time::timeout(PATIENCE, run).await.expect("it ends");
    assert_eq!(exit.unwrap().code, 5);
    wait_word(&provider, &id, "ended").await;
    let (terminal, _ends) = terminal();
    let error = provider.attach(&id, "main", terminal).await.unwrap_err();
    assert!(error.to_string().contains("is not running"), "{error}");
}
