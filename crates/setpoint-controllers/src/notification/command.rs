//! Tells by running a program.

use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::time::Instant;

use super::Message;

const DEADLINE: Duration = Duration::from_secs(30);
const INTERVAL: Duration = Duration::from_millis(20);

/// Runs the program with the message on its standard input and nothing of ours in its environment but the search path.
/// It is killed at the deadline.
pub(super) async fn run(command: &[String], message: &Message) -> Result<(), String> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("{program} cannot be run: {error}"))?;
    let mut running = Running(child);
    let mut body = serde_json::to_vec(message).map_err(|error| error.to_string())?;
    body.push(b'\n');
    let telling = tell(running.0.stdin.take(), &body);
    let ended = tokio::select! {
        ended = running.ended() => ended,
        Err(error) = telling => Err(error),
    };
    match ended.map_err(|error| error.to_string())? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("{program} failed: {status}")),
        None => Err(format!("{program} did not end within {} s", DEADLINE.as_secs())),
    }
}

/// Writes the message as fast as it is read, and is done with it when the program is.
async fn tell(stdin: Option<ChildStdin>, body: &[u8]) -> std::io::Result<Infallible> {
    if let Some(stdin) = stdin {
        let mut stdin = pipe::Sender::from_owned_fd(OwnedFd::from(stdin))?;
        // Who does not read it is content without.
        let _ = stdin.write_all(body).await;
    }
    std::future::pending().await
}

/// A program that does not outlive who waits for it.
struct Running(Child);

impl Running {
    /// How it ended; none if it did not before the deadline.
    async fn ended(&mut self) -> std::io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            match self.0.try_wait()? {
                None if Instant::now() < deadline => tokio::time::sleep(INTERVAL).await,
                ended => return Ok(ended),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Of one that has ended, this says so and nothing else.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
