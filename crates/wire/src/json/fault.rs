//! Why a text is not JSON, in Go's words: clients of the built-in node see them in `data`.

use std::fmt;

/// Why a text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A stream has no value.
    #[error("EOF")]
    NoInput,
    /// A stream ends inside a value.
    #[error("unexpected EOF")]
    StreamEnd,
    /// The text ends inside a value.
    #[error("unexpected end of JSON input")]
    End,
    /// Nested deeper than allowed.
    #[error("exceeded max depth")]
    Depth,
    /// A byte that cannot stand here.
    #[error("invalid character {} {expected}", Quoted(*byte))]
    Byte {
        /// The byte.
        byte: u8,
        /// What was read when it came.
        expected: Expected,
    },
}

/// What was read when a wrong byte came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The start of a value.
    Value,
    /// The start of a key.
    Key,
    /// The colon after a key.
    Colon,
    /// The next member, or the end of the object.
    MemberEnd,
    /// The next element, or the end of the array.
    ElementEnd,
    /// Nothing more.
    InputEnd,
    /// A byte of a string.
    StringByte,
    /// The letter after a backslash.
    Escape,
    /// One of the four digits after `\u`.
    HexDigit,
    /// The first digit of a number.
    Digit,
    /// The first digit after the point.
    Fraction,
    /// The first digit of the exponent.
    Exponent,
    /// The letter at this place of a word.
    Letter(Word, u8),
}

/// A value that is a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// `true`.
    True,
    /// `false`.
    False,
    /// `null`.
    Null,
}

impl Word {
    /// The word.
    pub const fn text(self) -> &'static str {
        match self {
            Self::True => "true",
            Self::False => "false",
            Self::Null => "null",
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Value => "looking for beginning of value",
            Self::Key => "looking for beginning of object key string",
            Self::Colon => "after object key",
            Self::MemberEnd => "after object key:value pair",
            Self::ElementEnd => "after array element",
            Self::InputEnd => "after top-level value",
            Self::StringByte => "in string literal",
            Self::Escape => "in string escape code",
            Self::HexDigit => "in \\u hexadecimal character escape",
            Self::Digit => "in numeric literal",
            Self::Fraction => "after decimal point in numeric literal",
            Self::Exponent => "in exponent of numeric literal",
            Self::Letter(word, place) => {
                let word = word.text();
                let letter = word.as_bytes()[usize::from(*place)];
                let letter = char::from(letter);
                return write!(f, "in literal {word} (expecting '{letter}')");
            }
        })
    }
}

/// A byte as Go quotes it in an error.
struct Quoted(u8);

impl fmt::Display for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let byte = self.0;
        match byte {
            b'\'' => f.write_str(r"'\''"),
            b'\\' => f.write_str(r"'\\'"),
            b'\n' => f.write_str(r"'\n'"),
            b'\r' => f.write_str(r"'\r'"),
            b'\t' => f.write_str(r"'\t'"),
            0x07 => f.write_str(r"'\a'"),
            0x08 => f.write_str(r"'\b'"),
            0x0b => f.write_str(r"'\v'"),
            0x0c => f.write_str(r"'\f'"),
            0..=0x1f | 0x7f => write!(f, "'\\x{byte:02x}'"),
            0x80..=0xa0 | 0xad => write!(f, "'\\u{byte:04x}'"),
            _ => write!(f, "'{}'", char::from(byte)),
        }
    }
}
