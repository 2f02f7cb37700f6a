//! The 172 cases: the original's verdict, class and text, or the documented difference.

use bigchain::json::{Value, repr};
use bigchain::schema::{JsonSchema, accepts, explain};
use bigchain::{Class, Mode, Refusal, Transaction};

use crate::vectors::{ledger_with, list, load, str_of, strings, transactions};

/// What is answered where the original crashes: class and a part of the text.
const INSTEAD_OF_CRASHES: [(&str, Class, &str); 17] = [
    (
        "id-not-hex",
        Class::InvalidHash,
        "The transaction's id 'xyz' isn't equal",
    ),
    (
        "id-integer",
        Class::InvalidHash,
        "The transaction's id '7' isn't equal",
    ),
    (
        "version-newline",
        Class::SchemaValidationError,
        r"'2.0\n' does not match '^2\\.0$'",
    ),
    (
        "operation-list",
        Class::SchemaValidationError,
        "['CREATE'] is not of type 'string'",
    ),
    (
        "amount-newline",
        Class::SchemaValidationError,
        r"'1\n' does not match '^[0-9]{1,20}$'",
    ),
    (
        "owners-before-null",
        Class::ValidationError,
        "`owners_before` must be a list instance",
    ),
    (
        "details-key-zero-char",
        Class::ValidationError,
        "Public key must be base58",
    ),
    (
        "details-key-capital-o",
        Class::ValidationError,
        "Public key must be base58",
    ),
    (
        "details-key-31-bytes",
        Class::ValidationError,
        "Public key must be 32 bytes, was: 43",
    ),
    (
        "details-key-33-bytes",
        Class::ValidationError,
        "Public key must be 32 bytes, was: 33",
    ),
    (
        "fulfillment-one-char",
        Class::InvalidSignature,
        "Fulfillment URI couldn't been parsed",
    ),
    (
        "fulfillment-bad-tag",
        Class::InvalidSignature,
        "Fulfillment URI couldn't been parsed",
    ),
    (
        "transfer-bad-index",
        Class::InputDoesNotExist,
        "output 7 of input `",
    ),
    (
        "top-list",
        Class::SchemaValidationError,
        "[] is not of type 'object'",
    ),
    (
        "top-string",
        Class::SchemaValidationError,
        "'x' is not of type 'object'",
    ),
    (
        "top-null",
        Class::SchemaValidationError,
        "None is not of type 'object'",
    ),
    (
        "top-number",
        Class::SchemaValidationError,
        "1 is not of type 'object'",
    ),
];

fn verdict(case: &Value) -> Result<(), Refusal> {
    let known = transactions();
    let before = [strings(case, "committed"), strings(case, "in_block")].concat();
    let ledger = ledger_with(&known, before.iter());
    let body = case.get("tx").unwrap().clone();
    Transaction::from_value(body, Mode::Compatible)?.validate(&ledger)
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
                INSTEAD_OF_CRASHES.iter().any(|(crash, class, text)| {
                    *crash == name && refusal.class == *class && refusal.text.contains(text)
                })
            }
            // The order of keys in this text is that of the body posted, which the file sorts.
            (_, Err(refusal)) if name == "create-with-fulfills" => {
                refusal
                    .text
                    .starts_with("{'output_index': 0, 'transaction_id': 'f9fb")
                    && refusal.text.ends_with("'} is not of type 'null'")
                    && str_of(real, "message").ends_with("'output_index': 0} is not of type 'null'")
            }
            (_, Err(refusal)) => {
                format!("{:?}", refusal.class) == str_of(real, "error")
                    && refusal.to_string() == str_of(real, "message")
            }
            _ => false,
        };
        if !right {
            wrong.push(format!("{name}: {ours:?}, original: {}", repr(real)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!((crashes, valid), (17, 24));
}

#[test]
fn the_three_routes_of_the_schema_agree_on_all_cases() {
    let (schema, file) = (JsonSchema::new(), load("cases.json"));
    for case in list(&file, "cases") {
        let (name, body) = (str_of(case, "name"), case.get("tx").unwrap());
        let typed = accepts(body);
        assert_eq!(schema.accepts(body), typed, "{name}");
        assert_eq!(explain(body).is_none(), typed, "{name}");
        let real = case.get("real").unwrap();
        if str_of(real, "stage") == "schema" {
            assert!(!typed, "{name}");
        } else if str_of(real, "stage") == "ok" {
            assert!(typed, "{name}");
        }
    }
}
