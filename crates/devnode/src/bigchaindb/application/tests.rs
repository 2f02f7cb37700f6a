//! Blocks executed without a node around them.

use std::sync::LazyLock;

use bigchain::json::{self, Object, Value};
use bigchain::{Create, KeyPair, Output, Transaction, Transfer};
use proptest::prelude::*;

use super::*;
use crate::bigchaindb::state::OutputFilter;

const BLOCKS: &str = include_str!("../../../../bigchain/tests/vectors/blocks.json");
const VALID: &str = include_str!("../../../../bigchain/tests/vectors/valid.json");

fn app(validation: Validation, workers: usize) -> Bigchaindb {
    let config = BigchaindbConfig {
        validation,
        workers,
        ..BigchaindbConfig::default()
    };
    Bigchaindb::new(&config, &AdmissionConfig::default())
}

fn tx(effect: &Arc<Effect>) -> Tx {
    Tx {
        learnt: Some(Arc::clone(effect) as Arc<_>),
        ..Tx::new(Bytes::new())
    }
}

/// Executes a block and commits it; the indices that were refused, and the hash after it.
fn run(app: &Bigchaindb, height: u64, effects: &[&Arc<Effect>]) -> (Vec<u32>, AppHash) {
    let txs: Vec<Tx> = effects.iter().map(|effect| tx(effect)).collect();
    let block = || Execution {
        height,
        txs: &txs,
        failing: Vec::new(),
    };
    let Executed {
        refused, app_hash, ..
    } = app.execute(&block());
    (app.finalize(block()).commit)();
    (refused, app_hash)
}

fn file(text: &str) -> Value {
    let limits = json::Limits {
        bytes: 8 << 20,
        ..json::Limits::default()
    };
    json::parse_within(text.as_bytes(), limits).unwrap()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).unwrap()
}

#[test]
fn hashes_are_those_of_blocks_json() {
    let valid = file(VALID);
    let effect_of = |id: &Value| {
        let mut vectors = list(&valid, "vectors").iter();
        let vector = vectors.find(|vector| vector.get("id") == Some(id)).unwrap();
        let body = vector.get("tx").unwrap().clone();
        Arc::new(Transaction::from_value(body).unwrap().effect())
    };
    for validation in [Validation::Serial, Validation::Parallel] {
        let app = app(validation, 2);
        for (height, block) in (1..).zip(list(&file(BLOCKS), "app_hash")) {
            let previous = block.get("previous_app_hash").and_then(Value::as_str);
            assert_eq!(Some(app.state().app_hash().as_str()), previous);
            let effects: Vec<Arc<Effect>> = list(block, "transaction_ids")
                .iter()
                .map(effect_of)
                .collect();
            let (refused, hash) = run(&app, height, &effects.iter().collect::<Vec<_>>());
            assert_eq!(refused, [0_u32; 0]);
            assert_eq!(
                Some(hash.as_str()),
                block.get("app_hash").and_then(Value::as_str)
            );
        }
    }
}

/// Every spend of the universe against an empty ledger's three CREATEs: with admission an output is spent by
/// one transaction of the mempool, without it by any number.
#[tokio::test]
async fn admission_holds_spends_against_the_mempool_and_the_original_does_not() {
    let [original, serial, parallel] = [
        None,
        Some(AdmissionMode::Serial),
        Some(AdmissionMode::Parallel),
    ]
    .map(|mode| {
        let admission = AdmissionConfig {
            mode,
            ..AdmissionConfig::default()
        };
        Bigchaindb::new(&BigchaindbConfig::default(), &admission)
    });
    for (app, spends_of_each) in [(&original, 3), (&serial, 1), (&parallel, 1)] {
        run(app, 1, &UNIVERSE[..3].iter().collect::<Vec<_>>());
        let mut admitted = Vec::new();
        for effect in UNIVERSE.iter() {
            let mut tx = tx(effect);
            if app.check_later(&mut tx).await == ACCEPTED {
                admitted.push(tx);
            }
        }
        let spends = |app_tx: &Tx, output: (Id, u64)| {
            let effect = effect_of(app_tx).unwrap();
            effect.spends().any(|spent| spent == output)
        };
        for create in &UNIVERSE[..3] {
            let first = admitted.iter().filter(|tx| spends(tx, (create.id(), 0)));
            assert!(first.count() <= spends_of_each);
        }
        let rival = tx(&UNIVERSE[4]);
        assert_eq!(
            app.check_later(&mut rival.clone()).await,
            if spends_of_each > 1 {
                ACCEPTED
            } else {
                REFUSED
            }
        );
        // The mempool has dropped everything: the outputs are free again.
        app.mempool_is(&mut std::iter::empty());
        assert_eq!(app.check_later(&mut rival.clone()).await, ACCEPTED);
        app.stop();
    }
}

