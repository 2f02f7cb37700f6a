//! The dialects of the RPC. Tendermint 0.31.5 indents all JSON; which answers have another shape is in
//! `chain::tendermint` and `rpc::methods::tendermint`.

use serde::{Deserialize, Serialize};

/// Whose answers the RPC gives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dialect {
    /// CometBFT 0.38.17.
    #[default]
    #[serde(rename = "0.38")]
    Comet038,
    /// Tendermint 0.31.5, on which BigchainDB 2.2 runs.
    #[serde(rename = "0.31")]
    Tendermint031,
}

impl Dialect {
    pub(crate) fn is_0_31(self) -> bool {
        self == Self::Tendermint031
    }

    /// How texts about wrong parameters begin.
    pub(crate) fn error(self) -> &'static str {
        match self {
            Self::Comet038 => "error",
            Self::Tendermint031 => "Error",
        }
    }

    /// The text of an answer as it is sent.
    pub(crate) fn formatted(self, text: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Comet038 => text,
            Self::Tendermint031 => indented(&text),
        }
    }
}

/// Compact JSON as Go's `MarshalIndent` writes it, with two spaces a level.
fn indented(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() * 2);
    let mut level = 0;
    let (mut in_string, mut is_escaped) = (false, false);
    let new_line = |out: &mut Vec<u8>, level: usize| {
        out.push(b'\n');
        out.resize(out.len() + 2 * level, b' ');
    };
    for (at, &byte) in text.iter().enumerate() {
        if in_string {
            in_string = is_escaped || byte != b'"';
            is_escaped = byte == b'\\' && !is_escaped;
            out.push(byte);
            continue;
        }
        match byte {
            b'{' | b'[' => {
                out.push(byte);
                level += 1;
                if !matches!(text.get(at + 1), Some(b'}' | b']')) {
                    new_line(&mut out, level);
                }
            }
            b'}' | b']' => {
                level -= 1;
                if !matches!(text.get(at.wrapping_sub(1)), Some(b'{' | b'[')) {
                    new_line(&mut out, level);
                }
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                new_line(&mut out, level);
            }
            b':' => out.extend_from_slice(b": "),
            _ => {
                in_string = byte == b'"';
                out.push(byte);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_as_go_does_it() {
        for value in [
            serde_json::json!({"a": [], "b": {}, "c": [1, {"d": "x{\"[,:\\"}], "e": null}),
            serde_json::json!([[[]]]),
            serde_json::json!("\\"),
        ] {
            let text = indented(value.to_string().as_bytes());
            // serde_json's own form is the same.
            let expected = serde_json::to_string_pretty(&value).unwrap();
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
    }
}
