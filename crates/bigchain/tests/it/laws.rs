//! Laws that hold for any input.

use bigchain::condition::{Batch, Ed25519, ThresholdDraft};
use bigchain::json::{Integer, Object, Value, canonical, default_text, parse};
use bigchain::schema::accepts;
use bigchain::{
    Create, Details, Fulfillment, Id, KeyPair, MemoryLedger, Output, SignatureBatch, Transaction,
    Transfer, base64url,
};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::vectors::{list, load, valid};

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        "-?[1-9][0-9]{19,40}".prop_map(|digits| Value::Integer(Integer::Big(digits.into()))),
        any::<f64>().prop_map(Value::Float),
        ".{0,8}".prop_map(Value::from),
        "[a-f0-9]{60,66}".prop_map(Value::from),
        "[1-9A-Za-z]{42,45}".prop_map(Value::from),
        Just(Value::from("CREATE")),
        Just(Value::from("TRANSFER")),
        Just(Value::from("ed25519-sha-256")),
        Just(Value::from("threshold-sha-256")),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec((".{0,4}", inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Whether two values are the same, `NaN` being the same as itself.
fn same(one: &Value, two: &Value) -> bool {
    canonical(one) == canonical(two)
}

/// One thing done to some place of a body.
#[derive(Clone, Debug)]
enum Change {
    Replace(Value),
    Remove,
    Add(String, Value),
    Repeat,
    CutText,
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => any_value().prop_map(Change::Replace),
        2 => Just(Change::Remove),
        2 => ("(id|data|extra|fulfills|type|threshold|[a-z]{1,3})", any_value())
            .prop_map(|(name, value)| Change::Add(name, value)),
        1 => Just(Change::Repeat),
        1 => Just(Change::CutText),
    ]
}

/// Applies a change at the place that `at` chooses among all values of the body.
fn changed(value: &Value, at: &mut usize, change: &Change) -> Option<Value> {
    if *at == 0 {
        *at = usize::MAX;
        return match (change, value) {
            (Change::Replace(other), _) => Some(other.clone()),
            (Change::Remove, _) => None,
            (Change::Add(name, member), Value::Object(object)) => {
                Some(object.clone().with(name.clone(), member.clone()).into())
            }
            (Change::Add(_, item), Value::Array(items)) => Some(Value::Array(
                [&items[..], std::slice::from_ref(item)].concat(),
            )),
            (Change::Repeat, Value::Array(items)) => {
                Some(Value::Array([&items[..], items].concat()))
            }
            (Change::CutText, Value::String(text)) => {
                let end = text.char_indices().next_back().map_or(0, |(at, _)| at);
                Some(text[..end].into())
            }
            _ => Some(value.clone()),
        };
    }
    *at -= 1;
    Some(match value {
        Value::Array(items) => Value::Array(
            items
                .iter()
                .filter_map(|item| changed(item, at, change))
                .collect(),
        ),
        Value::Object(object) => Value::Object(
            object
                .iter()
                .filter_map(|(name, value)| Some((name.to_owned(), changed(value, at, change)?)))
                .collect::<Object>(),
        ),
        other => other.clone(),
    })
}

fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(object) => object.iter().map(|(_, value)| size(value)).sum(),
        _ => 0,
    }
}

fn bodies() -> Vec<Value> {
    let mut bodies: Vec<Value> = valid()
        .iter()
        .map(|vector| vector.get("tx").unwrap().clone())
        .collect();
    let cases = load("cases.json");
    bodies.extend(
        list(&cases, "cases")
            .iter()
            .map(|case| case.get("tx").unwrap().clone()),
    );
    bodies
}

