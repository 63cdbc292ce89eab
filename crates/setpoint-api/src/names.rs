//! The grammars of names, label keys and values, and the messages Kubernetes has for them.
//!
//! Every rule takes the text and gives what is wrong with it, one message each; none if it is good. Kubernetes states
//! its grammars as regular expressions and shows them in its messages; here they are matched by hand.

use std::borrow::Cow;

const DNS1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS1123_LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
     and must start and end with an alphanumeric character";
const DNS1123_SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS1123_SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
     characters, '-' or '.', and must start and end with an alphanumeric character";
const WILDCARD_SUBDOMAIN: &str = "\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const WILDCARD_SUBDOMAIN_RULE: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS \
     subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_KEY_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const LABEL_VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
     or '.', and must start and end with an alphanumeric character";
const DNS1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const DNS1035_LABEL_RULE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with \
     an alphabetic character, and end with an alphanumeric character";
const CONFIG_MAP_KEY_RULE: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
const RELAXED_ENV_VAR_NAME_RULE: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";
const HTTP_HEADER_NAME_RULE: &str = "a valid HTTP header must consist of alphanumeric characters or '-'";
const PERCENT_RULE: &str = "a valid percent string must be a numeric string followed by an ending '%'";

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;
const PORT_NAME_MAX: usize = 15;

/// Checks an object's name, or (`prefix`) a `generateName`, which may end in a dash.
pub fn object_name(rule: fn(&str) -> Vec<String>, name: &str, prefix: bool) -> Vec<String> {
    rule(&if prefix { mask_trailing_dash(name) } else { Cow::Borrowed(name) })
}

/// Like Kubernetes, looks past the dash and the character before it: what comes next is the generated suffix.
fn mask_trailing_dash(name: &str) -> Cow<'_, str> {
    match name.len().checked_sub(2).filter(|_| name.ends_with('-')).and_then(|end| name.get(..end)) {
        Some(head) => Cow::Owned(format!("{head}a")),
        None => Cow::Borrowed(name),
    }
}

/// Lower-case letters, digits and dashes; at most 63 characters.
pub fn dns1123_label(value: &str) -> Vec<String> {
    let mut messages = longer_than(value, LABEL_MAX);
    if !is_dns1123_label(value) {
        messages.push(if is_dns1123_subdomain(value) {
            "must not contain dots".to_owned()
        } else {
            grammar(DNS1123_LABEL_RULE, DNS1123_LABEL, &["my-name", "123-abc"])
        });
    }
    messages
}

/// Like [`dns1123_label`], but begins with a letter.
pub fn dns1035_label(value: &str) -> Vec<String> {
    let mut messages = longer_than(value, LABEL_MAX);
    if !is_dns1123_label(value) || value.starts_with(|c: char| c.is_ascii_digit()) {
        messages.push(grammar(DNS1035_LABEL_RULE, DNS1035_LABEL, &["my-name", "abc-123"]));
    }
    messages
}

/// Lower-case labels of letters, digits and dashes, joined by dots; at most 253 characters.
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    let mut messages = longer_than(value, SUBDOMAIN_MAX);
    if !is_dns1123_subdomain(value) {
        messages.push(grammar(DNS1123_SUBDOMAIN_RULE, DNS1123_SUBDOMAIN, &["example.com"]));
    }
    messages
}

/// A DNS subdomain of which the first label is `*`.
pub fn wildcard_subdomain(value: &str) -> Vec<String> {
    let mut messages = longer_than(value, SUBDOMAIN_MAX);
    if !value.strip_prefix("*.").is_some_and(is_dns1123_subdomain) {
        messages.push(grammar(WILDCARD_SUBDOMAIN_RULE, WILDCARD_SUBDOMAIN, &["*.example.com"]));
    }
    messages
}

/// The key of a label: a name of at most 63 characters, optionally after a DNS subdomain and a slash.
pub fn qualified_name(value: &str) -> Vec<String> {
    let rule = || grammar(LABEL_KEY_RULE, LABEL_KEY, &["MyName", "my.name", "123-abc"]);
    let mut messages = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, name)) if name.contains('/') => {
            let optional_prefix = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {} {optional_prefix}", rule())];
        }
        Some(("", name)) => {
            messages.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            if prefix.len() > SUBDOMAIN_MAX {
                messages.push(format!("prefix part {}", more_bytes_than(SUBDOMAIN_MAX)));
            }
            if !is_dns1123_subdomain(prefix) {
                let rule = grammar(DNS1123_SUBDOMAIN_RULE, DNS1123_SUBDOMAIN, &["example.com"]);
                messages.push(format!("prefix part {rule}"));
            }
            name
        }
    };
    if name.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        messages.push(format!("name part {}", more_bytes_than(LABEL_MAX)));
    }
    if !is_label_text(name) {
        messages.push(format!("name part {}", rule()));
    }
    messages
}

