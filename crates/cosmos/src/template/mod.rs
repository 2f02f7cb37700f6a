//! Messages of any type from a description, with parts that differ from one to the next.
//!
//! The description is protobuf's JSON with the fields' names, for types whose descriptors are known
//! ([`MessageTypes`]):
//!
//! ```json
//! {"@type": "/cosmos.bank.v1beta1.MsgSend", "from_address": "{from}", "to_address": "{to}", "amount": [{"denom": "stake", "amount": "1"}]}
//! ```
//!
//! For any other type the fields' numbers stand for their names: they are what is sent.
//!
//! ```json
//! {"@type": "/cosmos.staking.v1beta1.MsgDelegate", "1": "{from}", "2": "cosmosvaloper1…", "3": {"1": "stake", "2": "1"}}
//! ```
//!
//! | value of a numbered field | on the wire |
//! |---|---|
//! | text | a string, with `{from}`, `{to}` and `{index}` replaced |
//! | whole number, `true`, `false` | a varint |
//! | `{"number": "{index}"}` | a varint from a text |
//! | `{"hex": "00ff"}` | bytes |
//! | an object with `@type` | an `Any` |
//! | any other object | a message |
//! | a list | each of its values, in their order |
//!
//! Fields are written in the order of their numbers, and those that are zero or empty are left out, as the
//! SDK signs them (ADR-027). Numbers with a fraction and `null` are refused in numbered fields.

mod known;
mod names;
mod write;

pub use known::MessageTypes;
use serde_json::{Map, Value};

use crate::{Error, Message};
use write::write_fields;

/// A message whose fields may name the sender, a recipient and the transaction's index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    type_url: String,
    fields: Vec<(u32, Part)>,
}

/// What takes the place of a template's placeholders.
#[derive(Debug, Clone, Copy)]
pub struct Filling<'a> {
    /// `{from}`: the address of the account that signs.
    pub from: &'a str,
    /// `{to}`: the address of a recipient.
    pub to: &'a str,
    /// `{index}`: the transaction's.
    pub index: u64,
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(Vec<Piece>),
    Number(u64),
    NumberOf(Vec<Piece>),
    Fixed32(u32),
    Fixed64(u64),
    Bytes(Vec<u8>),
    Message(Vec<(u32, Self)>),
    Any(Template),
    /// Values that are written also where they are zero or empty.
    Each(Vec<Self>),
}

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Plain(String),
    From,
    To,
    Index,
}

impl Template {
    /// Reads a description.
    ///
    /// # Errors
    /// [`Error::Template`]: where it is wrong and what is expected there.
    pub fn parse(json: &str, types: &MessageTypes) -> Result<Self, Error> {
        let value: Value =
            serde_json::from_str(json).map_err(|error| wrong("the file", &error.to_string()))?;
        let Value::Object(object) = value else {
            return Err(wrong("the file", "is no object"));
        };
        let template = Self::of("the message", &object, types)?;
        // What a chain expects of a number shows now, and not in the middle of a run.
        let filling = Filling {
            from: "",
            to: "",
            index: 0,
        };
        write_fields(&template.fields, &filling, &mut Vec::new())?;
        Ok(template)
    }

    /// The URL of the messages' type.
    #[must_use]
    pub fn type_url(&self) -> &str {
        &self.type_url
    }

    /// How many bytes more a message has at most than the one with index 0.
    #[must_use]
    pub fn growth(&self) -> usize {
        INDEX_DIGITS * count_of_indices(&self.fields)
    }

    /// The message with its placeholders filled.
    ///
    /// # Errors
    /// [`Error::Template`] when what should be a number is none, filled like this.
    pub fn message(&self, filling: &Filling<'_>) -> Result<Message, Error> {
        let mut value = Vec::with_capacity(write::TYPICAL_BYTES);
        write_fields(&self.fields, filling, &mut value)?;
        Ok(Message::new(self.type_url.clone(), value))
    }

    fn of(place: &str, object: &Map<String, Value>, types: &MessageTypes) -> Result<Self, Error> {
        let Some(Value::String(type_url)) = object.get(TYPE) else {
            return Err(wrong(
                place,
                "has no \"@type\", for instance \"/cosmos.bank.v1beta1.MsgSend\"",
            ));
        };
        if !type_url.starts_with('/') {
            return Err(wrong(
                place,
                "has an \"@type\" that does not begin with a slash",
            ));
        }
        let is_number = |name: &&String| name.bytes().all(|byte| byte.is_ascii_digit());
        let mut names = object.keys().filter(|name| *name != TYPE);
        let fields = match (names.find(|name| !is_number(name)), types.get(type_url)) {
            (None, _) => fields_of(place, object, types)?,
            (Some(_), Some(message)) => names::fields_of(place, object, &message, types)?,
            (Some(name), None) => return Err(unknown_type(place, type_url, name, types)),
        };
        Ok(Self {
            type_url: type_url.clone(),
            fields,
        })
    }
}

