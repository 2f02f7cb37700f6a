//! The vector files: those of the crypto-conditions draft that have no other kind than Ed25519 (thresholds are in those
//! of transactions), and the 172 cases with the original's verdict and class, or the documented difference.

use std::collections::HashMap;
use std::path::PathBuf;

use bigchain::condition::{Ed25519, MAX_NESTING, ThresholdDraft};
use bigchain::json::{Value, default_text, parse};
use bigchain::schema::accepts;
use bigchain::{Class, Fulfillment, KeyPair, MemoryLedger, Refusal, Transaction};

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

pub(crate) fn load(name: &str) -> Value {
    let text = std::fs::read(folder().join(name)).unwrap();
    parse(&text).unwrap()
}

pub(crate) fn str_of<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap()
}

pub(crate) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).unwrap()
}

pub(crate) fn strings(value: &Value, name: &str) -> Vec<String> {
    list(value, name)
        .iter()
        .map(|item| item.as_str().unwrap().to_owned())
        .collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// The vectors of `valid.json` by name.
pub(crate) fn valid() -> Vec<Value> {
    list(&load("valid.json"), "vectors").to_vec()
}

pub(crate) fn transactions() -> HashMap<String, Transaction> {
    valid()
        .iter()
        .map(|vector| {
            let transaction = Transaction::from_value(vector.get("tx").unwrap().clone());
            (str_of(vector, "name").to_owned(), transaction.unwrap())
        })
        .collect()
}

pub(crate) fn ledger_with<'a>(
    known: &HashMap<String, Transaction>,
    names: impl Iterator<Item = &'a String>,
) -> MemoryLedger {
    let mut ledger = MemoryLedger::default();
    for name in names {
        assert!(ledger.apply(&known[name]), "{name}");
    }
    ledger
}

/// The key pairs of `keys.json` by name.
pub(crate) fn pairs() -> HashMap<String, KeyPair> {
    load("keys.json")
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, keys)| {
            let pair = KeyPair::from_private_key(str_of(keys, "private_key")).unwrap();
            assert_eq!(pair.public().to_string(), str_of(keys, "public_key"));
            assert_eq!(hex(&pair.public().0), str_of(keys, "public_key_hex"));
            (name.to_owned(), pair)
        })
        .collect()
}

#[test]
fn the_vectors_of_the_draft() {
    for name in ["0004_test-minimal-ed25519", "0015_test-basic-ed25519"] {
        let vector = load(&format!("crypto-conditions/{name}.json"));
        let der = bytes(str_of(&vector, "fulfillment"));
        let message = bytes(str_of(&vector, "message"));
        let fulfillment = Fulfillment::from_der(&der).expect(name);
        assert_eq!(hex(&fulfillment.to_der()), hex(&der), "{name}");
        assert_eq!(
            hex(&fulfillment.fingerprint_contents()),
            str_of(&vector, "fingerprintContents").to_lowercase(),
            "{name}"
        );
        let condition = fulfillment.condition();
        let encoded = str_of(&vector, "conditionBinary").to_lowercase();
        assert_eq!(hex(&condition.to_der()), encoded, "{name}");
        assert_eq!(condition.to_string(), str_of(&vector, "conditionUri"));
        assert_eq!(
            Some(condition.cost as i64),
            vector.get("cost").unwrap().as_i64()
        );
        assert!(fulfillment.verify(&message), "{name}");
        assert!(
            !fulfillment.verify(&[&message[..], b"x"].concat()),
            "{name}"
        );
    }
}

#[test]
fn broken_encodings_are_errors_never_crashes() {
    for (name, transaction) in transactions() {
        let bigchain::Proof::Signed(fulfillment) = &transaction.inputs()[0].proof else {
            panic!("{name} is signed");
        };
        let der = fulfillment.to_der();
        for end in 0..der.len() {
            let shorter = Fulfillment::from_der(&der[..end]);
            assert!(shorter.is_err(), "{name} {end}");
        }
        let mut changed = der.clone();
        for at in 0..der.len().min(600) {
            for flip in [0x01, 0x80, 0xff] {
                changed[at] ^= flip;
                let _ = Fulfillment::from_der(&changed);
                changed[at] ^= flip;
            }
        }
        let longer = [&der[..], &[0, 0, 0]].concat();
        assert!(Fulfillment::from_der(&longer).is_ok(), "{name}");
    }
}

