//! The order in which people count: `web-9` before `web-101`, guest 9 before guest 101.

use std::cmp::Ordering;

/// Compares two texts, numbers within them by their amount. Different texts are never equal.
pub fn natural(one: &str, other: &str) -> Ordering {
    let (mut a, mut b) = (one, other);
    loop {
        let (first, second) = (head(a), head(b));
        let order = match (first, second) {
            ("", _) | (_, "") => first.len().cmp(&second.len()),
            _ if is_number(first) && is_number(second) => by_amount(first, second),
            _ => first.cmp(second),
        };
        if order.is_ne() || first.is_empty() {
            return order.then_with(|| one.cmp(other));
        }
        (a, b) = (&a[first.len()..], &b[second.len()..]);
    }
}

/// The longest beginning that is all digits, or has none.
fn head(text: &str) -> &str {
    let digits = is_number(text);
    let end = text.find(|character: char| character.is_ascii_digit() != digits).unwrap_or(text.len());
    &text[..end]
}

fn is_number(text: &str) -> bool {
    text.starts_with(|character: char| character.is_ascii_digit())
}

fn by_amount(one: &str, other: &str) -> Ordering {
    let (one, other) = (one.trim_start_matches('0'), other.trim_start_matches('0'));
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_by_their_amount() {
        for (less, greater) in [
            ("9", "101"),
            ("web-9", "web-101"),
            ("web-9-b", "web-10-a"),
            ("", "a"),
            ("a", "a1"),
            ("007", "7"),
            ("7", "08"),
            ("99999999999999999999998", "99999999999999999999999"),
            ("1a", "a1"),
            ("a", "b"),
        ] {
            assert_eq!(natural(less, greater), Ordering::Less, "{less:?} before {greater:?}");
            assert_eq!(natural(greater, less), Ordering::Greater, "{greater:?} after {less:?}");
            assert_eq!(natural(less, less), Ordering::Equal);
        }
    }
}