/// That fields have names and the names of the type are not known.
fn unknown_type(place: &str, type_url: &str, field: &str, types: &MessageTypes) -> Error {
    let near = near(type_url, types.urls());
    let near = match near.is_empty() {
        true => String::new(),
        false => format!(" (known are {})", near.join(", ")),
    };
    let problem = format!(
        "has a field {field:?}, and the fields of {type_url} are not known here{near}: give their descriptors with \
         --proto-descriptors, or write the fields' numbers of the .proto file, 1 to 536870911"
    );
    wrong(place, &problem)
}

/// Names that somebody may have meant, nearest first.
fn near(written: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let distance = |name: &str| strsim::damerau_levenshtein(written, name);
    let mut near: Vec<(usize, String)> = names.map(|name| (distance(&name), name)).collect();
    near.retain(|(distance, name)| 3 * distance <= name.len());
    near.sort();
    near.dedup();
    near.into_iter().take(3).map(|(_, name)| name).collect()
}

/// The fields of an object, in the order of their numbers.
fn fields_of(
    place: &str,
    object: &Map<String, Value>,
    types: &MessageTypes,
) -> Result<Vec<(u32, Part)>, Error> {
    let mut fields = Vec::new();
    for (name, value) in object.iter().filter(|(name, _)| *name != TYPE) {
        let number = name.parse().ok().filter(|number| NUMBERS.contains(number));
        let Some(number) = number else {
            let problem = format!(
                "has a field {name:?}: write the field's number of the .proto file, 1 to 536870911"
            );
            return Err(wrong(place, &problem));
        };
        let place = format!("{place}, field {number}");
        match value {
            Value::Array(values) => {
                let parts = values.iter().map(|value| part_of(&place, value, types));
                fields.push((number, Part::Each(parts.collect::<Result<_, _>>()?)));
            }
            value => fields.push((number, part_of(&place, value, types)?)),
        }
    }
    fields.sort_by_key(|(number, _)| *number);
    Ok(fields)
}

fn part_of(place: &str, value: &Value, types: &MessageTypes) -> Result<Part, Error> {
    Ok(match value {
        Value::String(text) => Part::Text(pieces(place, text)?),
        Value::Bool(flag) => Part::Number(u64::from(*flag)),
        Value::Number(number) => {
            let signed = || number.as_i64().map(i64::cast_unsigned);
            let number = number.as_u64().or_else(signed);
            Part::Number(number.ok_or_else(|| wrong(place, "is no whole number of 64 bits"))?)
        }
        Value::Object(object) if object.contains_key(TYPE) => {
            Part::Any(Template::of(place, object, types)?)
        }
        Value::Object(object) => match (object.len(), object.get("hex"), object.get("number")) {
            (1, Some(Value::String(hex)), _) => {
                let bytes = hex_simd::decode_to_vec(hex);
                Part::Bytes(
                    bytes.map_err(|_| wrong(place, "has a \"hex\" that is no hexadecimal"))?,
                )
            }
            (1, _, Some(Value::String(text))) => Part::NumberOf(pieces(place, text)?),
            _ => Part::Message(fields_of(place, object, types)?),
        },
        Value::Null => return Err(wrong(place, "is null: leave the field out")),
        Value::Array(_) => return Err(wrong(place, "is a list in a list")),
    })
}

/// A text cut at its placeholders; `{{` stands for a brace.
fn pieces(place: &str, text: &str) -> Result<Vec<Piece>, Error> {
    let mut found = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        plain.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('{') {
            plain.push('{');
            rest = after;
            continue;
        }
        let (name, after) = rest.split_once('}').unwrap_or((rest, ""));
        let piece = match name {
            "from" => Piece::From,
            "to" => Piece::To,
            "index" => Piece::Index,
            _ => {
                let problem = format!(
                    "has the placeholder {{{name}}}; there are {{from}}, {{to}} and {{index}}, and {{{{ is a brace"
                );
                return Err(wrong(place, &problem));
            }
        };
        found.extend([Piece::Plain(std::mem::take(&mut plain)), piece]);
        rest = after;
    }
    plain.push_str(rest);
    found.push(Piece::Plain(plain));
    found.retain(|piece| !matches!(piece, Piece::Plain(text) if text.is_empty()));
    Ok(found)
}

fn count_of_indices(fields: &[(u32, Part)]) -> usize {
    fields.iter().map(|(_, part)| indices_of(part)).sum()
}

fn indices_of(part: &Part) -> usize {
    match part {
        Part::Text(pieces) | Part::NumberOf(pieces) => pieces
            .iter()
            .filter(|piece| **piece == Piece::Index)
            .count(),
        Part::Message(fields) => count_of_indices(fields),
        Part::Any(template) => count_of_indices(&template.fields),
        Part::Each(parts) => parts.iter().map(indices_of).sum(),
        Part::Number(_) | Part::Fixed32(_) | Part::Fixed64(_) | Part::Bytes(_) => 0,
    }
}

fn wrong(place: &str, problem: &str) -> Error {
    Error::Template(format!("{place} {problem}"))
}

