//! Every byte of the valid vectors: texts, ids, digests, encodings; and building them anew.

use std::collections::HashMap;

use bigchain::AppHash;
use bigchain::json::{Value, canonical, default_text, parse};
use bigchain::schema::accepts;
use bigchain::{
    Create, CreateTemplate, Error, Fulfillment, Id, JsonProblem, KeyPair, Operation, Proof,
    SignatureBatch, Transaction, Transfer,
};

use crate::vectors::{hex, ledger_with, list, load, pairs, str_of, strings, transactions, valid};

#[test]
fn all_57_texts_of_serialisation() {
    let file = load("serialisation.json");
    let vectors = file.as_array().unwrap();
    assert_eq!(vectors.len(), 57);
    for vector in vectors {
        let name = str_of(vector, "name");
        let read = parse(str_of(vector, "json_text").as_bytes());
        if vector.get("error").is_some() {
            assert!(
                matches!(
                    read,
                    Err(Error::Json {
                        problem: JsonProblem::LoneSurrogate,
                        ..
                    })
                ),
                "{name}"
            );
            continue;
        }
        let value = read.expect(name);
        let text = canonical(&value);
        assert_eq!(text, str_of(vector, "canonical"), "{name}");
        assert_eq!(hex(&sha3(&text)), str_of(vector, "sha3_256"), "{name}");
        assert_eq!(
            default_text(&value),
            str_of(vector, "tendermint_text"),
            "{name}"
        );
    }
}

fn sha3(text: &str) -> [u8; 32] {
    use sha3::Digest;
    sha3::Sha3_256::digest(text).into()
}

/// What `valid.json` and `external.json` say of a transaction, byte for byte.
fn check_vector(vector: &Value) {
    let name = str_of(vector, "name");
    let body = vector.get("tx").unwrap();
    assert!(accepts(body), "{name}");
    let transaction = Transaction::from_value(body.clone()).expect(name);
    let digests = transaction.digests();
    let base = str_of(vector, "message_base");
    for (message, digest) in list(vector, "messages").iter().zip(&digests) {
        assert_eq!(str_of(message, "digest_hex"), hex(digest), "{name}");
        let whole = format!("{base}{}", str_of(message, "suffix"));
        assert_eq!(sha3(&whole), *digest, "{name}");
    }
    assert_eq!(
        Id(sha3(str_of(vector, "id_body"))),
        transaction.id(),
        "{name}"
    );
    let inputs = transaction.inputs().iter().zip(&digests);
    for (wanted, (input, digest)) in list(vector, "fulfillments").iter().zip(inputs) {
        check_fulfillment(wanted, &input.proof, digest);
    }
    for output in list(body, "outputs") {
        let uri = str_of(output.get("condition").unwrap(), "uri");
        let computed = transaction
            .outputs()
            .iter()
            .any(|output| output.condition().to_string() == uri);
        assert!(computed, "{name}");
    }
}

fn check_fulfillment(wanted: &Value, proof: &Proof, digest: &[u8]) {
    let Proof::Signed(fulfillment) = proof else {
        panic!("a valid transaction is signed");
    };
    let condition = fulfillment.condition();
    assert_eq!(fulfillment.to_uri(), str_of(wanted, "uri"));
    assert_eq!(hex(&fulfillment.to_der()), str_of(wanted, "der_hex"));
    assert_eq!(
        hex(&condition.to_der()),
        str_of(wanted, "condition_der_hex")
    );
    assert_eq!(condition.to_string(), str_of(wanted, "condition_uri"));
    assert_eq!(
        hex(&condition.fingerprint),
        str_of(wanted, "fingerprint_hash_hex")
    );
    let contents = fulfillment.fingerprint_contents();
    assert_eq!(hex(&contents), str_of(wanted, "fingerprint_contents_hex"));
    assert_eq!(
        Some(condition.cost as i64),
        wanted.get("cost").unwrap().as_i64()
    );
    assert_eq!(fulfillment.kind().name(), str_of(wanted, "type"));
    if let Fulfillment::Ed25519(signed) = fulfillment {
        assert_eq!(hex(&signed.public_key), str_of(wanted, "public_key_hex"));
        assert_eq!(hex(&signed.signature), str_of(wanted, "signature_hex"));
    }
    assert!(fulfillment.verify(digest));
    assert!(!fulfillment.verify(&digest[1..]));
}

#[test]
fn all_36_valid_transactions() {
    let (known, vectors) = (transactions(), valid());
    assert_eq!(vectors.len(), 36);
    let mut together = SignatureBatch::new();
    for vector in &vectors {
        check_vector(vector);
        let name = str_of(vector, "name");
        let body = vector.get("tx").unwrap();
        for (field, text) in [
            ("canonical_bytes", canonical(body)),
            ("json_default_bytes", default_text(body)),
        ] {
            let size = vector.get(field).unwrap().as_i64().unwrap();
            assert_eq!(text.len() as i64, size, "{name}: {field}");
        }
        let transaction = &known[name];
        assert_eq!(transaction.text(), default_text(body));
        let ledger = ledger_with(&known, strings(vector, "spends").iter());
        assert_eq!(transaction.validate(&ledger), Ok(()), "{name}");
        together.push(transaction, &transaction.check_spending(&ledger).unwrap());
    }
    assert!(together.verify().iter().all(Result::is_ok));
}

#[test]
fn all_4_external_transactions() {
    let file = load("external.json");
    let vectors = file.as_array().unwrap();
    assert_eq!(vectors.len(), 4);
    for vector in vectors {
        check_vector(vector);
    }
}

