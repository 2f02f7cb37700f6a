//! The classification against a slow second opinion: `serde_json` for the grammar, and the rules of
//! Go's decoder spelled out one by one. (A million such texts were also given to Go's own decoder
//! with CometBFT's `RPCRequest`; the answers were the same, except where an `id` of an array or
//! object has a number in it that no float can hold and another `id` follows: Go refuses, we let
//! the node do it.)

use std::fmt;

use proptest::prelude::*;
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::*;

const LIMITS: JsonLimits = JsonLimits {
    depth: 64,
    batch: 10,
};

/// What Go makes of one request.
#[derive(Clone, Debug, PartialEq)]
enum Go {
    /// Nothing of the body is executed.
    Error,
    Notification,
    /// This method is called, with this id echoed.
    Calls {
        id: String,
        method: String,
    },
}

/// The members of an object in order, repeated ones too.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

fn go_request(text: &str) -> Go {
    if text.trim() == "null" {
        return Go::Notification;
    }
    let Ok(Members(members)) = serde_json::from_str(text) else {
        return Go::Error;
    };
    let (mut id, mut method) = (None, String::new());
    for (key, value) in members {
        let folded = key
            .replace('\u{17f}', "s")
            .replace('\u{212a}', "k")
            .to_ascii_lowercase();
        let value = value.get();
        match folded.as_str() {
            "jsonrpc" | "method" if value == "null" => {}
            "jsonrpc" | "method" => {
                let Ok(text) = serde_json::from_str::<String>(value) else {
                    return Go::Error;
                };
                if folded == "method" {
                    method = text;
                }
            }
            "id" => {
                let is_number = value.starts_with(|first: char| "-0123456789".contains(first));
                if is_number && value.parse::<f64>().unwrap().is_infinite() {
                    return Go::Error;
                }
                id = (value != "null").then(|| value.to_owned());
            }
            _ => {}
        }
    }
    let Some(id) = id else {
        return Go::Notification;
    };
    let id = if let Ok(text) = serde_json::from_str::<String>(&id) {
        let mut out = Vec::new();
        quote(&mut out, &text);
        String::from_utf8(out).unwrap()
    } else if let Ok(number) = id.parse::<f64>() {
        if number.abs() < 9e18 {
            (number.trunc() as i64).to_string()
        } else {
            i64::MIN.to_string()
        }
    } else {
        return Go::Error;
    };
    Go::Calls { id, method }
}

/// What Go makes of a POST body: its requests, none on an error.
fn go_post(body: &[u8]) -> Option<Vec<Go>> {
    let text = std::str::from_utf8(body).ok()?;
    let requests = match serde_json::from_str::<Vec<&RawValue>>(text) {
        Ok(elements) => elements
            .iter()
            .map(|element| go_request(element.get()))
            .collect(),
        Err(_) => vec![go_request(text)],
    };
    (!requests.contains(&Go::Error)).then_some(requests)
}

