//! How far a long proof goes, and the seed of its random choices.

/// `full` when the long proofs are asked for (`./test --long`), `reduced` otherwise.
pub fn extent<T>(reduced: T, full: T) -> T {
    if std::env::var_os("SETPOINT_LONG").is_some() { full } else { reduced }
}

/// The seed from `SETPOINT_SEED`, or another one each time.
///
/// It is printed, and a test's output is shown when it fails, so that the same choices can be made again.
#[expect(clippy::print_stdout, reason = "a failed test shows how to repeat it")]
pub fn seed() -> u64 {
    let given = std::env::var("SETPOINT_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(rand::random);
    println!("SETPOINT_SEED={seed} repeats these choices");
    seed
}
