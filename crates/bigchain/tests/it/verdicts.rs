//! The 172 cases: the original's verdict and class, or the documented difference.

use bigchain::json::{Value, default_text};
use bigchain::schema::accepts;
use bigchain::{Class, Refusal, Transaction};

use crate::vectors::{ledger_with, list, load, str_of, strings, transactions};

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