/// What Go makes of a WebSocket message: its first value counts.
fn go_message(message: &[u8]) -> Option<Go> {
    let text = std::str::from_utf8(message).ok()?;
    // serde_json wants a delimiter behind a null, Go does not.
    if text
        .trim_start_matches([' ', '\t', '\r', '\n'])
        .starts_with("null")
    {
        return Some(Go::Notification);
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let request = go_request(values.next()?.ok()?.get());
    (request != Go::Error).then_some(request)
}

fn agrees(call: &Call<'_>, go: &Go) -> bool {
    match (call, go) {
        (Call::Notification, Go::Notification) => true,
        (
            Call::Write { id, method, .. } | Call::UnusualWrite { id, method },
            Go::Calls {
                id: go_id,
                method: go_method,
            },
        ) => (id.as_str(), method.name()) == (go_id.as_str(), go_method.as_str()),
        (
            Call::Read { id, method },
            Go::Calls {
                id: go_id,
                method: go_method,
            },
        ) => {
            broadcast_method(go_method.as_bytes()).is_none()
                && (id.as_str(), method.as_ref()) == (go_id.as_str(), go_method.as_str())
        }
        _ => false,
    }
}

fn check_post(body: &[u8]) {
    let shown = body.escape_ascii();
    let go = go_post(body);
    match (classify(body, &LIMITS), go) {
        (Ok(Classified::Unparsable), None) => {}
        (Ok(Classified::One(call)), Some(go)) => {
            assert!(
                go.len() == 1 && agrees(&call, &go[0]),
                "{shown}: {call:?}, {go:?}"
            );
        }
        (Ok(Classified::Batch(elements)), Some(go)) => {
            assert_eq!(elements.len(), go.len(), "{shown}");
            for (element, go) in elements.iter().zip(&go) {
                assert!(agrees(&element.call, go), "{shown}: {element:?}, {go:?}");
            }
        }
        (Err(refusal), Some(go)) => {
            assert!(
                refusal.reason == Reason::Batch && go.len() > LIMITS.batch,
                "{shown}"
            );
        }
        (ours, go) => panic!("{shown}: {ours:?}, {go:?}"),
    }
}

fn check_message(message: &[u8]) {
    let shown = message.escape_ascii();
    match (classify_message(message, &LIMITS), go_message(message)) {
        (Ok(Classified::Unparsable), None) => {}
        (Ok(Classified::One(call)), Some(go)) => {
            assert!(agrees(&call, &go), "{shown}: {call:?}, {go:?}");
        }
        (ours, go) => panic!("{shown}: {ours:?}, {go:?}"),
    }
}

fn one_of(texts: &'static [&'static str]) -> impl Strategy<Value = String> + Clone {
    prop::sample::select(texts).prop_map(str::to_owned)
}

fn key() -> impl Strategy<Value = String> + Clone {
    one_of(&[
        "jsonrpc",
        "id",
        "method",
        "params",
        "id",
        "method",
        "params",
        "ID",
        "iD",
        "Method",
        "METHOD",
        "\\u0069d",
        "m\\u0065thod",
        "\\u004dethod",
        "PARAMS",
        "param\u{17f}",
        "j\u{17f}onrpc",
        "j\\u017fonrpc",
        "\u{131}d",
        "method ",
        "x",
        "",
    ])
}

fn value() -> impl Strategy<Value = String> + Clone {
    let scalar = one_of(&[
        "null",
        "true",
        "1",
        "-7",
        "0",
        "-0",
        "1.9",
        "1e3",
        "1e400",
        "9223372036854775808",
        "123456789012345",
        "1234567890123456",
        "\"2.0\"",
        "\"\"",
        "\"a\"",
        "\"<b>\\u00e9\\n\"",
        "\"broadcast_tx_sync\"",
        "\"broadcast_tx_sync\"",
        "\"broadcast_tx_async\"",
        "\"broadcast_tx_commit\"",
        "\"broadcast\\u005ftx_sync\"",
        "\"Broadcast_tx_sync\"",
        "\" broadcast_tx_sync\"",
        "\"broadcast_tx_sync\\u0000\"",
        "\"status\"",
        "\"YT0x\"",
        "{\"tx\":\"YT0x\"}",
        "[\"YT0x\"]",
        "{}",
        "[]",
    ]);
    prop_oneof![
        4 => scalar.clone(),
        1 => prop::collection::vec(scalar.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(","))),
        1 => prop::collection::vec((key(), scalar), 0..3).prop_map(|members| object(&members)),
    ]
}

fn object(members: &[(String, String)]) -> String {
    let members: Vec<String> = members
        .iter()
        .map(|(key, value)| format!("\"{key}\" :{value}"))
        .collect();
    format!("{{{}}}", members.join(", "))
}

/// A request in which much is as usual.
fn request() -> impl Strategy<Value = String> + Clone {
    let usual = (
        one_of(&["1", "\"a\"", "-5", "\"\"", "0"]),
        one_of(&["broadcast_tx_sync", "broadcast_tx_commit", "status"]),
        one_of(&["{\"tx\":\"YT0x\"}", "[\"YT0x\"]", "{\"tx\":\"\"}"]),
    );
    let usual = usual.prop_map(|(id, method, params)| {
        vec![
            ("jsonrpc".to_owned(), "\"2.0\"".to_owned()),
            ("id".to_owned(), id),
            ("method".to_owned(), format!("\"{method}\"")),
            ("params".to_owned(), params),
        ]
    });
    let extra = prop::collection::vec((key(), value()), 0..3);
    (usual, extra, any::<bool>(), any::<prop::sample::Index>()).prop_map(
        |(usual, extra, keep, at)| {
            let mut members = usual;
            if !keep {
                members.remove(at.index(members.len()));
            }
            let at = at.index(members.len() + 1);
            members.splice(at..at, extra);
            object(&members)
        },
    )
}

