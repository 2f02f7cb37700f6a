//! A writer of JSON in two styles: the canonical text that is hashed, and the default text of Python's `json.dumps`.

use std::fmt::Write;

use super::{Integer, Member, Object, Value};

/// How a value is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Style {
    /// Keys sorted by code point, no spaces, raw UTF-8.
    Canonical,
    /// As Python's `json.dumps`: members in their order, `", "` and `": "`, ASCII only.
    Python,
}

/// The text that is hashed: keys sorted by code point, no spaces, raw UTF-8, control characters
/// with upper-case hexadecimal digits, floats as Python prints them.
///
/// ```
/// use bigchain::json::{canonical, parse};
///
/// let value = parse(br#"{"b": 1e16, "a": [1.0, 1]}"#)?;
/// assert_eq!(canonical(&value), r#"{"a":[1.0,1],"b":1e+16}"#);
/// # Ok::<(), bigchain::Error>(())
/// ```
pub fn canonical(value: &Value) -> String {
    written(value, Style::Canonical)
}

/// The text that BigchainDB sends to Tendermint: Python's `json.dumps` with its defaults.
pub fn default_text(value: &Value) -> String {
    written(value, Style::Python)
}

pub(crate) fn written(value: &Value, style: Style) -> String {
    let mut out = String::with_capacity(1024);
    write_value(value, style, &mut out);
    out
}

pub(crate) fn write_value(value: &Value, style: Style, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Integer(Integer::Small(number)) => {
            write!(out, "{number}").expect("a string takes any text");
        }
        Value::Integer(Integer::Big(digits)) => out.push_str(digits),
        Value::Float(float) => write_float(*float, out),
        Value::String(text) => write_string(text, style, out),
        Value::Array(items) => write_items(items, style, out, |item, out| {
            write_value(item, style, out);
        }),
        Value::Object(object) => write_object(object, style, out),
    }
}

/// Writes an array; `write` appends each item.
pub(crate) fn write_items(
    items: &[Value],
    style: Style,
    out: &mut String,
    write: impl Fn(&Value, &mut String),
) {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(style.comma());
        }
        write(item, out);
    }
    out.push(']');
}

pub(crate) fn write_object(object: &Object, style: Style, out: &mut String) {
    write_members(object, style, out, |_, value, out| {
        write_value(value, style, out);
    });
}

/// Writes an object; `write` gets the name and value of each member and appends the value. Canonical members are
/// sorted as BigchainDB sorts them.
pub(crate) fn write_members(
    object: &Object,
    style: Style,
    out: &mut String,
    write: impl Fn(&str, &Value, &mut String),
) {
    let members = object.members();
    if style == Style::Canonical && !members.is_sorted_by_key(|(key, _)| c_string(key)) {
        let mut sorted: Vec<&Member> = members.iter().collect();
        sorted.sort_by_key(|(key, _)| c_string(key));
        write_in_order(sorted.into_iter(), style, out, write);
    } else {
        write_in_order(members.iter(), style, out, write);
    }
}

/// The part of a key that BigchainDB sorts by: it compares C strings, which end at a NUL.
fn c_string(key: &str) -> &str {
    key.split_once('\0').map_or(key, |(seen, _)| seen)
}

fn write_in_order<'a>(
    members: impl Iterator<Item = &'a Member>,
    style: Style,
    out: &mut String,
    write: impl Fn(&str, &Value, &mut String),
) {
    out.push('{');
    for (index, (key, value)) in members.enumerate() {
        if index > 0 {
            out.push_str(style.comma());
        }
        write_string(key, style, out);
        out.push_str(style.colon());
        write(key, value, out);
    }
    out.push('}');
}

impl Style {
    pub(crate) const fn comma(self) -> &'static str {
        match self {
            Self::Python => ", ",
            Self::Canonical => ",",
        }
    }

    pub(crate) const fn colon(self) -> &'static str {
        match self {
            Self::Python => ": ",
            Self::Canonical => ":",
        }
    }

    fn keeps(self, byte: u8) -> bool {
        let plain = byte >= 0x20 && byte != b'"' && byte != b'\\';
        plain && (self == Self::Canonical || byte < 0x7f)
    }
}

fn write_string(text: &str, style: Style, out: &mut String) {
    out.push('"');
    if text.bytes().all(|byte| style.keeps(byte)) {
        out.push_str(text);
    } else {
        for char in text.chars() {
            write_char(char, style, out);
        }
    }
    out.push('"');
}

fn write_char(char: char, style: Style, out: &mut String) {
    let short = match char {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\u{8}' => "\\b",
        '\u{c}' => "\\f",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        _ => "",
    };
    if !short.is_empty() {
        out.push_str(short);
    } else if style == Style::Canonical {
        if char < ' ' {
            write!(out, "\\u{:04X}", u32::from(char)).expect("a string takes any text");
        } else {
            out.push(char);
        }
    } else if (' '..'\u{7f}').contains(&char) {
        out.push(char);
    } else {
        for unit in char.encode_utf16(&mut [0; 2]) {
            write!(out, "\\u{unit:04x}").expect("a string takes any text");
        }
    }
}

/// Appends a float as Python prints it (`float.__repr__`): the shortest text that reads back the same, with a fraction
/// always, in exponent form from 1e16 up and below 1e-4. Rust's `Debug` has the same digits and the same bounds of the exponent
/// form, which it writes without plus sign and leading zero.
fn write_float(float: f64, out: &mut String) {
    if float.is_infinite() {
        out.push_str(if float < 0.0 { "-Infinity" } else { "Infinity" });
        return;
    }
    let text = format!("{float:?}");
    let Some((digits, exponent)) = text.split_once('e') else {
        out.push_str(&text);
        return;
    };
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    write!(out, "{digits}e{sign}{exponent:0>2}").expect("a string takes any text");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_python_prints_them() {
        for (float, text) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (1e5, "100000.0"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (0.0001, "0.0001"),
            (0.000_123, "0.000123"),
            (0.00001, "1e-05"),
            (5e-324, "5e-324"),
            (1_527_499_149.748_151, "1527499149.748151"),
            (1e100, "1e+100"),
        ] {
            let mut out = String::new();
            write_float(float, &mut out);
            assert_eq!(out, text);
        }
    }
}
