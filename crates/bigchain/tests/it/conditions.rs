//! The vectors of the crypto-conditions draft.

use bigchain::condition::{Ed25519, Kind, Prefix, ThresholdDraft};
use bigchain::json::{Value, canonical};
use bigchain::{Condition, Fulfillment, base64url};

use crate::vectors::{bytes, folder, hex, list, load, str_of, strings};

fn draft_vectors() -> Vec<(String, Value)> {
    let mut names: Vec<String> = std::fs::read_dir(folder().join("crypto-conditions"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
        .into_iter()
        .map(|name| {
            let vector = load(&format!("crypto-conditions/{name}"));
            (name, vector)
        })
        // No transaction of BigchainDB carries RSA.
        .filter(|(_, vector)| !canonical(vector).contains(r#""type":"rsa-sha-256""#))
        .collect()
}

/// The fulfillment that a vector's structure describes.
fn built(json: &Value) -> Fulfillment {
    let binary = |name| base64url::decode(str_of(json, name)).unwrap();
    match str_of(json, "type") {
        "preimage-sha-256" => Fulfillment::Preimage(binary("preimage")),
        "prefix-sha-256" => Fulfillment::Prefix(Box::new(Prefix {
            prefix: binary("prefix"),
            max_message_length: json.get("maxMessageLength").unwrap().as_i64().unwrap() as u64,
            fulfillment: built(json.get("subfulfillment").unwrap()),
        })),
        "threshold-sha-256" => {
            let threshold = json.get("threshold").unwrap().as_i64().unwrap();
            let draft = list(json, "subfulfillments")
                .iter()
                .fold(ThresholdDraft::new(), |draft, inner| {
                    draft.fulfilled(built(inner))
                });
            Fulfillment::Threshold(draft.seal(threshold as u32).unwrap())
        }
        "ed25519-sha-256" => Fulfillment::Ed25519(Ed25519 {
            public_key: binary("publicKey").try_into().unwrap(),
            signature: binary("signature").try_into().unwrap(),
        }),
        other => panic!("{other}"),
    }
}

#[test]
fn all_12_vectors_of_the_draft_without_rsa() {
    let vectors = draft_vectors();
    assert_eq!(vectors.len(), 12);
    for (name, vector) in vectors {
        let der = bytes(str_of(&vector, "fulfillment"));
        let message = bytes(str_of(&vector, "message"));
        let fulfillment = Fulfillment::from_der(&der).expect(&name);
        assert_eq!(hex(&fulfillment.to_der()), hex(&der), "{name}");
        let text = fulfillment.to_uri();
        assert_eq!(Fulfillment::from_uri(&text).as_ref(), Ok(&fulfillment));
        let from_json = built(vector.get("json").unwrap());
        assert_eq!(
            hex(&from_json.to_der()),
            hex(&der),
            "{name}: from its structure"
        );
        assert_eq!(
            hex(&fulfillment.fingerprint_contents()),
            str_of(&vector, "fingerprintContents").to_lowercase(),
            "{name}"
        );
        let condition = fulfillment.condition();
        let encoded = bytes(str_of(&vector, "conditionBinary"));
        assert_eq!(hex(&condition.to_der()), hex(&encoded), "{name}");
        assert_eq!(Condition::from_der(&encoded), Ok(condition));
        let uri = str_of(&vector, "conditionUri");
        assert_eq!(condition.to_string(), uri, "{name}");
        assert_eq!(Condition::from_uri(uri), Ok(condition));
        assert_eq!(
            Some(condition.cost as i64),
            vector.get("cost").unwrap().as_i64()
        );
        assert_eq!(
            condition.subtypes.names(),
            strings(&vector, "subtypes"),
            "{name}"
        );
        assert!(fulfillment.verify(&message), "{name}");
        if fulfillment.kind() == Kind::Ed25519 {
            assert!(
                !fulfillment.verify(&[&message[..], b"x"].concat()),
                "{name}"
            );
        }
    }
}

#[test]
fn broken_encodings_are_errors_never_crashes() {
    for (name, vector) in draft_vectors() {
        let der = bytes(str_of(&vector, "fulfillment"));
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

#[test]
fn nesting_is_bounded() {
    let nested = |levels: usize| {
        let mut fulfillment = Fulfillment::Preimage(vec![1]);
        for _ in 1..levels {
            let sealed = ThresholdDraft::new().fulfilled(fulfillment).seal(1);
            fulfillment = Fulfillment::Threshold(sealed.unwrap());
        }
        fulfillment
    };
    let deep = nested(100);
    assert_eq!(Fulfillment::from_der(&deep.to_der()), Ok(deep));
    let too_deep = nested(101).to_der();
    assert!(Fulfillment::from_der(&too_deep).is_err());
}

#[test]
fn too_few_fulfillments_make_no_threshold() {
    let draft = ThresholdDraft::new().fulfilled(Fulfillment::Preimage(vec![]));
    assert!(draft.clone().seal(2).is_none());
    assert!(draft.seal(1).is_some());
}