/// What a transaction that fails by order does to the block: nothing.
#[test]
fn forced_failures_take_no_effect() {
    let app = app(Validation::Parallel, 2);
    let txs: Vec<Tx> = UNIVERSE[..2].iter().map(tx).collect();
    let finalized = app.execute(&Execution {
        height: 1,
        txs: &txs,
        failing: vec![(0, 7)],
    });
    assert_eq!(finalized.refused, [0_u32; 0]);
    assert_eq!(finalized.valid.len(), 1);
    let frames = String::from_utf8_lossy(&finalized.events.frames);
    assert_eq!(frames.matches("transaction_id").count(), 1);
}

/// Three assets of several shares, and all that may happen to them: chains of TRANSFERs, rivals for
/// every output, wrong sums, inputs of two assets, the wrong asset named, inputs that are nowhere.
static UNIVERSE: LazyLock<Vec<Arc<Effect>>> = LazyLock::new(|| {
    let owner = KeyPair::from_seed([1; 32]);
    let to = |shares| Output::to(&[owner.public()], shares).unwrap();
    let mut creates: Vec<Transaction> = (0..4_i64)
        .map(|number| {
            Create::new()
                .metadata(Object::new().with("number", number))
                .signer(owner.public())
                .output(to(3))
                .output(to(5))
                .sign(&[&owner])
                .unwrap()
        })
        .collect();
    // One that is never committed.
    let lost = creates.remove(3);
    let mut all = creates.clone();
    for (number, create) in creates.iter().enumerate() {
        let other = &creates[(number + 1) % creates.len()];
        let spend = |of: &Transaction, index: usize, number: i64, shares: &[u64]| {
            let metadata = Object::new().with("rival", number);
            let draft = Transfer::of(create).metadata(metadata).spend(of, index);
            let draft = shares
                .iter()
                .fold(draft, |draft, shares| draft.output(to(*shares)));
            draft.sign(&[&owner]).unwrap()
        };
        let first = spend(create, 0, 1, &[1, 2]);
        let rival = spend(create, 0, 2, &[3]);
        let second = spend(&first, 1, 3, &[2]);
        let second_rival = spend(&first, 1, 4, &[1, 1]);
        let third = spend(&second, 0, 5, &[2]);
        let sums = spend(create, 1, 6, &[4]);
        let nowhere = spend(&lost, 1, 7, &[5]);
        let wrong_asset = spend(other, 1, 8, &[5]);
        let two_assets = Transfer::of(create)
            .spend(create, 1)
            .spend(other, 1)
            .output(to(10))
            .sign(&[&owner])
            .unwrap();
        let joined = Transfer::of(create)
            .spend(create, 1)
            .spend(&first, 0)
            .output(to(6))
            .sign(&[&owner])
            .unwrap();
        all.extend([
            first,
            rival,
            second,
            second_rival,
            third,
            sums,
            nowhere,
            wrong_asset,
            two_assets,
            joined,
        ]);
    }
    all.iter().map(|one| Arc::new(one.effect())).collect()
});

proptest! {
    /// Whatever is in the blocks and however many threads there are, the same transactions take
    /// effect as in order, with the same hashes, and the same outputs are left.
    #[test]
    fn parallel_is_serial(
        blocks in prop::collection::vec(prop::collection::vec(0_usize..33, 0..40), 1..4),
        workers in 2_usize..6,
    ) {
        let (serial, parallel) = (app(Validation::Serial, 1), app(Validation::Parallel, workers));
        let owner = KeyPair::from_seed([1; 32]).public();
        for (height, block) in (1..).zip(&blocks) {
            let effects: Vec<&Arc<Effect>> = block.iter().map(|at| &UNIVERSE[*at]).collect();
            prop_assert_eq!(run(&serial, height, &effects), run(&parallel, height, &effects));
            for filter in [OutputFilter::All, OutputFilter::Spent, OutputFilter::Unspent] {
                let outputs = |app: &Bigchaindb| app.state().outputs(&owner, filter);
                prop_assert_eq!(outputs(&serial), outputs(&parallel));
            }
        }
        for effect in UNIVERSE.iter() {
            let place = |app: &Bigchaindb| app.state().place(&effect.id());
            prop_assert_eq!(place(&serial), place(&parallel));
        }
    }

    /// No output is spent twice and no share is made of nothing, whatever comes.
    #[test]
    fn shares_are_kept(block in prop::collection::vec(0_usize..33, 0..80)) {
        let app = app(Validation::Parallel, 3);
        let effects: Vec<&Arc<Effect>> = block.iter().map(|at| &UNIVERSE[*at]).collect();
        run(&app, 1, &effects);
        let state = app.state();
        let owner = KeyPair::from_seed([1; 32]).public();
        for create in &UNIVERSE[..3] {
            let exists = state.place(&create.id()).is_some();
            let unspent: u64 = UNIVERSE
                .iter()
                .filter(|effect| effect.asset() == Some(create.id()))
                .flat_map(|effect| (0..).zip(effect.makes()).map(|(at, made)| (effect.id(), at, made)))
                .filter(|(id, at, _)| {
                    let left = state.outputs(&owner, OutputFilter::Unspent);
                    left.iter().any(|output| output.transaction == *id && output.index == *at)
                })
                .map(|(_, _, made)| made.amount)
                .sum();
            prop_assert_eq!(unspent, if exists { 8 } else { 0 });
        }
    }
}
