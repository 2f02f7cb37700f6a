//! The vectors of the crypto-conditions draft that have no other kind than Ed25519; thresholds are in those of
//! transactions.

use bigchain::Fulfillment;
use bigchain::condition::{Ed25519, MAX_NESTING, ThresholdDraft};

use crate::vectors::{bytes, hex, load, str_of, transactions};

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
