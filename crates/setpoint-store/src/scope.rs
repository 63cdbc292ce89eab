//! What a scope covers, and which scopes cover a key.

/// Whether a scope is a directory rather than one key.
pub(crate) fn is_directory(scope: &str) -> bool {
    scope.ends_with('/')
}

pub(crate) fn covers(scope: &str, key: &str) -> bool {
    if is_directory(scope) { key.starts_with(scope) } else { key == scope }
}

/// The directories that hold a key, outermost first.
pub(crate) fn directories(key: &str) -> impl Iterator<Item = &str> {
    key.match_indices('/').map(|(slash, _)| &key[..=slash])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_ends_at_a_slash() {
        for (name, scope, key, expected) in [
            ("a directory covers what is below", "/a/b/", "/a/b/c", true),
            ("however deep", "/a/", "/a/b/c", true),
            ("not a sibling with the same beginning", "/a/b/", "/a/bc/d", false),
            ("a key covers itself", "/a/b", "/a/b", true),
            ("a key covers nothing below", "/a/b", "/a/b/c", false),
            ("a key covers no longer key", "/a/b", "/a/bc", false),
        ] {
            assert_eq!(covers(scope, key), expected, "{name}");
        }
    }

    #[test]
    fn a_key_lies_in_each_of_its_directories() {
        assert_eq!(directories("/a/b/c").collect::<Vec<_>>(), ["/", "/a/", "/a/b/"]);
    }
}