fn signed() -> Fulfillment {
    Fulfillment::Ed25519(Ed25519 {
        public_key: [1; 32],
        signature: [2; 64],
    })
}

#[test]
fn kinds_that_no_output_can_name_are_refused() {
    let der = signed().to_der();
    assert!(Fulfillment::from_der(&der).is_ok());
    for tag in [0xa0, 0xa1, 0xa3, 0xa5] {
        let other = [&[tag], &der[1..]].concat();
        assert!(Fulfillment::from_der(&other).is_err(), "{tag:x}");
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |levels: usize| {
        (1..levels).fold(signed(), |inner, _| {
            let sealed = ThresholdDraft::new().fulfilled(inner).seal(1);
            Fulfillment::Threshold(sealed.unwrap())
        })
    };
    let deep = nested(MAX_NESTING);
    assert_eq!(Fulfillment::from_der(&deep.to_der()), Ok(deep));
    let too_deep = nested(MAX_NESTING + 1).to_der();
    assert!(Fulfillment::from_der(&too_deep).is_err());
}

#[test]
fn too_few_fulfillments_make_no_threshold() {
    let draft = ThresholdDraft::new().fulfilled(signed());
    assert!(draft.clone().seal(2).is_none());
    assert!(draft.seal(1).is_some());
}

/// What is answered where the original crashes.
const INSTEAD_OF_CRASHES: [(&str, Class); 17] = [
    ("id-not-hex", Class::InvalidHash),
    ("id-integer", Class::InvalidHash),
    ("version-newline", Class::SchemaValidationError),
    ("operation-list", Class::SchemaValidationError),
    ("amount-newline", Class::SchemaValidationError),
    ("owners-before-null", Class::ValidationError),
    ("details-key-zero-char", Class::ValidationError),
    ("details-key-capital-o", Class::ValidationError),
    ("details-key-31-bytes", Class::ValidationError),
    ("details-key-33-bytes", Class::ValidationError),
    ("fulfillment-one-char", Class::InvalidSignature),
    ("fulfillment-bad-tag", Class::InvalidSignature),
    ("transfer-bad-index", Class::InputDoesNotExist),
    ("top-list", Class::SchemaValidationError),
    ("top-string", Class::SchemaValidationError),
    ("top-null", Class::SchemaValidationError),
    ("top-number", Class::SchemaValidationError),
];

fn verdict(case: &Value) -> Result<(), Refusal> {
    let known = transactions();
    let before = [strings(case, "committed"), strings(case, "in_block")].concat();
    let ledger = ledger_with(&known, before.iter());
    let body = case.get("tx").unwrap().clone();
    Transaction::from_value(body)?.validate(&ledger)
}

#[test]
fn all_172_cases_17_of_them_crashes_24_of_them_valid() {
    let file = load("cases.json");
    let cases = list(&file, "cases");
    assert_eq!(cases.len(), 172);
    let (mut crashes, mut valid) = (0, 0);
    let mut wrong = Vec::new();
    for case in cases {
        let (name, real) = (str_of(case, "name"), case.get("real").unwrap());
        let ours = verdict(case);
        let right = match (str_of(real, "stage"), &ours) {
            ("ok", Ok(())) => {
                valid += 1;
                true
            }
            ("crash", Err(refusal)) => {
                crashes += 1;
                INSTEAD_OF_CRASHES.contains(&(name, refusal.class))
            }
            (_, Err(refusal)) => format!("{:?}", refusal.class) == str_of(real, "error"),
            _ => false,
        };
        if !right {
            wrong.push(format!(
                "{name}: {ours:?}, original: {}",
                default_text(real)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!((crashes, valid), (17, 24));
}

#[test]
fn the_schema_admits_what_the_originals_admits() {
    for case in list(&load("cases.json"), "cases") {
        let (name, body) = (str_of(case, "name"), case.get("tx").unwrap());
        match str_of(case.get("real").unwrap(), "stage") {
            "schema" => assert!(!accepts(body), "{name}"),
            "ok" => assert!(accepts(body), "{name}"),
            _ => {}
        }
    }
}
