//! What is offered for a running instance: its log, commands within it, and news of it.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use tokio::sync::mpsc;

use super::trial::{broken, ensure, not_applicable};
use super::{Kind, Trial, Verdict, greeting};
use crate::provider::{Change, Provider};
use crate::session::{Command, LogOptions, Logs, Terminal};

const CONTAINER: &str = "main";

pub async fn what_was_written_is_read(trial: &Trial<'_>) -> Verdict {
    let (_, id) = trial.make("one", Kind::Ordinary).await?;
    let provider = trial.provider();
    let Some(logs) = provider.logs() else { return not_applicable("it shows no logs") };
    let line = format!("{}\n", greeting("one"));
    let written = async || Ok(read(logs, &id, LogOptions::default()).await? == line.as_bytes());
    trial.eventually("what was written is read", written).await?;
    let cut = read(logs, &id, LogOptions { limit_bytes: Some(3), ..LogOptions::default() }).await?;
    ensure!(cut == line.as_bytes()[..3], "the first three bytes are {:?}", String::from_utf8_lossy(&cut));
    let none = read(logs, &id, LogOptions { tail_lines: Some(0), ..LogOptions::default() }).await?;
    ensure!(none.is_empty(), "no lines were asked for, and some came");
    let strange = logs.read("no-such-instance", CONTAINER, LogOptions::default()).await.map(drop);
    ensure!(strange.is_err(), "the log of what is not there was read");
    provider.stop("end", &id, Duration::from_secs(60)).await?;
    trial.wait_ended(&id).await?;
    let followed = read(logs, &id, LogOptions { follow: true, ..LogOptions::default() });
    let Ok(followed) = tokio::time::timeout(trial.subject.patience(), followed).await else {
        return broken("who follows the log of what has ended waits for ever");
    };
    ensure!(followed?.starts_with(line.as_bytes()), "the log is gone with the end of what wrote it");
    Ok(())
}

pub async fn a_command_tells_what_it_said_and_how_it_ended(trial: &Trial<'_>) -> Verdict {
    let (_, id) = trial.make("one", Kind::Ordinary).await?;
    let provider = trial.provider();
    let Some(exec) = provider.exec() else { return not_applicable("it runs no commands") };
    let (input, input_end) = mpsc::channel(1);
    let (output_end, mut output) = mpsc::channel(16);
    let (errors_end, mut errors) = mpsc::channel(16);
    let (_sizes, sizes_end) = mpsc::channel(1);
    let terminal =
        Terminal { input: Some(input_end), output: Some(output_end), errors: Some(errors_end), sizes: sizes_end };
    let arguments = ["sh", "-c", "read word; echo \"said $word\"; echo wrong >&2; exit 7"].map(str::to_owned).to_vec();
    let command = Command { arguments, has_terminal: false };
    let speak = async move {
        let _ = input.send(Bytes::from_static(b"hello\n")).await;
    };
    let (exit, said, complained, ()) =
        tokio::join!(exec.exec(&id, CONTAINER, command, terminal), all(&mut output), all(&mut errors), speak);
    let code = exit?.code;
    ensure!(code == 7, "a command that ended with 7 is told to have ended with {code}");
    ensure!(said == b"said hello\n", "a command's output came as {:?}", String::from_utf8_lossy(&said));
    ensure!(complained == b"wrong\n", "a command's errors came as {:?}", String::from_utf8_lossy(&complained));
    Ok(())
}

pub async fn what_happens_is_told(trial: &Trial<'_>) -> Verdict {
    let provider = trial.provider();
    let Some(mut events) = provider.events() else { return not_applicable("it tells no news: it has to be asked") };
    let order = trial.subject.order("one", "make-one", Kind::Ordinary);
    let id = provider.create(&order).await?;
    is_told(trial, &mut events, &id, "made").await?;
    trial.wait_running(&id).await?;
    while events.try_recv().is_ok() {}
    provider.stop("end-one", &id, Duration::ZERO).await?;
    is_told(trial, &mut events, &id, "stopped").await?;
    trial.wait_ended(&id).await?;
    while events.try_recv().is_ok() {}
    provider.delete("remove-one", &id).await?;
    is_told(trial, &mut events, &id, "removed").await
}

/// Waits until one is told to look at an instance.
async fn is_told(trial: &Trial<'_>, events: &mut mpsc::Receiver<Change>, id: &str, what: &str) -> Verdict {
    let told = async {
        while let Some(change) = events.recv().await {
            if matches!(&change, Change::Everything) || matches!(&change, Change::Instance(of) if **of == *id) {
                return true;
            }
        }
        false
    };
    let told = tokio::time::timeout(trial.subject.patience(), told).await;
    ensure!(told == Ok(true), "nobody was told that {id} was {what}");
    Ok(())
}

async fn read(logs: &dyn Logs, id: &str, options: LogOptions) -> Verdict<Vec<u8>> {
    let mut stream = logs.read(id, CONTAINER, options).await?;
    let mut read = Vec::new();
    while let Some(piece) = stream.next().await {
        match piece {
            Ok(piece) => read.extend_from_slice(&piece),
            Err(error) => return broken(format!("the log ends in an error: {error}")),
        }
    }
    Ok(read)
}

async fn all(pieces: &mut mpsc::Receiver<Bytes>) -> Vec<u8> {
    let mut said = Vec::new();
    while let Some(piece) = pieces.recv().await {
        said.extend_from_slice(&piece);
    }
    said
}
