//! Fields by their names: protobuf's JSON ("ProtoJSON format" in its documentation), read by descriptors.

use std::str::FromStr;

use prost_reflect::prost_types::{Duration, Timestamp};
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value};

use super::known::MessageTypes;
use super::{Part, TYPE, Template, near, pieces, wrong};
use crate::{Error, proto};

/// The fields of an object of this type, in the order of their numbers.
pub(super) fn fields_of(
    place: &str,
    object: &Map<String, Value>,
    message: &MessageDescriptor,
    types: &MessageTypes,
) -> Result<Vec<(u32, Part)>, Error> {
    let mut fields = Vec::new();
    let mut chosen = Vec::new();
    for (name, value) in object.iter().filter(|(name, _)| *name != TYPE) {
        let by_name = message.get_field_by_name(name);
        let found = by_name.or_else(|| message.get_field_by_json_name(name));
        let field = found.ok_or_else(|| unknown(place, name, message))?;
        // As if it were not there.
        if value.is_null() {
            continue;
        }
        if let Some(one_of) = field.containing_oneof() {
            if chosen.contains(&one_of) {
                let problem = format!("gives more than one field of {:?}", one_of.name());
                return Err(wrong(place, &problem));
            }
            chosen.push(one_of);
        }
        let place = format!("{place}.{}", field.name());
        fields.push((field.number(), part_of(&place, value, &field, types)?));
    }
    fields.sort_by_key(|(number, _)| *number);
    Ok(fields)
}

fn unknown(place: &str, name: &str, message: &MessageDescriptor) -> Error {
    let names: Vec<String> = message
        .fields()
        .map(|field| field.name().to_owned())
        .collect();
    let names = match near(name, names.iter().cloned()) {
        near if near.is_empty() => names,
        near => near,
    };
    let problem = format!(
        "has a field {name:?}, which {} has not; it has {}",
        message.full_name(),
        names.join(", ")
    );
    wrong(place, &problem)
}

/// The value of a field: one, a list or a map.
fn part_of(
    place: &str,
    value: &Value,
    field: &FieldDescriptor,
    types: &MessageTypes,
) -> Result<Part, Error> {
    let kind = field.kind();
    if let (true, Kind::Message(entry)) = (field.is_map(), &kind) {
        let Value::Object(entries) = value else {
            return Err(wrong(place, "is a map: write an object"));
        };
        let (of_key, of_value) = (entry.map_entry_key_field(), entry.map_entry_value_field());
        let entry = |(key, value): (&String, &Value)| {
            let place = format!("{place}[{key:?}]");
            let key = single(&place, &Value::String(key.clone()), &of_key.kind(), types)?;
            let value = single(&place, value, &of_value.kind(), types)?;
            Ok(Part::Message(vec![(1, key), (2, value)]))
        };
        let entries: Result<Vec<Part>, Error> = entries.iter().map(entry).collect();
        return entries.map(Part::Each);
    }
    if !field.is_list() {
        let part = single(place, value, &kind, types)?;
        // What may be absent says that it is there even where it is zero.
        let is_said = field.supports_presence() && !matches!(kind, Kind::Message(_));
        return Ok(match is_said {
            true => Part::Each(vec![part]),
            false => part,
        });
    }
    let Value::Array(values) = value else {
        return Err(wrong(place, "is repeated: write a list"));
    };
    let each = (0..).zip(values).map(|(at, value): (usize, _)| {
        let place = format!("{place}[{at}]");
        single(&place, value, &kind, types)
    });
    let parts = each.collect::<Result<Vec<Part>, Error>>()?;
    match field.is_packed() {
        true => packed(place, &parts),
        false => Ok(Part::Each(parts)),
    }
}

/// Numbers one behind the other, which have one tag for all.
fn packed(place: &str, parts: &[Part]) -> Result<Part, Error> {
    let mut bytes = Vec::new();
    for part in parts {
        match part {
            Part::Number(value) => proto::varint(&mut bytes, *value),
            Part::Fixed32(value) => bytes.extend_from_slice(&value.to_le_bytes()),
            Part::Fixed64(value) => bytes.extend_from_slice(&value.to_le_bytes()),
            _ => return Err(wrong(place, "is a list of numbers: no placeholders")),
        }
    }
    Ok(Part::Bytes(bytes))
}