/// The original's first validator keeps integers of up to 64 bits apart from all other numbers.
#[test]
fn integers_beyond_64_bits_and_floats_are_no_index_of_an_output() {
    let spends = |body: &&Value| body.get("operation").and_then(Value::as_str) == Some("TRANSFER");
    let bodies: Vec<Value> = valid()
        .iter()
        .map(|vector| vector.get("tx").unwrap().clone())
        .collect();
    let transfer = bodies.iter().find(spends).unwrap();
    let with = |index: Value, at: usize| changed(transfer, &mut { at }, &Change::Replace(index));
    let is_place =
        |at: &usize| canonical(&with(77.into(), *at).unwrap()).contains("\"output_index\":77,");
    let place = (0..size(transfer)).find(is_place).unwrap();
    let big = |digits: &str| Value::Integer(Integer::Big(digits.into()));
    for (index, is_one) in [
        (Value::from(0), true),
        (big("18446744073709551615"), true),
        (big("18446744073709551616"), false),
        (big("100000000000000000000"), false),
        (big("-9223372036854775809"), false),
        (Value::Float(1.0), false),
        (Value::Float(1e17), false),
        (Value::Float(1e20), false),
        (Value::Float(-1e300), false),
    ] {
        let body = with(index, place).unwrap();
        assert_eq!(accepts(&body), is_one, "{}", canonical(&body));
    }
}

#[test]
fn changed_vectors_with_right_ids_are_judged_without_panic() {
    let bodies = bodies();
    let steps = prop::collection::vec((any::<Index>(), any_change()), 1..4);
    proptest!(ProptestConfig::with_cases(1_000), |(body in any::<Index>(), steps in steps)| {
        let mut body = body.get(&bodies).clone();
        for (place, change) in &steps {
            let mut at = place.index(size(&body));
            body = changed(&body, &mut at, change).unwrap_or(Value::Null);
        }
        // The right id lets the body through to the later checks.
        if let Value::Object(object) = &mut body && object.get("id").is_some() {
            let id = Id::of(object);
            object.insert("id", id.to_string());
        }
        if let Ok(transaction) = Transaction::from_value(body) {
            let _ = transaction.validate(&MemoryLedger::default());
        }
    });
}

#[test]
fn deep_and_long_bodies_are_judged_within_the_stack() {
    let leaf =
        r#"{"type":"ed25519-sha-256","public_key":"AKnL4NNf3DGWZJS6cPknBuEGnVsV4A4m5tgebLHaRSZ9"}"#;
    for levels in [98, 99, 100, 200, 250] {
        let open = r#"{"type":"threshold-sha-256","threshold":1,"subconditions":["#.repeat(levels);
        let details = format!("{open}{leaf}{}", "]}".repeat(levels));
        let mut body = valid()[0].get("tx").unwrap().clone();
        let Value::Object(object) = &mut body else {
            panic!()
        };
        let output = format!(
            r#"[{{"amount":"1","public_keys":null,"condition":{{"details":{details},"uri":"ni:///sha-256;?fpt=threshold-sha-256&cost=1"}}}}]"#
        );
        object.insert("outputs", parse(output.as_bytes()).unwrap());
        assert!(accepts(&body));
    }
}

fn pair(seed: u8) -> KeyPair {
    KeyPair::from_seed([seed; 32])
}

fn any_details() -> impl Strategy<Value = Details> {
    let key = (0..6_u8).prop_map(|seed| Details::Key(pair(seed).public()));
    key.prop_recursive(3, 12, 4, |inner| {
        (prop::collection::vec(inner, 1..4), any::<Index>()).prop_map(
            |(subconditions, threshold)| Details::Threshold {
                threshold: threshold.index(subconditions.len()) as u32 + 1,
                subconditions,
            },
        )
    })
}

fn any_fulfillment() -> impl Strategy<Value = Fulfillment> {
    let signature = prop::collection::vec(any::<u8>(), 64);
    let leaf = (any::<[u8; 32]>(), signature).prop_map(|(public_key, signature)| {
        Fulfillment::Ed25519(Ed25519 {
            public_key,
            signature: signature.try_into().unwrap(),
        })
    });
    leaf.prop_recursive(4, 16, 4, |inner| {
        (prop::collection::vec(inner, 1..4), any::<Index>()).prop_map(|(inner, threshold)| {
            // Those that are spare become conditions, which are read as well.
            let threshold = threshold.index(inner.len()) as u32;
            let draft = inner
                .into_iter()
                .fold(ThresholdDraft::new(), ThresholdDraft::fulfilled);
            Fulfillment::Threshold(draft.seal(threshold).unwrap())
        })
    })
}

