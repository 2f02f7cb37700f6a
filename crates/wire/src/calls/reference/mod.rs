//! The classification against a slow second opinion: `serde_json` for the grammar, and the rules of
//! Go's decoder spelled out one by one. (A million such texts were also given to Go's own decoder
//! with CometBFT's `RPCRequest`; the answers were the same, except where an `id` of an array or
//! object has a number in it that no float can hold and another `id` follows: Go refuses, we let
//! the node do it.)

mod cases;
mod requests;

use std::fmt;

use proptest::prelude::*;
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use self::requests::{body, request, subscription};
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
        json::quote(&mut out, &text);
        String::from_utf8(out).unwrap()
    } else if let Ok(number) = id.parse::<f64>() {
        // Beyond what fits an int64 the result is the machine's (amd64: the least).
        if number.abs() < -(i64::MIN as f64) {
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

/// What Go makes of a call about subscriptions: the method that is carried out and the query, or an error.
fn go_subscription(text: &str) -> Option<Result<(String, Option<String>), ()>> {
    let Members(members) = serde_json::from_str(text).unwrap();
    let (mut method, mut params) = (String::new(), None);
    for (key, value) in members {
        let key = key.replace('\u{17f}', "s").to_ascii_lowercase();
        match (key.as_str(), value.get()) {
            ("method", "null") => {}
            ("method", value) => method = serde_json::from_str(value).unwrap(),
            ("params", value) => params = Some(value.to_owned()),
            _ => {}
        }
    }
    let named = params.as_deref().map(|params| match params {
        "null" => Ok(Members(Vec::new())),
        params => serde_json::from_str::<Members>(params),
    });
    let listed = params
        .as_deref()
        .map(serde_json::from_str::<Vec<&RawValue>>);
    let query = match (method.as_str(), named, listed) {
        ("subscribe" | "unsubscribe", Some(Ok(Members(members))), _) => {
            let known = members.into_iter().rfind(|(name, _)| name == "query");
            known.map_or("null".to_owned(), |(_, value)| value.get().to_owned())
        }
        ("subscribe" | "unsubscribe", _, Some(Ok(list))) if list.len() == 1 => {
            list[0].get().to_owned()
        }
        ("subscribe" | "unsubscribe", ..) => return Some(Err(())),
        ("unsubscribe_all", None | Some(Ok(_)), _) => return Some(Ok((method, None))),
        ("unsubscribe_all", _, Some(Ok(list))) if list.is_empty() => {
            return Some(Ok((method, None)));
        }
        ("unsubscribe_all", ..) => return Some(Err(())),
        _ => return None,
    };
    let query = serde_json::from_str::<Option<String>>(&query).map_err(|_| ());
    Some(query.map(|query| (method, Some(query.unwrap_or_default()))))
}

/// The transaction of a broadcast; none on an error.
fn go_transaction(text: &str) -> Option<Vec<u8>> {
    let Members(members) = serde_json::from_str(text).unwrap();
    let fold = |key: &str| key.replace('\u{17f}', "s").to_ascii_lowercase();
    let is_params = |(key, _): &(String, _)| fold(key) == "params";
    let (_, params) = members.into_iter().rfind(is_params)?;
    let tx = match serde_json::from_str::<Option<Members>>(params.get()) {
        Ok(named) => {
            let mut named = named.map_or(Vec::new(), |Members(named)| named).into_iter();
            named.rfind(|(name, _)| name == "tx").map(|(_, tx)| tx)
        }
        Err(_) => {
            let [tx] = serde_json::from_str(params.get()).ok()?;
            Some(tx)
        }
    };
    let numbers = tx
        .as_ref()
        .map(|tx| serde_json::from_str::<Vec<u8>>(tx.get()));
    if let Some(Ok(numbers)) = numbers {
        return Some(numbers);
    }
    let text: Option<String> = tx
        .map_or(Ok(None), |tx| serde_json::from_str(tx.get()))
        .ok()?;
    let text = text.unwrap_or_default().replace(['\r', '\n'], "");
    base64_simd::STANDARD.decode_to_vec(text).ok()
}

fn check_subscription(text: &str) {
    let request = Request::decode(text.as_bytes()).unwrap();
    let read = SubscriptionCall::of(&request).map(|call| {
        call.map_err(|_| ()).map(|call| match call {
            SubscriptionCall::Subscribe(query) => ("subscribe".to_owned(), Some(query)),
            SubscriptionCall::Unsubscribe(query) => ("unsubscribe".to_owned(), Some(query)),
            SubscriptionCall::UnsubscribeAll => ("unsubscribe_all".to_owned(), None),
        })
    });
    assert_eq!(read, go_subscription(text), "{text}");
}

fn agrees(call: &Call<'_>, go: &Go) -> bool {
    match (call, go) {
        (Call::Notification, Go::Notification) => true,
        (
            Call::Write { id, method, .. },
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
        ) => (id.as_str(), method.as_ref()) == (go_id.as_str(), go_method.as_str()),
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
        (Err(OverLimit::Batch(_)), Some(go)) => assert!(go.len() > LIMITS.batch, "{shown}"),
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

    /// At 2b52556 `paramſ`, or `PARAMS` behind `params`, subscribed at the node past the hub.
    #[test]
    fn json_96_a_query_is_the_one_that_the_node_reads(text in subscription()) {
        check_subscription(&text);
    }

    /// A write has the transaction that the node takes, however it is spelled, and what it executes is no read.
    #[test]
    fn a_write_has_its_transaction(body in request()) {
        let expected = go_transaction(&body);
        match classify(body.as_bytes(), &LIMITS) {
            Ok(Classified::One(Call::Write { tx, .. })) => {
                prop_assert_eq!(Some(tx.to_vec()), expected, "{}", body);
            }
            // Nothing that the node executes is a read.
            Ok(Classified::One(Call::Read { method, .. })) => {
                let is_broadcast = BroadcastMethod::of(method.as_bytes()).is_some();
                prop_assert!(!is_broadcast || expected.is_none(), "{}", body);
            }
            _ => {}
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = classify(&bytes, &LIMITS);
        let _ = classify_message(&bytes, &LIMITS);
        let _ = classify_uri(&bytes);
    }
}
