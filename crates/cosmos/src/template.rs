//! Messages of any type from a description, with parts that differ from one to the next.
//!
//! The description is protobuf's JSON, for types whose descriptors are known ([`MessageTypes`]):
//!
//! ```json
//! {"@type": "/cosmos.bank.v1beta1.MsgSend", "from_address": "{from}", "to_address": "{to}", "amount": [{"denom": "stake", "amount": "1"}]}
//! ```
//!
//! In texts `{from}`, `{to}` and `{index}` are replaced. `{"@text": "…"}` and `{"@hex": "00ff"}` stand for `bytes`, which
//! protobuf's JSON has in base64 only.
//!
//! Fields are written in the order of their numbers, and those that are zero or empty are left out, as the
//! SDK signs them (ADR-027): what `prost-reflect` does with types of `proto3`.

use prost_reflect::prost::Message as _;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use serde_json::{Map, Value};

use crate::{Error, Message, MessageTypes};

/// A message whose fields may name the sender, a recipient and the transaction's index.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    type_url: String,
    descriptor: MessageDescriptor,
    fields: Value,
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

impl Template {
    /// Reads a description.
    ///
    /// # Errors
    /// [`Error::Template`]: what is wrong with it.
    pub fn parse(json: &str, types: &MessageTypes) -> Result<Self, Error> {
        let wrong = |problem: &str| Error::Template(format!("the message {problem}"));
        let mut fields: Map<String, Value> =
            serde_json::from_str(json).map_err(|error| wrong(&format!("is no object: {error}")))?;
        let Some(Value::String(type_url)) = fields.remove("@type") else {
            return Err(wrong(
                "has no \"@type\", for instance \"/cosmos.bank.v1beta1.MsgSend\"",
            ));
        };
        if !type_url.starts_with('/') {
            return Err(wrong("has an \"@type\" that does not begin with a slash"));
        }
        let Some(descriptor) = types.get(&type_url) else {
            return Err(wrong(&unknown_type(&type_url, types)));
        };
        let template = Self {
            type_url,
            descriptor,
            fields: Value::Object(fields),
        };
        // What the type expects shows now, and not in the middle of a run.
        let filling = Filling {
            from: "",
            to: "",
            index: 0,
        };
        template.message(&filling)?;
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
        INDEX_BYTES * self.fields.to_string().matches("{index}").count()
    }

    /// The message with its placeholders filled.
    ///
    /// # Errors
    /// [`Error::Template`] when a field, filled like this, is not of its type.
    pub fn message(&self, filling: &Filling<'_>) -> Result<Message, Error> {
        let mut fields = self.fields.clone();
        fill(&mut fields, filling)?;
        let message = DynamicMessage::deserialize(self.descriptor.clone(), fields);
        let message = message.map_err(|error| {
            let names: Vec<String> = self
                .descriptor
                .fields()
                .map(|it| it.name().to_owned())
                .collect();
            Error::Template(format!(
                "the message does not fit its type: {error} (the fields of {} are {})",
                self.descriptor.full_name(),
                names.join(", ")
            ))
        })?;
        Ok(Message::new(self.type_url.clone(), message.encode_to_vec()))
    }
}

