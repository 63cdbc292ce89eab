//! `$(NAME)` in a variable's value, a command or an argument: the value of a variable, by Kubernetes' rules.
//!
//! `$$` is one `$`, so `$$(NAME)` is the text `$(NAME)`; what names no variable, and what is no complete reference, stays
//! as it is.

/// The text with its references replaced. What was replaced is not looked at again.
pub fn expand<'a>(text: &str, value: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        expanded.push_str(before);
        let after = &from[1..];
        rest = if let Some(after) = after.strip_prefix('$') {
            expanded.push('$');
            after
        } else if let Some((name, after)) = after.strip_prefix('(').and_then(|opened| opened.split_once(')')) {
            match value(name) {
                Some(value) => expanded.push_str(value),
                None => {
                    expanded.push_str("$(");
                    expanded.push_str(name);
                    expanded.push(')');
                }
            }
            after
        } else {
            expanded.push('$');
            after
        };
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(name: &str) -> Option<&'static str> {
        let known = [("A", "1"), ("B", "$(A)"), ("EMPTY", ""), ("a b", "odd")];
        known.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
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
            assert_eq!(expand(text, value), expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn text_without_a_dollar_stays(text in "[^$]*") {
            prop_assert_eq!(expand(&text, value), text);
        }

        #[test]
        fn escaped_text_comes_back(text in "\\PC*") {
            prop_assert_eq!(expand(&text.replace('$', "$$"), value), text);
        }
    }
}