/// Builds a vector anew from its parts and the keys of its signers.
fn rebuilt(
    transaction: &Transaction,
    known: &HashMap<String, Transaction>,
    signers: &[&KeyPair],
) -> Transaction {
    let metadata = transaction.metadata().as_object().cloned();
    let outputs = transaction.outputs().iter().cloned();
    match transaction.operation() {
        Operation::Create => {
            let mut create = Create::new();
            if let Some(data) = transaction.asset_data().and_then(Value::as_object) {
                create = create.asset(data.clone());
            }
            if let Some(metadata) = metadata {
                create = create.metadata(metadata);
            }
            for owner in &transaction.inputs()[0].owners_before {
                create = create.signer(owner.parse().unwrap());
            }
            outputs.fold(create, Create::output).sign(signers)
        }
        Operation::Transfer => {
            let spent = |id: &str| {
                let found = known.values().find(|known| known.id().to_string() == id);
                found.unwrap()
            };
            let mut transfer = Transfer::of(spent(&transaction.asset_id()));
            if let Some(metadata) = metadata {
                transfer = transfer.metadata(metadata);
            }
            for input in transaction.inputs() {
                let link = input.fulfills.as_ref().unwrap();
                let index = link.output_index as usize;
                transfer = transfer.spend(spent(&link.transaction_id), index);
            }
            outputs.fold(transfer, Transfer::output).sign(signers)
        }
    }
    .unwrap()
}

#[test]
fn all_36_valid_transactions_built_anew_are_the_same_to_the_byte() {
    let (known, pairs) = (transactions(), pairs());
    for vector in valid() {
        let name = str_of(&vector, "name");
        let signers: Vec<&KeyPair> = strings(&vector, "signers")
            .iter()
            .map(|name| &pairs[name])
            .collect();
        let built = rebuilt(&known[name], &known, &signers);
        let body = Value::Object(built.body().clone());
        assert_eq!(
            canonical(&body),
            canonical(vector.get("tx").unwrap()),
            "{name}"
        );
        assert_eq!(built.id(), known[name].id());
        let missing = rebuilt_without_keys(&known[name], &known);
        assert!(
            matches!(missing, Err(Error::MissingKey { input: 0 })),
            "{name}"
        );
    }
}

fn rebuilt_without_keys(
    transaction: &Transaction,
    known: &HashMap<String, Transaction>,
) -> Result<Transaction, Error> {
    let link = transaction.inputs()[0].fulfills.as_ref();
    let spent = known
        .values()
        .find(|known| link.is_some_and(|link| known.id().to_string() == link.transaction_id));
    match (link, spent) {
        (Some(link), Some(spent)) => Transfer::of(spent)
            .spend(spent, link.output_index as usize)
            .sign(&[]),
        _ => Create::new()
            .signer(transaction.inputs()[0].owners_before[0].parse().unwrap())
            .sign(&[]),
    }
}

#[test]
fn a_template_writes_the_765_and_762_bytes_of_the_benchmark() {
    let (known, pairs) = (transactions(), pairs());
    for (name, signer, size) in [
        ("create-bep23-765", "alice", 765),
        ("create-bep23-762", "short43", 762),
        ("create-bep23-size-1000", "alice", 1770),
        ("create-unicode", "alice", 1173),
    ] {
        let transaction = &known[name];
        let asset = transaction.asset_data().unwrap().as_object().cloned();
        let template = CreateTemplate::new(pairs[signer].clone(), asset).unwrap();
        let Some(metadata) = transaction.metadata().as_object() else {
            continue;
        };
        let mut text = String::new();
        assert_eq!(
            template.sign(metadata, &mut text),
            transaction.id(),
            "{name}"
        );
        assert_eq!(text.len(), size, "{name}");
        let read = Transaction::from_text(text.as_bytes()).unwrap();
        assert_eq!(read.inputs(), transaction.inputs());
    }
}

#[test]
fn every_number_of_blocks() {
    let file = load("blocks.json");
    let ids =
        |names: Vec<String>| -> Vec<Id> { names.iter().map(|id| id.parse().unwrap()).collect() };
    let blocks = list(&file, "app_hash");
    assert_eq!(blocks.len(), 3);
    for block in blocks {
        let ids = ids(strings(block, "transaction_ids"));
        let previous = AppHash::from_text(str_of(block, "previous_app_hash").to_owned());
        assert_eq!(previous.after(&ids).as_str(), str_of(block, "app_hash"));
    }
    let payload = file.get("tendermint_payload").unwrap();
    let text = transactions()[str_of(payload, "transaction")].text();
    let base64 = base64_simd::STANDARD.encode_to_string(text);
    assert_eq!(base64, str_of(payload, "base64"));
}

#[test]
fn of_a_double_spend_pair_the_second_is_refused_in_either_order() {
    let file = load("double-spend-pair.json");
    let known = transactions();
    let pair = list(&file, "pair");
    for order in [[0, 1], [1, 0]] {
        let mut ledger = ledger_with(&known, [str_of(&file, "committed_first").to_owned()].iter());
        let [first, second] =
            order.map(|index| Transaction::from_value(pair[index].clone()).unwrap());
        assert_eq!(first.asset_id(), second.asset_id());
        assert_eq!(first.validate(&ledger), Ok(()));
        assert_eq!(second.validate(&ledger), Ok(()), "alone it is valid too");
        assert!(ledger.apply(&first));
        let refusal = second.validate(&ledger).unwrap_err();
        assert_eq!(refusal.class, bigchain::Class::DoubleSpend);
    }
}
