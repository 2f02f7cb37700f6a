//! The crate against what the SDK itself made.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use cosmos::{
    Address, Coin, Draft, Fee, Keys, Message, Outline, Place, Prefix, PublicKey, SignedTx, Signer,
    Signing, query,
};
use proptest::prelude::*;

const MNEMONIC: &str = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon \
                        abandon about";
const PATH: &str = "m/44'/118'/0'/0";
const CHAIN: &str = "tide-1";

/// Account number, sequence and bytes of a transaction that simd signed.
fn vector(name: &str) -> (u64, u64, Vec<u8>) {
    let line = include_str!("../vectors.txt")
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let fields: Vec<&str> = line.unwrap().split(' ').collect();
    let bytes = base64_simd::STANDARD.decode_to_vec(fields[2]).unwrap();
    (
        fields[0].parse().unwrap(),
        fields[1].parse().unwrap(),
        bytes,
    )
}

fn prefix() -> Prefix {
    Prefix::new("cosmos").unwrap()
}

fn wallet() -> Keys {
    Keys::from_mnemonic(MNEMONIC, PATH).unwrap()
}

fn addresses() -> [Address; 3] {
    [0, 1, 7].map(|number| wallet().key(number).unwrap().address())
}

fn stake(amount: u128) -> Coin {
    Coin::new(amount, "stake")
}

fn sign(messages: &[Message], fee: &Fee, memo: &str, number: u64, sequence: u64) -> Vec<u8> {
    let draft = Draft {
        memo,
        ..Draft::new(messages, fee)
    };
    let signer = Signer {
        key: &wallet().key(0).unwrap(),
        account_number: number,
        sequence,
    };
    let mut out = Vec::new();
    Signing::default().sign(CHAIN, &draft, &signer, &mut out);
    out
}

#[test]
fn accounts_of_a_mnemonic_are_those_of_the_sdk() {
    let texts = addresses().map(|address| prefix().write(address));
    assert_eq!(
        texts,
        [
            "cosmos19rl4cm2hmr8afy4kldpxz3fka4jguq0auqdal4",
            "cosmos1jrkmdcwgq94uaamx6zax2luewlhf7u4kucx3kz",
            "cosmos1ry8ad7xw5n5y4zhplc6s7xruxmamtsalkmrqk5",
        ]
    );
    let key = base64_simd::STANDARD.encode_to_string(wallet().key(0).unwrap().public().0);
    assert_eq!(key, "Ak9OKtmcNNYLm6YoPJQxqEGK+GcyEpYfl6d7Y3f80Fti");
}

#[test]
fn a_send_is_the_sdk_s_byte_for_byte() {
    let (number, sequence, expected) = vector("send");
    let [from, to, _] = addresses();
    let fee = Fee {
        coins: vec![stake(2_000)],
        gas: 100_000,
    };
    let message = Message::send(&prefix(), from, to, &stake(1));
    assert_eq!(sign(&[message], &fee, "", number, sequence), expected);
}

#[test]
fn a_multi_send_is_the_sdk_s_byte_for_byte() {
    let (number, sequence, expected) = vector("multi-send");
    let [from, to, also] = addresses();
    let fee = Fee {
        coins: Vec::new(),
        gas: 200_000,
    };
    let message = Message::multi_send(&prefix(), from, &[to, also], &stake(25));
    assert_eq!(sign(&[message], &fee, "hello", number, sequence), expected);
}

#[test]
fn several_messages_and_the_largest_numbers_are_the_sdk_s_byte_for_byte() {
    let (number, sequence, expected) = vector("two-sends");
    let [from, to, _] = addresses();
    let fee = Fee {
        coins: vec![stake(2_000)],
        gas: 100_000,
    };
    let messages = [1, u128::MAX].map(|amount| Message::send(&prefix(), from, to, &stake(amount)));
    assert_eq!(sign(&messages, &fee, "", number, sequence), expected);
}