/// The value of a label: empty, or letters, digits, `-`, `_` and `.` inside; at most 63 characters.
pub fn label_value(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > LABEL_MAX {
        messages.push(more_bytes_than(LABEL_MAX));
    }
    if !value.is_empty() && !is_label_text(value) {
        messages.push(grammar(LABEL_VALUE_RULE, LABEL_VALUE, &["MyValue", "my_value", "12345"]));
    }
    messages
}

/// A key of a ConfigMap's or Secret's data, which becomes a file name.
pub fn config_map_key(value: &str) -> Vec<String> {
    let mut messages = longer_than(value, SUBDOMAIN_MAX);
    if value.is_empty() || !value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)) {
        messages.push(grammar(CONFIG_MAP_KEY_RULE, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"]));
    }
    messages.extend(leaves_directory(value));
    messages
}

/// An environment variable's name in the wide form that containers accept: printable ASCII without `=`.
pub fn relaxed_env_var_name(value: &str) -> Vec<String> {
    if value.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    let good = value.bytes().all(|b| (b == b' ' || b.is_ascii_graphic()) && b != b'=');
    if good { Vec::new() } else { vec![RELAXED_ENV_VAR_NAME_RULE.to_owned()] }
}

/// The name of a port as the IANA registry has them: at most 15 lower-case letters, digits and single dashes.
pub fn port_name(value: &str) -> Vec<String> {
    let mut messages = longer_than(value, PORT_NAME_MAX);
    let mut require = |good: bool, message: &str| {
        if !good {
            messages.push(message.to_owned());
        }
    };
    let charset = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    require(
        !value.is_empty() && value.bytes().all(charset),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    );
    require(value.bytes().any(|b| b.is_ascii_lowercase()), "must contain at least one letter (a-z)");
    require(!value.contains("--"), "must not contain consecutive hyphens");
    require(!value.starts_with('-') && !value.ends_with('-'), "must not begin or end with a hyphen");
    messages
}

/// A port of TCP, UDP or SCTP.
pub fn port_number(port: i64) -> Vec<String> {
    in_range(port, 1, 65535)
}

/// A number between two bounds, both allowed.
pub fn in_range(value: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&value) {
        Vec::new()
    } else {
        vec![format!("must be between {low} and {high}, inclusive")]
    }
}

