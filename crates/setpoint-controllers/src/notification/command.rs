//! Tells by running a program.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::Message;

const DEADLINE: Duration = Duration::from_secs(30);

/// Runs the program with the message on its standard input and nothing of ours in its environment but the search path.
/// It is killed at the deadline.
pub(super) async fn run(command: &[String], message: &Message) -> Result<(), String> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("{program} cannot be run: {error}"))?;
    let mut body = serde_json::to_vec(message).map_err(|error| error.to_string())?;
    body.push(b'\n');
    let stdin = child.stdin.take();
    let telling = async {
        if let Some(mut stdin) = stdin {
            // Who does not read it all is content with less.
            let _ = stdin.write_all(&body).await;
        }
        child.wait().await
    };
    let ended = tokio::time::timeout(DEADLINE, telling).await;
    let ended = ended.map_err(|_| format!("{program} did not end within {} s", DEADLINE.as_secs()))?;
    match ended.map_err(|error| error.to_string())? {
        status if status.success() => Ok(()),
        status => Err(format!("{program} failed: {status}")),
    }
}
