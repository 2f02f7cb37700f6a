//! The effective configuration, written down.

use std::fmt::{self, Write as _};

use super::keys::{KEYS, Key};
use super::resolve::Resolved;

/// TOML that parses back to the same configuration, each value with its origin behind it.
impl fmt::Display for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("# The effective configuration, with the origin of each value.\n")?;
        let mut section = "";
        for (key, origin) in KEYS.iter().zip(&self.origins) {
            if key.section() != section {
                section = key.section();
                write!(f, "\n[{section}]\n")?;
            }
            let line = self.line(key);
            // An origin names a file, and a file's name may hold anything.
            let mut comment = String::new();
            for c in origin.to_string().chars() {
                write!(comment, "{}", if c.is_control() { '?' } else { c })?;
            }
            writeln!(f, "{line:<COMMENT_COLUMN$} # {comment}")?;
        }
        Ok(())
    }
}

impl Resolved {
    fn line(&self, key: &Key) -> String {
        format!("{} = {}", key.leaf(), key.value(&self.config))
    }
}

/// Where the origins stand, unless a value is longer.
const COMMENT_COLUMN: usize = 40;