/// Fills texts, and puts base64 in the place of what stands for bytes.
fn fill(value: &mut Value, filling: &Filling<'_>) -> Result<(), Error> {
    match value {
        Value::String(text) => *text = filled(text, filling)?,
        Value::Array(values) => {
            for value in values {
                fill(value, filling)?;
            }
        }
        Value::Object(fields) => {
            for value in fields.values_mut() {
                fill(value, filling)?;
            }
            let bytes = match (fields.get("@text"), fields.get("@hex")) {
                (Some(Value::String(text)), None) => text.as_bytes().to_vec(),
                (None, Some(Value::String(hex))) => hex_simd::decode_to_vec(hex).map_err(|_| {
                    Error::Template("the message has an \"@hex\" that is no hexadecimal".into())
                })?,
                _ => return Ok(()),
            };
            *value = base64_simd::STANDARD.encode_to_string(bytes).into();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

fn filled(text: &str, filling: &Filling<'_>) -> Result<String, Error> {
    let filled = text
        .replace("{from}", filling.from)
        .replace("{to}", filling.to)
        .replace("{index}", &filling.index.to_string());
    let is_name = |inner: &str| {
        let (name, end) = inner.split_once('}').unwrap_or_default();
        end.len() < inner.len()
            && !name.is_empty()
            && name.bytes().all(|it| it.is_ascii_lowercase())
    };
    match filled.split('{').skip(1).find(|inner| is_name(inner)) {
        Some(inner) => Err(Error::Template(format!(
            "the message has the placeholder {{{}; there are {{from}}, {{to}} and {{index}}",
            inner.split_inclusive('}').next().unwrap_or_default()
        ))),
        None => Ok(filled),
    }
}

/// That the fields of a type are not known, with the types that may have been meant, nearest first.
fn unknown_type(type_url: &str, types: &MessageTypes) -> String {
    let distance = |name: &str| strsim::damerau_levenshtein(type_url, name);
    let mut near: Vec<(usize, String)> = types.urls().map(|url| (distance(&url), url)).collect();
    near.retain(|(distance, url)| 3 * distance <= url.len());
    near.sort();
    near.dedup();
    let near: Vec<String> = near.into_iter().take(3).map(|(_, url)| url).collect();
    let near = if near.is_empty() {
        String::new()
    } else {
        format!(" (known are {})", near.join(", "))
    };
    format!(
        "has the type {type_url}, whose fields are not known here{near}: give their descriptors with \
         --proto-descriptors"
    )
}

/// Of a 64-bit number in base64, and a byte for the length of what it is in.
const INDEX_BYTES: usize = 28;

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, proptest};
    use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
    use prost_reflect::prost_types::{
        DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    };

    use super::*;
    use crate::proto::{Fields, Value as Wire};
    use crate::{Coin, Keys, Prefix};

    /// `x.Do` with a text, bytes and a number, as protoc describes it.
    fn types() -> MessageTypes {
        let fields = [
            ("text", Type::String),
            ("raw", Type::Bytes),
            ("number", Type::Uint64),
        ];
        let fields = (1..)
            .zip(fields)
            .map(|(number, (name, kind))| FieldDescriptorProto {
                name: Some(name.into()),
                number: Some(number),
                label: Some(Label::Optional.into()),
                r#type: Some(kind.into()),
                ..FieldDescriptorProto::default()
            });
        let file = FileDescriptorProto {
            name: Some("x.proto".into()),
            package: Some("x".into()),
            syntax: Some("proto3".into()),
            message_type: vec![DescriptorProto {
                name: Some("Do".into()),
                field: fields.collect(),
                ..DescriptorProto::default()
            }],
            ..FileDescriptorProto::default()
        };
        let mut types = MessageTypes::known();
        let set = FileDescriptorSet { file: vec![file] };
        types.add(&set.encode_to_vec()).unwrap();
        types
    }

    fn value(json: &str, index: u64) -> Vec<u8> {
        let filling = Filling {
            from: "cosmos1from",
            to: "cosmos1to",
            index,
        };
        let template = Template::parse(json, &types()).unwrap();
        let mut any = Vec::new();
        template.message(&filling).unwrap().write(&mut any);
        match Fields::of(&any, "any").map(Result::unwrap).last() {
            Some((2, Wire::Bytes(value))) => value.to_vec(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn a_transfer_by_the_names_of_its_fields_is_the_transfer() {
        let (keys, prefix) = (Keys::from_seed(1), Prefix::new("cosmos").unwrap());
        let [from, to] = [0, 1].map(|number| keys.key(number).unwrap().address());
        let sent = Message::send(&prefix, from, to, &Coin::new(17, "stake"));
        let filling = Filling {
            from: &prefix.write(from),
            to: &prefix.write(to),
            index: 9,
        };
        for names in [["from_address", "to_address"], ["fromAddress", "toAddress"]] {
            let [from, to] = names;
            let json = format!(
                r#"{{"@type": "/cosmos.bank.v1beta1.MsgSend", "amount": [{{"amount": "17", "denom": "stake"}}],
                     "{to}": "{{to}}", "{from}": "{{from}}"}}"#
            );
            let template = Template::parse(&json, &MessageTypes::known()).unwrap();
            assert_eq!(template.message(&filling).unwrap(), sent);
            assert_eq!(template.growth(), 0);
        }
    }

    #[test]
    fn placeholders_are_filled_in_texts_numbers_and_bytes_and_nothing_is_written_of_nothing() {
        let cases: [(&str, &[u8]); 6] = [
            (r#""text": "{from} {index}""#, b"\x0a\x0dcosmos1from 7"),
            (r#""number": "{index}""#, &[0x18, 7]),
            (
                r#""raw": {"@text": "{\"a\":{\"b\":{index}}}"}"#,
                b"\x12\x0d{\"a\":{\"b\":7}}",
            ),
            (r#""raw": {"@hex": "00ff"}"#, &[0x12, 2, 0, 255]),
            (r#""raw": "AP8=""#, &[0x12, 2, 0, 255]),
            (r#""number": 0, "text": "", "raw": {"@hex": ""}"#, b""),
        ];
        for (fields, expected) in cases {
            let json = format!(r#"{{"@type": "/x.Do", {fields}}}"#);
            assert_eq!(value(&json, 7), expected, "{fields}");
            let template = Template::parse(&json, &types()).unwrap();
            let grown = value(&json, u64::MAX).len() - value(&json, 0).len();
            assert!(grown <= template.growth(), "{fields}");
        }
    }

    #[test]
    fn messages_in_messages_and_instants_are_known() {
        let json = r#"{"@type": "/cosmos.authz.v1beta1.MsgGrant", "granter": "{from}", "grantee": "{to}", "grant": {
            "authorization": {"@type": "/cosmos.authz.v1beta1.GenericAuthorization", "msg": "/x"},
            "expiration": "2026-01-31T12:00:00.5Z"}}"#;
        let inner = b"\x0a*/cosmos.authz.v1beta1.GenericAuthorization\x12\x04\x0a\x02/x";
        // 1769860800, and half a second in nanoseconds.
        let time = b"\x08\xc0\xdd\xf7\xcb\x06\x10\x80\xca\xb5\xee\x01";
        let grant = [
            &[0x0a, inner.len() as u8][..],
            inner,
            &[0x12, time.len() as u8],
            time,
        ]
        .concat();
        let expected = [
            b"\x0a\x0bcosmos1from\x12\x09cosmos1to\x1a",
            &[grant.len() as u8][..],
            &grant,
        ];
        assert_eq!(value(json, 0), expected.concat());
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        for (json, problem) in [
            ("[]", "is no object"),
            ("{", "is no object: EOF"),
            (r#"{"text": 1}"#, "has no \"@type\""),
            (r#"{"@type": "x"}"#, "begin with a slash"),
            (
                r#"{"@type": "/y.Do", "a": 1}"#,
                "give their descriptors with --proto-descriptors",
            ),
            (
                r#"{"@type": "/cosmos.bank.v1beta1.MsgSent", "from_address": "a"}"#,
                "known are /cosmos.bank.v1beta1.MsgSend",
            ),
            (
                r#"{"@type": "/x.Do", "txt": "a"}"#,
                "'txt' (the fields of x.Do are text, raw, number)",
            ),
            (r#"{"@type": "/x.Do", "number": 1.5}"#, "does not fit"),
            (r#"{"@type": "/x.Do", "number": "{from}"}"#, "does not fit"),
            (r#"{"@type": "/x.Do", "text": ["a"]}"#, "does not fit"),
            (r#"{"@type": "/x.Do", "raw": "?"}"#, "does not fit"),
            (
                r#"{"@type": "/x.Do", "raw": {"@hex": "0"}}"#,
                "no hexadecimal",
            ),
            (
                r#"{"@type": "/x.Do", "text": "{me}"}"#,
                "the placeholder {me}; there are",
            ),
        ] {
            let error = Template::parse(json, &types()).unwrap_err().to_string();
            assert!(error.contains(problem), "{json}: {error}");
        }
        let error = MessageTypes::known().add(b"syntax = \"proto3\";");
        let error = error.unwrap_err().to_string();
        assert!(error.contains("no FileDescriptorSet"), "{error}");
    }

    proptest! {
        #[test]
        fn no_description_makes_the_reader_panic(text in ".{0,80}", index in any::<u64>()) {
            let json = format!(r#"{{"@type": "/x.Do", "text": {}}}"#, Value::from(text));
            if let Ok(template) = Template::parse(&json, &types()) {
                let filling = Filling { from: "a", to: "b", index };
                prop_assert!(template.message(&filling).is_ok());
            }
        }
    }
}