fn single(place: &str, value: &Value, kind: &Kind, types: &MessageTypes) -> Result<Part, Error> {
    let signed = |value: i64| Part::Number(value.cast_unsigned());
    Ok(match kind {
        Kind::String => match value {
            Value::String(text) => Part::Text(pieces(place, text)?),
            _ => return Err(wrong(place, "is a string: write it in quotation marks")),
        },
        Kind::Bytes => bytes_of(place, value)?,
        Kind::Bool => match value {
            Value::Bool(flag) => Part::Number(u64::from(*flag)),
            Value::String(text) if ["true", "false"].contains(&&**text) => {
                Part::Number(u64::from(text == "true"))
            }
            _ => return Err(wrong(place, "is true or false")),
        },
        Kind::Message(message) => return message_of(place, value, message, types),
        Kind::Enum(names) => match value {
            Value::String(name) => match names.get_value_by_name(name) {
                Some(value) => signed(i64::from(value.number())),
                None => {
                    let names: Vec<String> =
                        names.values().map(|it| it.name().to_owned()).collect();
                    let problem = format!("is {name:?}, and not one of {}", names.join(", "));
                    return Err(wrong(place, &problem));
                }
            },
            _ => signed(i64::from(number::<i32>(place, value)?)),
        },
        // A placeholder's number is known when it is filled.
        Kind::Int32 | Kind::Int64 | Kind::Uint32 | Kind::Uint64
            if value.as_str().is_some_and(|text| text.contains('{')) =>
        {
            Part::NumberOf(pieces(place, value.as_str().unwrap_or_default())?)
        }
        Kind::Int32 => signed(i64::from(number::<i32>(place, value)?)),
        Kind::Int64 => signed(number(place, value)?),
        Kind::Uint32 => Part::Number(u64::from(number::<u32>(place, value)?)),
        Kind::Uint64 => Part::Number(number(place, value)?),
        Kind::Sint32 => zigzag(i64::from(number::<i32>(place, value)?)),
        Kind::Sint64 => zigzag(number(place, value)?),
        Kind::Fixed32 => Part::Fixed32(number(place, value)?),
        Kind::Sfixed32 => Part::Fixed32(number::<i32>(place, value)?.cast_unsigned()),
        Kind::Float => Part::Fixed32(number::<f32>(place, value)?.to_bits()),
        Kind::Fixed64 => Part::Fixed64(number(place, value)?),
        Kind::Sfixed64 => Part::Fixed64(number::<i64>(place, value)?.cast_unsigned()),
        Kind::Double => Part::Fixed64(number::<f64>(place, value)?.to_bits()),
    })
}

/// Small numbers of either sign in few bytes ("Encoding" in protobuf's documentation).
fn zigzag(value: i64) -> Part {
    Part::Number(((value << 1) ^ (value >> 63)).cast_unsigned())
}

/// A number, or one in quotation marks, as those of 64 bits are written.
fn number<T: FromStr>(place: &str, value: &Value) -> Result<T, Error> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => return Err(wrong(place, "is a number")),
    };
    text.parse().map_err(|_| {
        let kind = std::any::type_name::<T>();
        wrong(
            place,
            &format!("is {text}, which is no number of its type ({kind})"),
        )
    })
}

/// `bytes` in base64, as protobuf's JSON has them, in hexadecimal digits, or as text with placeholders.
fn bytes_of(place: &str, value: &Value) -> Result<Part, Error> {
    let object = value.as_object();
    let only = |name: &str| {
        let object = object.filter(|object| object.len() == 1);
        object.and_then(|object| object.get(name)?.as_str())
    };
    let bytes = match (value, only("hex"), only("text")) {
        (Value::String(text), ..) => base64_simd::STANDARD.decode_to_vec(text).ok(),
        (_, Some(hex), _) => hex_simd::decode_to_vec(hex).ok(),
        (_, _, Some(text)) => return Ok(Part::Text(pieces(place, text)?)),
        _ => None,
    };
    let problem = "is of bytes: write base64, {\"hex\": \"00ff\"} or {\"text\": \"…\"}";
    bytes.map(Part::Bytes).ok_or_else(|| wrong(place, problem))
}

fn message_of(
    place: &str,
    value: &Value,
    message: &MessageDescriptor,
    types: &MessageTypes,
) -> Result<Part, Error> {
    let time = |seconds: i64, nanos: i32| {
        let nanos = i64::from(nanos).cast_unsigned();
        let fields = [
            (1, Part::Number(seconds.cast_unsigned())),
            (2, Part::Number(nanos)),
        ];
        Part::Message(fields.into())
    };
    match (message.full_name(), value) {
        ("google.protobuf.Any", Value::Object(object)) => {
            Template::of(place, object, types).map(Part::Any)
        }
        ("google.protobuf.Timestamp", Value::String(text)) => match text.parse::<Timestamp>() {
            Ok(at) => Ok(time(at.seconds, at.nanos)),
            Err(_) => Err(wrong(place, "is an instant, as 2026-01-31T12:00:00Z")),
        },
        ("google.protobuf.Duration", Value::String(text)) => match text.parse::<Duration>() {
            Ok(span) => Ok(time(span.seconds, span.nanos)),
            Err(_) => Err(wrong(place, "is a duration in seconds, as 1.5s")),
        },
        (_, Value::Object(object)) => fields_of(place, object, message, types).map(Part::Message),
        (name, _) => Err(wrong(place, &format!("is a {name}: write an object"))),
    }
}

#[cfg(test)]
mod tests;
