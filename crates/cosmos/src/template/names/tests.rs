use std::collections::BTreeMap;

use prost::Message as _;
use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto,
    FileDescriptorProto, FileDescriptorSet, MessageOptions, OneofDescriptorProto,
};

use super::*;
use crate::proto::{Fields, Value as Wire};
use crate::template::Filling;
use crate::{Coin, Keys, Message, Prefix};

/// What another implementation writes.
#[derive(Clone, PartialEq, prost::Message)]
struct Everything {
    #[prost(int32, tag = "1")]
    i: i32,
    #[prost(uint64, tag = "2")]
    u: u64,
    #[prost(sint32, tag = "3")]
    s: i32,
    #[prost(fixed32, tag = "4")]
    f: u32,
    #[prost(sfixed64, tag = "5")]
    g: i64,
    #[prost(double, tag = "6")]
    d: f64,
    #[prost(float, tag = "7")]
    e: f32,
    #[prost(bool, tag = "8")]
    b: bool,
    #[prost(string, tag = "9")]
    text: String,
    #[prost(bytes = "vec", tag = "10")]
    raw: Vec<u8>,
    #[prost(int32, tag = "11")]
    colour: i32,
    #[prost(message, optional, boxed, tag = "12")]
    inner: Option<Box<Self>>,
    #[prost(uint64, repeated, tag = "13")]
    many: Vec<u64>,
    #[prost(string, repeated, tag = "14")]
    words: Vec<String>,
    #[prost(btree_map = "string, uint64", tag = "15")]
    map: BTreeMap<String, u64>,
    #[prost(uint64, optional, tag = "16")]
    maybe: Option<u64>,
}

fn field(name: &str, number: i32, kind: Type, type_name: Option<&str>) -> FieldDescriptorProto {
    let many = ["many", "words", "map"].contains(&name);
    let label = if many {
        Label::Repeated
    } else {
        Label::Optional
    };
    FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        label: Some(label.into()),
        r#type: Some(kind.into()),
        type_name: type_name.map(str::to_owned),
        proto3_optional: (name == "maybe").then_some(true),
        oneof_index: (name == "maybe").then_some(0),
        ..FieldDescriptorProto::default()
    }
}

/// `x.Everything` as protoc describes it.
fn types() -> MessageTypes {
    let fields = [
        ("i", Type::Int32, None),
        ("u", Type::Uint64, None),
        ("s", Type::Sint32, None),
        ("f", Type::Fixed32, None),
        ("g", Type::Sfixed64, None),
        ("d", Type::Double, None),
        ("e", Type::Float, None),
        ("b", Type::Bool, None),
        ("text", Type::String, None),
        ("raw", Type::Bytes, None),
        ("colour", Type::Enum, Some(".x.Colour")),
        ("inner", Type::Message, Some(".x.Everything")),
        ("many", Type::Uint64, None),
        ("words", Type::String, None),
        ("map", Type::Message, Some(".x.Everything.MapEntry")),
        ("maybe", Type::Uint64, None),
    ];
    let fields = (1..).zip(fields);
    let entry = DescriptorProto {
        name: Some("MapEntry".into()),
        field: vec![
            field("key", 1, Type::String, None),
            field("value", 2, Type::Uint64, None),
        ],
        options: Some(MessageOptions {
            map_entry: Some(true),
            ..MessageOptions::default()
        }),
        ..DescriptorProto::default()
    };
    let everything = DescriptorProto {
        name: Some("Everything".into()),
        field: fields
            .map(|(number, (name, kind, of))| field(name, number, kind, of))
            .collect(),
        nested_type: vec![entry],
        oneof_decl: vec![OneofDescriptorProto {
            name: Some("_maybe".into()),
            ..OneofDescriptorProto::default()
        }],
        ..DescriptorProto::default()
    };
    let colours = (0..).zip(["BLACK", "RED"]);
    let colours = colours.map(|(number, name)| EnumValueDescriptorProto {
        name: Some(name.into()),
        number: Some(number),
        ..EnumValueDescriptorProto::default()
    });
    let file = FileDescriptorProto {
        name: Some("x.proto".into()),
        package: Some("x".into()),
        syntax: Some("proto3".into()),
        message_type: vec![everything],
        enum_type: vec![EnumDescriptorProto {
            name: Some("Colour".into()),
            value: colours.collect(),
            ..EnumDescriptorProto::default()
        }],
        ..FileDescriptorProto::default()
    };
    let set = FileDescriptorSet { file: vec![file] };
    let mut types = MessageTypes::known();
    types.add(&set.encode_to_vec()).unwrap();
    types
}