/// The name of an HTTP header.
pub fn http_header_name(value: &str) -> Vec<String> {
    if !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    vec![grammar(HTTP_HEADER_NAME_RULE, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

/// A whole percentage such as `25%`.
pub fn percent(value: &str) -> Vec<String> {
    let digits = value.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return Vec::new();
    }
    vec![grammar(PERCENT_RULE, "[0-9]+%", &["1%", "93%"])]
}

/// A name that stands as one segment of a URL, which is all some kinds ask of their names.
pub fn path_segment(value: &str) -> Vec<String> {
    if value == "." || value == ".." {
        return vec![format!("may not be '{value}'")];
    }
    let mut faults: Vec<String> =
        ["/", "%"].iter().filter(|s| value.contains(**s)).map(|s| format!("may not contain '{s}'")).collect();
    // No path could name such an object.
    if value.contains(char::is_control) {
        faults.push("may not contain control characters".to_owned());
    }
    faults
}

fn is_dns1123_label(value: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    value.starts_with(alphanumeric)
        && value.ends_with(alphanumeric)
        && value.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

fn is_dns1123_subdomain(value: &str) -> bool {
    value.split('.').all(is_dns1123_label)
}

fn is_label_text(value: &str) -> bool {
    value.starts_with(|c: char| c.is_ascii_alphanumeric())
        && value.ends_with(|c: char| c.is_ascii_alphanumeric())
        && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

fn leaves_directory(value: &str) -> Option<String> {
    match value {
        "." | ".." => Some(format!("must not be '{value}'")),
        _ if value.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

fn longer_than(value: &str, max: usize) -> Vec<String> {
    if value.len() > max { vec![format!("must be no more than {max} characters")] } else { Vec::new() }
}

fn more_bytes_than(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// A rule, examples of it, and the regular expression it stands for, put the way Kubernetes puts them.
fn grammar(rule: &str, expression: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{rule} (e.g. {}regex used for validation is '{expression}')", examples.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggg";

    /// What is said of one text: for each message, a part of it.
    type Row = (&'static str, &'static str, &'static [&'static str]);

    fn check(rule: fn(&str) -> Vec<String>, rows: &[Row]) {
        for (name, value, expected) in rows {
            let messages = rule(value);
            assert_eq!(messages.len(), expected.len(), "{name}: {messages:?}");
            for (message, part) in messages.iter().zip(*expected) {
                assert!(message.contains(part), "{name}: {message:?} does not say {part:?}");
            }
        }
    }

    #[test]
    fn dns_names() {
        check(
            dns1123_label,
            &[
                ("a letter is enough", "a", &[]),
                ("digits may lead", "9-lives", &[]),
                ("dots are named as the fault", "a.b", &["must not contain dots"]),
                ("upper case is refused", "Web", &["(e.g. 'my-name',  or '123-abc', regex used for validation is '"]),
                ("a dash may not end it", "web-", &["must start and end"]),
                ("63 characters are the limit", LONG, &["must be no more than 63 characters"]),
                ("empty is refused", "", &["a lowercase RFC 1123 label"]),
            ],
        );
        check(
            dns1123_subdomain,
            &[
                ("labels joined by dots", "a.b-c.9", &[]),
                ("an empty label is refused", "a..b", &["a lowercase RFC 1123 subdomain"]),
                ("an underscore is refused", "a_b", &["'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]"]),
            ],
        );
    }

    #[test]
    fn wildcards() {
        check(
            wildcard_subdomain,
            &[
                ("any host below a domain", "*.example.com", &[]),
                ("a wildcard alone", "*", &["must start with '*.'"]),
                ("a wildcard inside", "a.*.com", &["regex used for validation is '\\*\\.[a-z0-9]"]),
                ("two wildcards", "*.*.com", &["a wildcard DNS-1123 subdomain"]),
            ],
        );
    }

    #[test]
    fn label_keys_and_values() {
        check(
            qualified_name,
            &[
                ("a plain name", "App_1.x", &[]),
                ("a prefixed name", "example.com/app", &[]),
                ("an empty prefix", "/app", &["prefix part must be non-empty"]),
                ("a bad prefix", "Example/app", &["prefix part a lowercase RFC 1123 subdomain"]),
                ("an empty name fails twice", "a/", &["name part must be non-empty", "name part must consist of"]),
                ("a long name", LONG, &["name part must be no more than 63 bytes"]),
                (
                    "two slashes",
                    "a/b/c",
                    &["with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"],
                ),
            ],
        );
        check(
            label_value,
            &[
                ("empty is good", "", &[]),
                ("one character is good", "1", &[]),
                ("a space is refused", "a b", &["a valid label must be an empty string"]),
                ("63 bytes are the limit", LONG, &["must be no more than 63 bytes"]),
            ],
        );
    }

    #[test]
    fn keys_variables_ports_and_headers() {
        check(
            config_map_key,
            &[
                ("a dotted key", ".config-1_x", &[]),
                ("the parent directory", "..", &["must not be '..'"]),
                ("a name that starts like it", "..x", &["must not start with '..'"]),
                ("a slash is refused", "a/b", &["a valid config key"]),
            ],
        );
        check(
            relaxed_env_var_name,
            &[
                ("spaces and digits are printable", "1 a", &[]),
                ("an equals sign ends the name", "a=b", &["other than '='"]),
                ("empty", "", &["environment variable name must be non-empty"]),
            ],
        );
        check(
            port_name,
            &[
                ("http", "http-2", &[]),
                ("only digits", "80", &["must contain at least one letter (a-z)"]),
                ("too long, with a double dash at its end", "abcdefghijklmnop--", &["15", "consecutive", "end with"]),
            ],
        );
        check(http_header_name, &[("usual", "X-A", &[]), ("a colon is refused", "X:", &["a valid HTTP header"])]);
        check(percent, &[("usual", "25%", &[]), ("no number", "%", &["a valid percent string"])]);
        check(path_segment, &[("anything", "A b", &[]), ("slash and percent", "/%", &["'/'", "'%'"])]);
        assert_eq!(port_number(0), ["must be between 1 and 65535, inclusive"]);
        assert!(port_number(65535).is_empty());
    }

    #[test]
    fn a_name_to_be_generated_may_end_in_a_dash() {
        assert!(object_name(dns1123_label, "web-", true).is_empty());
        assert!(!object_name(dns1123_label, "web-", false).is_empty());
        assert!(!object_name(dns1123_label, "-", true).is_empty());
        assert!(!object_name(dns1123_label, "ü-", true).is_empty());
    }
}
