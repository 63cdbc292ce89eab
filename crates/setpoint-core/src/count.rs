//! How many of something there are, in words for people.

/// `1 Machine`, `3 Machines`.
pub fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// `1 Machine is`, `3 Machines are`.
pub fn counted_are(count: usize, noun: &str) -> String {
    format!("{} {}", counted(count, noun), if count == 1 { "is" } else { "are" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_several() {
        let rows = [(0, "0 orphans are"), (1, "1 orphan is"), (2, "2 orphans are")];
        for (count, expected) in rows {
            assert_eq!(counted_are(count, "orphan"), expected);
        }
    }
}
