//! Strict mode: what the original forgets is refused, what its own tools make is not.

use bigchain::{Class, Mode, Transaction};

use crate::vectors::{list, load, str_of, transactions, valid};

#[test]
fn of_the_36_valid_transactions_one_is_refused_in_strict_mode() {
    let known = transactions();
    for vector in valid() {
        let name = str_of(&vector, "name");
        let strict = Transaction::from_value(vector.get("tx").unwrap().clone(), Mode::Strict);
        if name == "create-uint64" {
            assert_eq!(strict.unwrap_err().class, Class::ValidationError);
        } else {
            assert_eq!(strict.as_ref(), Ok(&known[name]), "{name}");
        }
    }
}

#[test]
fn what_the_original_forgets_is_refused_in_strict_mode() {
    let refused = [
        "amount-leading-zero",
        "outputs-empty",
        "owners-before-empty",
        "owners-before-long",
        "public-keys-null",
        "public-keys-empty",
        "public-keys-other",
        "condition-uri-mismatch",
        "condition-uri-empty-hash",
        "condition-uri-swapped-params",
        "details-threshold-no-subconditions",
        "details-threshold-too-high",
        "details-depth-20",
        "details-depth-60",
        "details-depth-99",
        "fulfillment-trailing-bytes",
        "create-signed-by-other",
        "create-two-owners-one-signature",
        "transfer-owners-before-other",
    ];
    let mut count = 0;
    for case in list(&load("cases.json"), "cases") {
        let name = str_of(case, "name");
        if str_of(case.get("real").unwrap(), "stage") != "ok" {
            continue;
        }
        let strict = Transaction::from_value(case.get("tx").unwrap().clone(), Mode::Strict);
        assert_eq!(
            strict.is_err(),
            refused.contains(&name),
            "{name}: {strict:?}"
        );
        count += usize::from(strict.is_err());
    }
    assert_eq!(count, refused.len());
}