#[test]
fn what_the_sdk_signed_is_read_back_and_its_signature_holds() {
    let [from, to, also] = addresses().map(|address| prefix().write(address));
    for (name, paid) in [("send", 1), ("multi-send", 2), ("two-sends", 2)] {
        let (number, sequence, bytes) = vector(name);
        let tx = SignedTx::read(&bytes).unwrap();
        assert_eq!(tx.signer.sequence, sequence);
        assert!(tx.is_signed_for(CHAIN, number), "{name}");
        assert!(!tx.is_signed_for("tide-2", number), "{name}");
        assert!(!tx.is_signed_for(CHAIN, number ^ 1), "{name}");
        let transfers = tx.messages.iter().map(|it| it.transfer().unwrap().unwrap());
        let (inputs, outputs): (Vec<_>, Vec<_>) =
            transfers.map(|it| (it.inputs, it.outputs)).unzip();
        let (inputs, outputs) = (inputs.concat(), outputs.concat());
        assert!(inputs.iter().all(|input| input.address == from));
        assert_eq!((outputs.len(), &outputs[0].address), (paid, &to), "{name}");
        if name == "multi-send" {
            assert_eq!(inputs[0].coins, [stake(50)]);
            assert_eq!(
                (&outputs[1].address, &outputs[1].coins[..]),
                (&also, &[stake(25)][..])
            );
        }
    }
}

#[test]
fn an_unordered_transaction_has_no_sequence_and_an_instant_of_its_own() {
    let [from, to, _] = addresses();
    let message = Message::send(&prefix(), from, to, &stake(1));
    let fee = Fee::default();
    let key = wallet().key(0).unwrap();
    let signed = |until_ns| {
        let draft = Draft {
            unordered_until_ns: Some(until_ns),
            ..Draft::new(std::slice::from_ref(&message), &fee)
        };
        let signer = Signer {
            key: &key,
            account_number: 5,
            sequence: 9,
        };
        let mut out = Vec::new();
        Signing::default().sign(CHAIN, &draft, &signer, &mut out);
        out
    };
    let (first, second) = (
        signed(1_700_000_000_000_000_001),
        signed(1_700_000_000_000_000_002),
    );
    let read = SignedTx::read(&first).unwrap();
    assert!(read.unordered);
    assert_eq!(read.signer.sequence, 0);
    assert!(read.is_signed_for(CHAIN, 5));
    assert_ne!(first, second, "a nanosecond makes another transaction");
    // SDK 0.53, proto/cosmos/tx/v1beta1/tx.proto: `bool unordered = 4`, `Timestamp timeout_timestamp = 5`.
    let fields = [
        0x20, 1, 0x2a, 8, 0x08, 0x80, 0xe2, 0xcf, 0xaa, 0x06, 0x10, 1,
    ];
    assert!(first.windows(fields.len()).any(|window| window == fields));
}

#[test]
fn keys_of_a_seed_are_the_same_whoever_makes_them() {
    let (one, same, other) = (Keys::from_seed(1), Keys::from_seed(1), Keys::from_seed(2));
    assert_eq!(one.key(3).unwrap(), same.key(3).unwrap());
    assert_ne!(one.key(3).unwrap(), one.key(4).unwrap());
    assert_ne!(one.key(3).unwrap(), other.key(3).unwrap());
    assert!(!format!("{one:?} {:?}", one.key(0)).contains("secret"));
}

#[test]
fn what_is_no_wallet_is_refused_with_what_it_should_be() {
    let words = Keys::from_mnemonic("abandon about", PATH)
        .unwrap_err()
        .to_string();
    assert!(words.contains("12 to 24"), "{words}");
    let path = Keys::from_mnemonic(MNEMONIC, "m/44x")
        .unwrap_err()
        .to_string();
    assert!(path.contains("m/44'/118'/0'/0"), "{path}");
}

/// A proxy keeps the order of an account without knowing what its transactions ask for.
#[test]
fn an_outline_tells_signer_sequence_and_gas_of_what_simd_signed() {
    for name in ["send", "multi-send", "two-sends"] {
        let (_, sequence, bytes) = vector(name);
        let signed = SignedTx::read(&bytes).unwrap();
        let outline = Outline::read(&bytes).unwrap();
        let signer = addresses()[0];
        assert_eq!(outline.place, Some(Place { signer, sequence }), "{name}");
        assert_eq!(outline.gas, signed.fee.gas, "{name}");
    }
}

