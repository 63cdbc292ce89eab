//! Names of programs: a path in a domain, such as `example.com/controller`.

use setpoint_api::field::{Errors, Node};
use setpoint_api::names;

pub(super) fn validate(name: Node<'_, '_>, errors: &mut Errors) {
    let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
    match name.str().split_once('/') {
        _ if name.str().is_empty() => errors.required(&name.path, ""),
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
            for message in names::dns1123_subdomain(domain) {
                errors.invalid(&name.path, domain, &message);
            }
            if !path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b)) {
                let detail = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
                errors.invalid(&name.path, path, detail);
            }
        }
        _ => errors.invalid(&name.path, name.str(), detail),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use setpoint_api::field::Path;

    use super::*;

    #[test]
    fn programs_have_names() {
        let rows = [
            ("a path in a domain", "example.com/a/b", vec![]),
            ("nothing", "", vec!["at: Required value"]),
            (
                "no path",
                "example.com",
                vec![r#"at: Invalid value: "example.com": must be a domain-prefixed path (such as "acme.io/foo")"#],
            ),
            ("a path that is none", "example.com/a b", vec![r#"at: Invalid value: "a b": Invalid path"#]),
            (
                "a domain that is none",
                "Example/a",
                vec![r#"at: Invalid value: "Example": a lowercase RFC 1123 subdomain"#],
            ),
        ];
        for (name, text, expected) in rows {
            let (value, mut errors) = (json!(text), Errors::default());
            validate(Node { value: &value, path: Path::of("at") }, &mut errors);
            let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(found.len(), expected.len(), "{name}: {found:?}");
            assert!(found.iter().zip(&expected).all(|(found, start)| found.starts_with(start)), "{name}: {found:?}");
        }
    }
}
