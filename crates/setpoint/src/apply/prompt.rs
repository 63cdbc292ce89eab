//! Asking a person.

use std::io::{self, BufRead as _, Write as _};

use anyhow::{Context as _, Result};

/// Whether the person says yes. Whoever closes the input says no.
pub(crate) async fn agrees(question: &str) -> Result<bool> {
    let question = question.to_owned();
    let answer = tokio::task::spawn_blocking(move || -> io::Result<String> {
        write!(io::stderr(), "{question} [yes/no] ")?;
        io::stderr().flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        if answer.is_empty() {
            writeln!(io::stderr())?;
        }
        Ok(answer)
    });
    let answer = answer.await?.context("cannot ask")?;
    Ok(matches!(answer.trim(), "yes" | "y"))
}
