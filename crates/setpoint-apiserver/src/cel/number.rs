//! Fractional numbers as Go writes and reads them.

/// The shortest text that means the number, with an exponent from a million on: `1.5`, `1e+06`, `+Inf`.
pub(super) fn show(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// The number that a text means.
pub(super) fn read(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    let is_word = text.trim_start_matches(['+', '-']).starts_with(['i', 'I', 'n', 'N']);
    (number.is_finite() || is_word).then_some(number)
}
