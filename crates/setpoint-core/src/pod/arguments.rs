//! The command line of a container: its command and arguments, with the values of variables in them.

use k8s_openapi::api::core::v1::Container;

use super::expansion::expand;
use super::limits::{LimitError, MAX_STRING_BYTES, ProcessBytes, string_bytes};

/// The command with its arguments. `bytes` counts what the process has already.
pub fn resolve<'a>(
    container: &Container,
    bytes: &mut ProcessBytes,
    value: impl Fn(&str) -> Option<&'a str>,
) -> Result<Vec<String>, LimitError> {
    let mut resolved = Vec::new();
    for (field, texts) in [("command", &container.command), ("args", &container.args)] {
        for (index, text) in texts.iter().flatten().enumerate() {
            let subject = || format!("{field}[{index}]");
            let argument = expand(text, MAX_STRING_BYTES - 1, &value);
            let argument = argument.ok_or_else(|| LimitError::String { subject: subject() })?;
            bytes.add(string_bytes(argument.len()), subject)?;
            resolved.push(argument);
        }
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(command: &[&str], args: &[String]) -> Result<Vec<String>, String> {
        let value = |name: &str| (name == "A").then_some("1");
        let texts = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect());
        let container = Container { command: texts(command), args: Some(args.to_vec()), ..Container::default() };
        resolve(&container, &mut ProcessBytes::with_reserve(), value).map_err(|error| error.to_string())
    }

    #[test]
    fn variables_have_their_values_in_the_command_and_its_arguments() {
        let found = resolved(&["echo", "$(A)"], &["$(A)$(B)".to_owned(), "$$(A)".to_owned()]);
        assert_eq!(found, Ok(["echo", "1", "1$(B)", "$(A)"].map(str::to_owned).to_vec()));
    }

    #[test]
    fn an_argument_that_is_too_long_is_named() {
        let long = |bytes: usize| "x".repeat(bytes);
        assert!(resolved(&["echo"], &[long(MAX_STRING_BYTES - 1)]).is_ok());
        let error = resolved(&["echo"], &["a".to_owned(), long(MAX_STRING_BYTES)]).unwrap_err();
        assert!(error.starts_with("args[1]: the value is too long") && error.contains("131072 bytes"), "{error}");
        let many = vec![long(100_000); 30];
        let error = resolved(&["echo"], &many).unwrap_err();
        assert!(error.starts_with("args[20]: argument list too long"), "{error}");
    }
}