fn body() -> impl Strategy<Value = String> {
    let odd = one_of(&["null", "5", "[]", "true", "\"x\"", "{}"]);
    let element = prop_oneof![8 => request(), 1 => odd];
    let whole = prop_oneof![
        3 => element.clone(),
        1 => prop::collection::vec(element, 0..13).prop_map(|items| format!("[{}]", items.join(" ,"))),
    ];
    let around = one_of(&["", "", "", " ", "\n\t", "\r"]);
    let tail = prop_oneof![9 => Just(String::new()), 1 => one_of(&["x", "{}", ",", "}", "]"])];
    (around, whole, tail).prop_map(|(around, whole, tail)| format!("{around}{whole}{around}{tail}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn case_41_a_broadcast_is_a_write_however_it_is_spelled(body in body()) {
        check_post(body.as_bytes());
        check_message(body.as_bytes());
    }

    #[test]
    fn damage_is_judged_alike(body in body(), at: prop::sample::Index, byte in 0x20_u8..0x7f) {
        let mut body = body.into_bytes();
        let at = at.index(body.len().max(1));
        if let Some(damaged) = body.get_mut(at).filter(|old| old.is_ascii()) {
            *damaged = byte;
        }
        // Half a surrogate pair is text to Go and none to serde.
        let has_surrogate = String::from_utf8_lossy(&body).to_lowercase().contains("\\ud");
        prop_assume!(!has_surrogate);
        check_post(&body);
        check_message(&body);
    }

    /// A plain write has the transaction that a thorough reader finds.
    #[test]
    fn a_plain_write_has_its_transaction(body in request()) {
        if let Ok(Classified::One(Call::Write { tx, .. })) = classify(body.as_bytes(), &LIMITS) {
            let value: serde_json::Value = serde_json::from_str(&body).unwrap();
            let params = &value["params"];
            let text = params.get("tx").or_else(|| params.get(0)).unwrap().as_str().unwrap();
            prop_assert_eq!(base64_simd::STANDARD.decode_to_vec(text).unwrap(), tx.as_ref());
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = classify(&bytes, &LIMITS);
        let _ = classify_message(&bytes, &LIMITS);
        let _ = classify_uri(&bytes);
    }
}

fn call(body: &str) -> Classified<'_> {
    classify(body.as_bytes(), &LIMITS).unwrap()
}

fn id_of(id: &str) -> Option<String> {
    let body = format!(r#"{{"id":{id},"method":"broadcast_tx_sync","params":{{"tx":"YT0x"}}}}"#);
    match call(&body) {
        Classified::One(Call::Write { id, .. } | Call::UnusualWrite { id, .. }) => {
            Some(id.as_str().to_owned())
        }
        Classified::One(Call::Notification) => Some("none".to_owned()),
        Classified::Unparsable => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn case_37_ids_are_echoed_as_the_node_does() {
    for (id, echoed) in [
        ("7", "7"),
        ("-0", "0"),
        ("1.9", "1"),
        ("-1.9", "-1"),
        ("1e3", "1000"),
        ("9223372036854775808", "-9223372036854775808"),
        ("9007199254740993", "9007199254740992"),
        ("\"\"", "\"\""),
        ("\"\\u0061\"", "\"a\""),
        ("\"<\"", "\"\\u003c\""),
        ("null", "none"),
    ] {
        assert_eq!(id_of(id).as_deref(), Some(echoed), "{id}");
    }
    for id in ["1e400", "-1e400", "{}", "[1]", "true"] {
        assert_eq!(id_of(id), None, "{id}");
    }
    let missing = r#"{"method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#;
    assert_eq!(call(missing), Classified::One(Call::Notification));
}

#[test]
fn case_38_what_is_no_json_is_for_the_node_to_refuse() {
    let good = r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#;
    for bad in [
        format!("\u{feff}{good}"),
        format!("{good}x"),
        good.replace(":1", ":NaN"),
        good.replace(":1", ":01"),
        good.replace("YT0x", "YT0x\n"),
        good.replace("\"id\"", "'id'"),
        good.replace("}}", "},}"),
        String::new(),
        " ".to_owned(),
    ] {
        assert_eq!(call(&bad), Classified::Unparsable, "{bad}");
    }
    // Of these Go makes a request.
    for odd in [
        good.replace("sync", "s\\u0079nc"),
        good.replace(":1", ":2,\"ID\":1"),
        good.replace("YT0x", "\\ud800"),
        good.replace("YT0x", "!!"),
    ] {
        assert!(
            matches!(call(&odd), Classified::One(Call::UnusualWrite { .. })),
            "{odd}"
        );
    }
    let not_utf8 = [&good.as_bytes()[..good.len() - 1], b",\"x\":\"\xff\"}"].concat();
    assert!(matches!(
        classify(&not_utf8, &LIMITS),
        Ok(Classified::One(Call::UnusualWrite { .. }))
    ));
}

#[test]
fn case_38_depth_is_bounded() {
    let nested = |depth: usize| {
        format!(
            r#"{{"id":1,"method":"health","params":{}{}}}"#,
            "[".repeat(depth),
            "]".repeat(depth)
        )
    };
    assert!(matches!(
        call(&nested(63)),
        Classified::One(Call::Read { .. })
    ));
    for depth in [64, 100_000] {
        let refusal = classify(nested(depth).as_bytes(), &LIMITS).unwrap_err();
        assert_eq!(refusal.reason, Reason::Parse);
        assert!(refusal.detail.contains("64 levels"));
    }
    let open = "[".repeat(100_000);
    assert_eq!(
        classify(open.as_bytes(), &LIMITS).unwrap_err().reason,
        Reason::Parse
    );
    assert_eq!(
        classify_message(open.as_bytes(), &LIMITS)
            .unwrap_err()
            .reason,
        Reason::Parse
    );
}

#[test]
fn case_39_batches_are_counted_and_judged_by_element() {
    let batch = |count: usize| {
        let element = r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#;
        format!("[{}]", vec![element; count].join(","))
    };
    for count in [0, 1, 10] {
        match call(&batch(count)) {
            Classified::Batch(elements) => {
                assert_eq!(elements.len(), count);
                assert!(
                    elements
                        .iter()
                        .all(|element| matches!(element.call, Call::Write { .. }))
                );
            }
            other => panic!("{other:?}"),
        }
    }
    for count in [11, 10_000] {
        let refusal = classify(batch(count).as_bytes(), &LIMITS).unwrap_err();
        assert_eq!(refusal.reason, Reason::Batch);
        assert_eq!(
            refusal.detail,
            "batch request exceeds maximum (10) allowed number of requests"
        );
    }
    let unbounded = JsonLimits { batch: 0, ..LIMITS };
    assert!(classify(batch(11).as_bytes(), &unbounded).is_ok());
    let mixed = r#" [ {"id":1,"method":"status"} , {"method":"broadcast_tx_sync"}, null ] "#;
    match call(mixed) {
        Classified::Batch(elements) => {
            assert_eq!(elements[0].raw, br#"{"id":1,"method":"status"}"#);
            assert!(matches!(elements[0].call, Call::Read { .. }));
            assert_eq!(elements[1].call, Call::Notification);
            assert_eq!(elements[2].call, Call::Notification);
        }
        other => panic!("{other:?}"),
    }
    for wrong in [
        "[[]]",
        "[5]",
        r#"[{"id":1,"method":"status"},{"id":[]}]"#,
        "[{}",
        "[{},]",
    ] {
        assert_eq!(call(wrong), Classified::Unparsable, "{wrong}");
    }
    // On a WebSocket there are none.
    assert_eq!(
        classify_message(batch(2).as_bytes(), &LIMITS),
        Ok(Classified::Unparsable)
    );
}

#[test]
fn case_41_a_message_is_its_first_value() {
    let text = br#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}} {"id":2}x"#;
    assert_eq!(classify(text, &LIMITS), Ok(Classified::Unparsable));
    assert!(matches!(
        classify_message(text, &LIMITS),
        Ok(Classified::One(Call::Write { .. }))
    ));
}
