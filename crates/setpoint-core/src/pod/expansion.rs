//! `$(NAME)` in a variable's value, a command or an argument: the value of a variable, by Kubernetes' rules.
//!
//! `$$` is one `$`, so `$$(NAME)` is the text `$(NAME)`; what names no variable, and what is no complete reference, stays
//! as it is.

/// The text with its references replaced; `None` if that has more than `limit` bytes. What was replaced is not looked at
/// again. It takes time in proportion to the text and to what comes of it.
pub fn expand<'a>(text: &str, limit: usize, value: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    let mut expanded = Bounded { text: String::with_capacity(text.len().min(limit)), limit };
    let mut rest = text;
    // Where no bracket is closed any more, looking for it again after each `$(` would take the square of the time.
    let last_close = text.rfind(')').map_or(0, |at| text.len() - at);
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        expanded.push(before)?;
        let after = &from[1..];
        let is_reference = after.starts_with('(') && after.len() >= last_close && last_close > 0;
        rest = if let Some(after) = after.strip_prefix('$') {
            expanded.push("$")?;
            after
        } else if let Some((name, after)) =
            after.get(1..).filter(|_| is_reference).and_then(|opened| opened.split_once(')'))
        {
            match value(name) {
                Some(value) => expanded.push(value)?,
                None => {
                    expanded.push("$(")?;
                    expanded.push(name)?;
                    expanded.push(")")?;
                }
            }
            after
        } else {
            expanded.push("$")?;
            after
        };
    }
    expanded.push(rest)?;
    Some(expanded.text)
}

/// A text that never becomes longer than its limit.
struct Bounded {
    text: String,
    limit: usize,
}

impl Bounded {
    fn push(&mut self, part: &str) -> Option<()> {
        if part.len() > self.limit - self.text.len() {
            return None;
        }
        self.text.push_str(part);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(name: &str) -> Option<&'static str> {
        let known = [("A", "1"), ("B", "$(A)"), ("EMPTY", ""), ("a b", "odd")];
        known.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    #[test]
    fn references_become_values() {
        let rows = [
            ("a reference", "$(A)", "1"),
            ("among text", "x-$(A)-y", "x-1-y"),
            ("twice", "$(A)$(A)", "11"),
            ("a value is not expanded again", "$(B)", "$(A)"),
            ("an empty value", "[$(EMPTY)]", "[]"),
            ("any text up to the bracket is a name", "$(a b)", "odd"),
            ("a name that is not known", "$(NO)", "$(NO)"),
            ("no name", "$()", "$()"),
            ("an escaped reference", "$$(A)", "$(A)"),
            ("an escape before a reference", "$$$(A)", "$1"),
            ("two escapes", "$$$$(A)", "$$(A)"),
            ("a dollar at the end", "cost$", "cost$"),
            ("a dollar before text", "$HOME", "$HOME"),
            ("a bracket that is not closed", "$(A", "$(A"),
            ("a reference within one that is not closed", "$($(A)", "$($(A)"),
            ("not of one byte", "ü$(A)ü$ü", "ü1ü$ü"),
        ];
        for (name, text, expected) in rows {
            assert_eq!(expand(text, 100, value).as_deref(), Some(expected), "{name}");
        }
    }

    #[test]
    fn what_becomes_longer_than_its_limit_is_refused() {
        let rows = [
            ("text as long as it may be", "1234", 4, true),
            ("longer text", "12345", 4, false),
            ("a value as long as it may be", "$(A)23", 3, true),
            ("a longer value", "$(B)$(A)", 4, false),
            ("a reference to nothing", "$(NO)", 4, false),
            ("a short value of a long name", "$(a b)", 3, true),
            ("nothing", "", 0, true),
        ];
        for (name, text, limit, fits) in rows {
            assert_eq!(expand(text, limit, value).is_some(), fits, "{name}");
        }
        let thousandfold = "$(X)".repeat(1000);
        let value = "x".repeat(1000);
        assert_eq!(expand(&thousandfold, 100_000, |_| Some(&value)), None);
    }

    /// With a search of the rest after each `$(` this takes minutes.
    #[test]
    fn brackets_that_are_not_closed_take_no_time() {
        for text in ["$(".repeat(1 << 20), format!("){}", "$(".repeat(1 << 20))] {
            assert_eq!(expand(&text, text.len(), value).as_ref(), Some(&text));
        }
    }

    proptest! {
        #[test]
        fn text_without_a_dollar_stays(text in "[^$]*") {
            prop_assert_eq!(expand(&text, text.len(), value), Some(text));
        }

        #[test]
        fn escaped_text_comes_back(text in "\\PC*") {
            prop_assert_eq!(expand(&text.replace('$', "$$"), text.len(), value), Some(text));
        }
    }
}
