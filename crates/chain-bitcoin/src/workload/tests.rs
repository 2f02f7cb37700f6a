//! Transactions as a function of wallet, seed and index.

use std::collections::HashSet;

use super::*;

/// A workload with a wallet of coins that nothing made.
pub(super) fn workload(spec: Spec, transactions: u64) -> BitcoinWorkload {
    let workload = BitcoinWorkload::new(spec, transactions).unwrap();
    let coins = (0..workload.needs() as u32).map(|vout| Coin {
        spend: Spend {
            outpoint: OutPoint {
                txid: Txid::from_byte_array([7; 32]),
                vout,
            },
            key: (vout % u32::from(KEYS)) as u16,
            value: workload.spec().coin_value(),
        },
        state: CoinState::Confirmed,
    });
    let seed = workload.spec().wallet_seed;
    let wallet = Wallet::new("chain", seed, Digest::Legacy, coins.collect());
    workload.give(wallet).unwrap();
    workload
}

fn made(workload: &BitcoinWorkload, index: u64) -> Transaction {
    let mut bytes = Vec::new();
    let name = workload.open().unwrap().write(index, &mut bytes).unwrap();
    assert!(bytes.len() <= workload.largest(), "{} bytes", bytes.len());
    let tx: Transaction = bitcoin::consensus::deserialize(&bytes).unwrap();
    assert_eq!(name, TxName::Known(shown(tx.compute_txid())));
    assert_eq!(bitcoin_id(index, &bytes).unwrap(), shown(tx.compute_txid()));
    tx
}

fn odd() -> Spec {
    Spec {
        seed: 5,
        depth: "5".parse().unwrap(),
        conflicts: 0.2,
        orphans: 0.1,
        ..Spec::default()
    }
}

#[test]
fn the_order_in_which_threads_make_them_changes_nothing() {
    for shape in [Shape::TwoInTwoOut, Shape::OneInOneOut, Shape::Fan(3)] {
        let spec = Spec { shape, ..odd() };
        let forwards = workload(spec.clone(), 40);
        let backwards = workload(spec, 40);
        let mut one: Vec<Transaction> = (0..40).map(|index| made(&forwards, index)).collect();
        let other: Vec<Transaction> = (0..40).rev().map(|index| made(&backwards, index)).collect();
        one.reverse();
        assert_eq!(one, other);
    }
}

#[test]
fn each_link_spends_the_outputs_of_the_one_before_and_pays_the_fee() {
    let spec = Spec {
        depth: "4".parse().unwrap(),
        ..odd()
    };
    let workload = workload(spec, 40);
    let inner = &workload.inner;
    for index in 0..40 {
        let tx = made(&workload, index);
        let spends = inner.spends(index);
        let fee = match inner.chains.role(index) {
            Role::Conflict(with) => {
                assert_eq!(spends, inner.spends(with), "the same coins");
                inner.spec.fee() + 1
            }
            Role::Link | Role::Orphan => inner.spec.fee(),
        };
        let spent: u64 = spends.iter().map(|coin| coin.value).sum();
        let paid: u64 = tx.output.iter().map(|output| output.value.to_sat()).sum();
        assert_eq!(spent, paid + fee, "transaction {index}");
        assert!(
            tx.output
                .iter()
                .all(|output| output.value.to_sat() >= LEAST_OUTPUT)
        );
    }
}

#[test]
fn the_gigablock_s_transaction_has_its_373_bytes() {
    let workload = workload(Spec::default(), 20);
    let sizes: Vec<usize> = (0..20)
        .map(|index| made(&workload, index).total_size())
        .collect();
    let mean = sizes.iter().sum::<usize>() as f64 / 20.0;
    assert!((371.5..=374.0).contains(&mean), "{mean}");
    assert_eq!(workload.largest(), 374);
}

#[test]
fn no_two_links_spend_the_same_coin() {
    let workload = workload(
        Spec {
            conflicts: 0.0,
            ..odd()
        },
        50,
    );
    let mut spent = HashSet::new();
    for index in 0..50 {
        for input in made(&workload, index).input {
            assert!(spent.insert(input.previous_output), "transaction {index}");
        }
    }
}

#[test]
fn what_spends_a_refused_transaction_is_dead_and_the_refused_one_is_not() {
    let workload = workload(
        Spec {
            depth: "4".parse().unwrap(),
            ..Spec::default()
        },
        40,
    );
    assert_eq!(workload.inner.chains.count(), 10);
    workload.refuse(13);
    let dead: Vec<u64> = (0..40).filter(|index| workload.is_dead(*index)).collect();
    assert_eq!(dead, [23, 33]);
    workload.refuse(23);
    assert!(!workload.is_dead(13), "the first refusal counts");
}

#[test]
fn a_refused_conflict_or_orphan_kills_nothing() {
    let workload = workload(odd(), 100);
    for index in 0..100 {
        if workload.inner.chains.role(index) != Role::Link {
            workload.refuse(index);
        }
    }
    assert!((0..100).all(|index| !workload.is_dead(index)));
}

#[test]
fn a_wallet_with_too_little_is_refused_with_what_is_missing() {
    let workload = BitcoinWorkload::new(Spec::default(), 10).unwrap();
    let poor = Wallet::new("chain", 1, Digest::Legacy, Vec::new());
    let error = workload.give(poor).unwrap_err().to_string();
    assert!(
        error.contains("0 of the 20 coins of at least 10000 satoshi"),
        "{error}"
    );
    assert!(
        error.contains("txgen bitcoin prepare --utxos 20"),
        "{error}"
    );
    let spec = Spec {
        conflicts: 0.6,
        orphans: 0.5,
        ..Spec::default()
    };
    let error = BitcoinWorkload::new(spec, 10).unwrap_err().to_string();
    assert!(error.contains("at most 90 % are possible"), "{error}");
}
