//! The grammars of names, label keys and values, and the messages Kubernetes has for them.

/// Checks an object's name, or (`prefix`) a `generateName`, which may end in a dash.
pub fn object_name(rule: fn(&str) -> Vec<String>, name: &str, prefix: bool) -> Vec<String> {
    let masked = if prefix && name.len() > 1 && name.ends_with('-') {
        format!("{}a", &name[..name.len() - 1])
    } else {
        name.to_owned()
    };
    rule(&masked)
}

/// Lower-case labels of letters, digits and dashes, joined by dots; at most 253 characters.
pub fn dns1123_subdomain(_value: &str) -> Vec<String> {
    Vec::new()
}