fn filled(json: &str, index: u64) -> Message {
    let filling = Filling {
        from: "cosmos1from",
        to: "cosmos1to",
        index,
    };
    let template = Template::parse(json, &types()).unwrap();
    template.message(&filling).unwrap()
}

fn value(json: &str, index: u64) -> Vec<u8> {
    let mut any = Vec::new();
    filled(json, index).write(&mut any);
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
    }
}

#[test]
fn every_kind_of_field_is_written_as_prost_writes_it() {
    let json = r#"{"@type": "/x.Everything", "i": -5, "u": "18446744073709551615", "s": -3, "f": 7, "g": "-9",
        "d": 1.5, "e": "-0.25", "b": true, "text": "to {to}", "raw": "AP8=", "colour": "RED",
        "inner": {"u": "{index}", "colour": 1, "raw": {"text": "{{{index}}"}, "inner": {}},
        "many": [1, "300", 0], "words": ["", "{from}"], "map": {"a": "{index}"}, "maybe": 0}"#;
    let expected = Everything {
        i: -5,
        u: u64::MAX,
        s: -3,
        f: 7,
        g: -9,
        d: 1.5,
        e: -0.25,
        b: true,
        text: "to cosmos1to".into(),
        raw: vec![0, 255],
        colour: 1,
        inner: Some(Box::new(Everything {
            u: 77,
            colour: 1,
            raw: b"{77}".to_vec(),
            inner: Some(Box::default()),
            ..Everything::default()
        })),
        many: vec![1, 300, 0],
        words: vec![String::new(), "cosmos1from".into()],
        map: [("a".to_owned(), 77)].into(),
        maybe: Some(0),
    };
    assert_eq!(value(json, 77), expected.encode_to_vec());
    let empty = r#"{"@type": "/x.Everything", "i": 0, "text": "", "words": [], "maybe": null, "d": 0, "colour": "BLACK"}"#;
    assert_eq!(value(empty, 0), b"");
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
fn what_does_not_fit_its_field_is_refused_with_the_place_and_near_names() {
    let everything = |fields: &str| format!(r#"{{"@type": "/x.Everything", {fields}}}"#);
    for (json, problem) in [
        (
            r#"{"@type": "/cosmos.bank.v1beta1.MsgSend", "from_adress": "a"}"#.to_owned(),
            "the message has a field \"from_adress\", which cosmos.bank.v1beta1.MsgSend has not; it has from_address",
        ),
        (
            r#"{"@type": "/cosmos.bank.v1beta1.MsgSent", "from_address": "a"}"#.to_owned(),
            "known are /cosmos.bank.v1beta1.MsgSend",
        ),
        (
            everything(r#""inner": {"inner": {"i": 1.5}}"#),
            "the message.inner.inner.i is 1.5",
        ),
        (
            everything(r#""i": 3000000000"#),
            "is 3000000000, which is no number of its type (i32)",
        ),
        (
            everything(r#""many": 5"#),
            "the message.many is repeated: write a list",
        ),
        (
            everything(r#""words": ["a", 5]"#),
            "the message.words[1] is a string",
        ),
        (
            everything(r#""map": {"a": "b"}"#),
            "the message.map[\"a\"] is b",
        ),
        (
            everything(r#""colour": "BLUE""#),
            "is \"BLUE\", and not one of BLACK, RED",
        ),
        (everything(r#""raw": "?""#), "write base64"),
        (
            everything(r#""text": "{me}""#),
            "the message.text has the placeholder {me}",
        ),
        (
            everything(r#""u": "{from}""#),
            "is \"\", which is no number",
        ),
        (
            everything(r#""b": "yes""#),
            "the message.b is true or false",
        ),
        (
            everything(r#""inner": "a""#),
            "is a x.Everything: write an object",
        ),
    ] {
        let error = Template::parse(&json, &types()).unwrap_err().to_string();
        assert!(error.contains(problem), "{json}: {error}");
    }
    let error = MessageTypes::known()
        .add(b"syntax = \"proto3\";")
        .unwrap_err();
    assert!(
        error.to_string().contains("no FileDescriptorSet"),
        "{error}"
    );
}
