//! Values as Python prints them, for the original's error texts.

use std::fmt::Write;

use super::Value;
use super::write::{Style, written};

/// Python's `repr` of a value as its JSON reader makes it.
///
/// Which characters beyond ASCII are printable comes from Rust's tables, which are newer than
/// those of Python 3.6.
pub fn repr(value: &Value) -> String {
    written(value, Style::Repr)
}

/// Python's `str` of a value: a string is itself, anything else is its [`repr`].
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => repr(other),
    }
}

/// Python's `repr` of a string.
pub(super) fn write_repr_of_text(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for char in text.chars() {
        match char {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if char == quote => {
                out.push('\\');
                out.push(char);
            }
            _ if is_printable(char) => out.push(char),
            _ => {
                let code = u32::from(char);
                let written = match code {
                    0..=0xff => write!(out, "\\x{code:02x}"),
                    0x100..=0xffff => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
                written.expect("a string takes any text");
            }
        }
    }
    out.push(quote);
}

fn is_printable(char: char) -> bool {
    if char.is_ascii() {
        return (' '..='~').contains(&char);
    }
    if char.is_whitespace() {
        return false;
    }
    // `Debug` escapes what is not printable; a letter in front keeps it from escaping a combining
    // mark, which Python prints.
    !format!("{:?}", format!("a{char}")).contains("\\u")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    #[test]
    fn values_print_as_python_prints_them() {
        for (json, python) in [
            ("null", "None"),
            ("[true, false]", "[True, False]"),
            (r#"{"a": [1.0, 1e400]}"#, "{'a': [1.0, inf]}"),
            (r#""it's""#, "\"it's\""),
            (r#""'\"""#, "'\\'\"'"),
            (
                r#""\u0000\n\u007f\u00a0\u2028\u0661""#,
                "'\\x00\\n\\x7f\\xa0\\u2028\u{661}'",
            ),
        ] {
            assert_eq!(repr(&parse(json.as_bytes()).unwrap()), python);
        }
        assert_eq!(text(&Value::from("x")), "x");
    }
}
