//! `$(NAME)` in a container's command, its arguments and its variables.

/// Puts in the values of the variables that a text refers to. `$$` is a dollar sign, and a reference to what is not known
/// stays as it is.
pub fn expand<'a>(text: &str, value: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(after) = after.strip_prefix('$') {
            expanded.push('$');
            rest = after;
            continue;
        }
        let name = after.strip_prefix('(').and_then(|inner| inner.split_once(')'));
        rest = match name {
            Some((name, after)) => {
                match value(name) {
                    Some(value) => expanded.push_str(value),
                    None => expanded.extend(["$(", name, ")"]),
                }
                after
            }
            None => {
                expanded.push('$');
                after
            }
        };
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_become_values() {
        let rows = [
            ("nothing to do", "plain", "plain"),
            ("a known name", "a-$(PORT)-b", "a-8080-b"),
            ("twice", "$(PORT)$(PORT)", "80808080"),
            ("an unknown name", "$(NOPE)", "$(NOPE)"),
            ("an escape", "$$(PORT)", "$(PORT)"),
            ("an escape before a reference", "$$$(PORT)", "$8080"),
            ("a dollar sign alone", "5$ and $x", "5$ and $x"),
            ("never closed", "$(PORT", "$(PORT"),
            ("at the end", "100$", "100$"),
            ("an empty name", "$()", "$()"),
            ("what is put in is not looked at again", "$(LOOP)", "$(PORT)"),
        ];
        let value = |name: &str| match name {
            "PORT" => Some("8080"),
            "LOOP" => Some("$(PORT)"),
            _ => None,
        };
        for (what, text, expanded) in rows {
            assert_eq!(expand(text, value), expanded, "{what}");
        }
    }
}