/// A transaction with this signer's info and first message, as far as an outline looks at them.
fn sketch(info: impl Fn(&mut Vec<u8>), from: &str, unordered: u64) -> Vec<u8> {
    let mut out = Vec::new();
    cosmos::proto::nested(&mut out, 1, |out| {
        cosmos::proto::nested(out, 1, |out| {
            cosmos::proto::any(out, "/some.chain.v1.MsgOfItsOwn", |out| {
                cosmos::proto::bytes(out, 1, from.as_bytes());
            });
        });
        cosmos::proto::number(out, 4, unordered);
    });
    cosmos::proto::nested(&mut out, 2, |out| {
        cosmos::proto::nested(out, 1, &info);
    });
    cosmos::proto::bytes(&mut out, 3, &[1; 64]);
    out
}

#[test]
fn an_account_is_the_same_with_its_key_and_by_its_address_alone() {
    let sequence = |out: &mut Vec<u8>| cosmos::proto::number(out, 3, 12);
    let key_of = |url: &'static str| {
        move |out: &mut Vec<u8>| {
            let key = wallet().key(0).unwrap().public().0;
            cosmos::proto::nested(out, 1, |out| {
                cosmos::proto::any(out, url, |out| cosmos::proto::bytes(out, 1, &key));
            });
            cosmos::proto::number(out, 3, 12);
        }
    };
    let (signer, text) = (addresses()[0], prefix().write(addresses()[0]));
    let place = |tx: &[u8]| Outline::read(tx).unwrap().place;
    let expected = Some(Place {
        signer,
        sequence: 12,
    });
    assert_eq!(place(&sketch(sequence, &text, 0)), expected);
    let secp256k1 = "/cosmos.crypto.secp256k1.PubKey";
    assert_eq!(place(&sketch(key_of(secp256k1), "", 0)), expected);
    // A key of another kind stands for itself, and the same one for the same account.
    let other = place(&sketch(
        key_of("/ethermint.crypto.v1.ethsecp256k1.PubKey"),
        "",
        0,
    ))
    .unwrap();
    assert_ne!(other.signer, signer);
    assert_eq!(other.sequence, 12);
    // Without a sequence, or without anybody, there is no order to keep.
    assert_eq!(place(&sketch(key_of(secp256k1), "", 1)), None);
    assert_eq!(place(&sketch(sequence, "no address", 0)), None);
}

#[test]
fn what_is_no_transaction_has_no_outline() {
    for bytes in [&b""[..], b"key=value", &[0x0a, 0x00], &[0xff; 40]] {
        assert_eq!(Outline::read(bytes), None, "{bytes:?}");
    }
    let (_, _, mut bytes) = vector("send");
    cosmos::proto::number(&mut bytes, 9, 1);
    assert_eq!(
        Outline::read(&bytes),
        None,
        "no chain takes an unknown field there"
    );
    // Reading ends after so many fields.
    let flood = [0x1a, 0x00].repeat(Outline::MOST_FIELDS);
    let (_, _, send) = vector("send");
    assert_eq!(Outline::read(&[send, flood].concat()), None);
}

/// The reply of simd to a query for the validator's account, before it has signed anything and after.
#[test]
fn accounts_are_read_as_the_chain_tells_them() {
    let account = query::Account {
        address: prefix().write(addresses()[0]),
        key: Some(*wallet().key(0).unwrap().public()),
        number: 7,
        sequence: 300,
    };
    assert_eq!(query::Account::read(&account.write()).unwrap(), account);
    let mut module = Vec::new();
    cosmos::proto::nested(&mut module, 1, |out| {
        cosmos::proto::any(out, "/cosmos.auth.v1beta1.ModuleAccount", |_| {});
    });
    let error = query::Account::read(&module).unwrap_err().to_string();
    assert!(error.contains("the account is a ModuleAccount"), "{error}");
}

proptest! {
    #[test]
    fn no_bytes_make_the_readers_panic(noise in prop::collection::vec(any::<u8>(), 0..400), at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        let _ = SignedTx::read(&noise);
        let _ = query::Account::read(&noise);
        let _ = query::read_gas_used(&noise);
        let _ = PublicKey::read(&noise);
        let _ = Outline::read(&noise);
        // A transaction with one wrong byte is refused, or its signature no longer holds.
        let (number, _, mut bytes) = vector("send");
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let _ = Outline::read(&bytes);
        if let Ok(tx) = SignedTx::read(&bytes) {
            prop_assert!(!tx.is_signed_for(CHAIN, number));
        }
    }
}
