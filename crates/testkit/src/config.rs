//! Edits values in a `config.toml` in place, so that comments and order stay as the server wrote them.

use thiserror::Error;

/// Why a configuration file could not be edited.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file has no such key.
    #[error(
        "config.toml has no key {0:?}: write it as section.key, or key for the top of the file"
    )]
    UnknownKey(String),
}

/// Sets the dotted `key` to `value` in `text` and returns the new text.
///
/// The value is quoted if the one it replaces was.
///
/// # Errors
/// [`ConfigError::UnknownKey`] if the file does not have the key already.
pub(crate) fn set_value(text: &str, key: &str, value: &str) -> Result<String, ConfigError> {
    let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
    let mut current = "";
    let mut found = false;
    let mut edited = String::with_capacity(text.len() + value.len());
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(header) = trimmed
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            current = header;
        }
        match assigned(trimmed, name) {
            Some(old) if current == section && !found => {
                found = true;
                let quote = if old.starts_with('"') { "\"" } else { "" };
                edited.push_str(&format!("{name} = {quote}{value}{quote}"));
            }
            _ => edited.push_str(line),
        }
        edited.push('\n');
    }
    if found {
        Ok(edited)
    } else {
        Err(ConfigError::UnknownKey(key.to_owned()))
    }
}

/// The value text if `line` assigns to `name`.
fn assigned<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (left, right) = line.split_once('=')?;
    (left.trim() == name).then(|| right.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# head\nlog_level = \"info\"\n[rpc]\n# size = 3\nsize = 1\n[mempool]\nsize = 5000\ntype = \"flood\"\n";

    #[test]
    fn keys_are_found_in_their_section_only() {
        let edited = set_value(FILE, "mempool.size", "7").unwrap();
        assert!(edited.contains("[rpc]\n# size = 3\nsize = 1\n[mempool]\nsize = 7\n"));
    }

    #[test]
    fn quotes_stay_where_they_were() {
        let edited = set_value(FILE, "log_level", "error").unwrap();
        assert!(edited.starts_with("# head\nlog_level = \"error\"\n"));
        assert!(
            set_value(FILE, "mempool.type", "nop")
                .unwrap()
                .ends_with("type = \"nop\"\n")
        );
    }

    #[test]
    fn unknown_keys_are_named() {
        let error = set_value(FILE, "mempool.sise", "7").unwrap_err();
        assert!(error.to_string().contains("mempool.sise"));
    }
}