const TYPE: &str = "@type";
/// Of a 64-bit number, and a byte for the length of what it is in.
const INDEX_DIGITS: usize = 21;
const NUMBERS: std::ops::RangeInclusive<u32> = 1..=536_870_911;

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, proptest};

    use super::*;
    use crate::proto::{Fields, Value as Wire};
    use crate::{Coin, Keys, Prefix};

    fn parse(json: &str) -> Result<Template, Error> {
        Template::parse(json, &MessageTypes::known())
    }

    fn bytes(json: &str, index: u64) -> Vec<u8> {
        let filling = Filling {
            from: "cosmos1from",
            to: "cosmos1to",
            index,
        };
        let message = parse(json).unwrap().message(&filling).unwrap();
        let mut any = Vec::new();
        message.write(&mut any);
        let value = Fields::of(&any, "any").map(Result::unwrap).last();
        match value {
            Some((2, Wire::Bytes(value))) => value.to_vec(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn a_transfer_by_the_numbers_of_its_fields_is_the_transfer() {
        let (keys, prefix) = (Keys::from_seed(1), Prefix::new("cosmos").unwrap());
        let [from, to] = [0, 1].map(|number| keys.key(number).unwrap().address());
        let json = r#"{"3": [{"2": "17", "1": "stake"}], "2": "{to}", "1": "{from}",
                       "@type": "/cosmos.bank.v1beta1.MsgSend"}"#;
        let template = parse(json).unwrap();
        let filling = Filling {
            from: &prefix.write(from),
            to: &prefix.write(to),
            index: 9,
        };
        let sent = Message::send(&prefix, from, to, &Coin::new(17, "stake"));
        assert_eq!(template.message(&filling).unwrap(), sent);
        assert_eq!(template.growth(), 0);
    }

    #[test]
    fn every_kind_of_value_is_written_as_protobuf_writes_it() {
        // By hand, of "Encoding" in protobuf's documentation.
        let cases: [(&str, &[u8]); 11] = [
            (r#""1": 150"#, &[0x08, 0x96, 0x01]),
            (
                r#""1": -2"#,
                &[
                    0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
                ],
            ),
            (r#""2": "testing""#, b"\x12\x07testing"),
            (r#""3": {"1": 150}"#, &[0x1a, 0x03, 0x08, 0x96, 0x01]),
            (r#""100": true, "99": false"#, &[0xa0, 0x06, 0x01]),
            (r#""5": ["a", "", "b"]"#, b"\x2a\x01a\x2a\x00\x2a\x01b"),
            (r#""4": {"hex": "00ff"}"#, &[0x22, 0x02, 0x00, 0xff]),
            (r#""4": {"hex": ""}, "5": "", "6": 0"#, &[]),
            (r#""1": {"number": "{index}"}"#, &[0x08, 0x07]),
            (r#""1": "{{{index}} {from}""#, b"\x0a\x0f{7} cosmos1from"),
            (
                r#""1": {"@type": "/a", "1": 1}"#,
                b"\x0a\x08\x0a\x02/a\x12\x02\x08\x01",
            ),
        ];
        for (fields, expected) in cases {
            let json = format!(r#"{{"@type": "/x.Y", {fields}}}"#);
            assert_eq!(bytes(&json, 7), expected, "{fields}");
        }
        let template = parse(r#"{"@type": "/x.Y", "1": "{index}{index}"}"#).unwrap();
        assert_eq!(template.growth(), 42);
    }

    #[test]
    fn what_cannot_be_written_is_refused_with_its_place() {
        for (json, problem) in [
            ("[]", "the file is no object"),
            ("{", "the file EOF"),
            (r#"{"1": 1}"#, "has no \"@type\""),
            (r#"{"@type": "x"}"#, "begin with a slash"),
            (
                r#"{"@type": "/x", "amount": 1}"#,
                "the fields of /x are not known here: give their descriptors with --proto-descriptors",
            ),
            (r#"{"@type": "/x", "0": 1}"#, "write the field's number"),
            (
                r#"{"@type": "/x", "1": 1.5}"#,
                "the message, field 1 is no whole number",
            ),
            (r#"{"@type": "/x", "1": null}"#, "leave the field out"),
            (r#"{"@type": "/x", "1": [[1]]}"#, "a list in a list"),
            (
                r#"{"@type": "/x", "2": {"1": "{me}"}}"#,
                "field 2, field 1 has the placeholder {me}",
            ),
            (r#"{"@type": "/x", "1": {"hex": "0"}}"#, "no hexadecimal"),
            (r#"{"@type": "/x", "1": {"number": "{from}"}}"#, "no number"),
        ] {
            let error = parse(json).unwrap_err().to_string();
            assert!(error.contains(problem), "{json}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_description_makes_the_reader_panic(text in ".{0,80}", index in any::<u64>()) {
            let _ = parse(&text);
            let json = serde_json::json!({"@type": "/x", "1": text}).to_string();
            if let Ok(template) = parse(&json) {
                let filled = bytes(&json, index).len();
                prop_assert!(filled <= bytes(&json, 0).len() + template.growth());
            }
        }
    }
}