proptest! {
    #[test]
    fn any_value_comes_back_from_every_text(value in any_value()) {
        for text in [canonical(&value), default_text(&value)] {
            let read = parse(text.as_bytes()).unwrap();
            prop_assert_eq!(canonical(&read), canonical(&value));
        }
        let kept = parse(default_text(&value).as_bytes()).unwrap();
        prop_assert!(same(&kept, &value));
    }

    #[test]
    fn any_finite_float_comes_back_to_the_bit(bits: u64) {
        let float = f64::from_bits(bits);
        prop_assume!(float.is_finite());
        let text = canonical(&Value::Float(float));
        let Value::Float(read) = parse(text.as_bytes()).unwrap() else { panic!("{text}") };
        prop_assert_eq!(read.to_bits(), bits);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), text in ".{0,60}") {
        let _ = parse(&bytes);
        let _ = Transaction::from_text(text.as_bytes());
        let _ = Fulfillment::from_der(&bytes);
        let _ = Fulfillment::from_uri(&text);
    }

    #[test]
    fn any_bytes_come_back_from_base64url(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = base64url::encode(&bytes);
        prop_assert_eq!(base64url::decode(&text).unwrap(), bytes);
    }

    #[test]
    fn fulfillments_have_one_encoding(fulfillment in any_fulfillment()) {
        let read = Fulfillment::from_uri(&fulfillment.to_uri()).unwrap();
        prop_assert_eq!(read.to_der(), fulfillment.to_der());
        prop_assert_eq!(read.condition(), fulfillment.condition());
    }

    #[test]
    fn a_built_asset_passes_from_hand_to_hand(owners in any_details(), amount in 1..1_000_u64, seed in 0..6_u8) {
        let everyone: Vec<KeyPair> = (0..6).map(pair).collect();
        let everyone: Vec<&KeyPair> = everyone.iter().collect();
        let created = Create::new()
            .signer(pair(seed).public())
            .output(Output::with_details(owners, amount).unwrap())
            .sign(&everyone).unwrap();
        let given = Transfer::of(&created)
            .spend(&created, 0)
            .output(Output::to(&[pair(seed).public()], amount).unwrap())
            .sign(&everyone).unwrap();
        let mut ledger = MemoryLedger::default();
        let mut batch = SignatureBatch::new();
        for transaction in [created, given] {
            let read = Transaction::from_text(transaction.text().as_bytes()).unwrap();
            prop_assert_eq!(read.validate(&ledger), Ok(()));
            batch.push(&read, &read.check_spending(&ledger).unwrap());
            prop_assert!(ledger.apply(&read));
            prop_assert_eq!(read.inputs(), transaction.inputs());
        }
        prop_assert!(batch.verify().iter().all(Result::is_ok));
    }

    #[test]
    fn a_batch_judges_as_each_signature_by_itself(
        broken in prop::collection::vec(prop::option::weighted(0.1, (0..96_usize, 1..=255_u8)), 1..12),
    ) {
        let mut batch = Batch::new();
        let mut alone = Vec::new();
        for (index, broken) in broken.iter().enumerate() {
            let message = [index as u8];
            let mut signed = Ed25519 {
                public_key: pair(index as u8).public().0,
                signature: pair(index as u8).sign(&message),
            };
            if let Some((at, flip)) = *broken {
                match at.checked_sub(32) {
                    Some(at) => signed.signature[at] ^= flip,
                    None => signed.public_key[at] ^= flip,
                }
            }
            batch.push(signed, &message);
            alone.push(signed.verify(&message));
        }
        prop_assert_eq!(batch.verify(), alone);
    }
}
