//! The BigchainDB application: what is checked, what a block does, and what is remembered of it.
//!
//! A transaction is read and its signatures are checked once, before it enters the mempool; what
//! it does to the ledger then travels with it. The ledger's side of the check, which may change
//! with every block, is made again whenever the original makes it.

mod execution;
mod spends;
mod state;
mod validators;

use std::sync::Arc;

use bigchain::block::AppHash;
use bigchain::{Effect, Id, Mode};
use bytes::Bytes;
use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::broadcast;
use wire::ws::write_text;

use super::Execution;
use super::admission::Gate;
use crate::chain::block::Tx;
use crate::config::{AdmissionConfig, AdmissionMode, BigchaindbConfig, Validation, cores};

use spends::{Candidate, Pending, Spends};
pub(crate) use state::{CommittedState, OutputFilter};
pub(crate) use validators::{Checked, Rejection};
use validators::{Needed, Validators};

/// Code of a transaction that is refused (`CodeTypeError` of the original).
pub(crate) const REFUSED: u32 = 1;
const ACCEPTED: u32 = 0;

/// Blocks that a slow listener of the event stream may be behind before it is cut off.
const EVENT_BLOCKS: usize = 16;

/// The application.
#[derive(Debug)]
pub(crate) struct Bigchaindb {
    /// Threads that execute a block; one executes it in order.
    workers: usize,
    state: Arc<RwLock<CommittedState>>,
    validators: Validators,
    /// What holds spends against the mempool too, if anything does.
    gate: Option<Arc<Gate<Spends>>>,
    events: broadcast::Sender<Arc<ValidTransactions>>,
}

/// The event stream's messages of a block.
#[derive(Debug)]
pub(crate) struct ValidTransactions {
    /// A WebSocket message for each transaction that took effect, as it goes to every client.
    pub(crate) frames: Vec<u8>,
}

/// What a block does.
#[derive(Debug)]
pub(crate) struct Finalized {
    height: u64,
    /// Transactions that take effect, with their index in the block.
    valid: Vec<(u32, Arc<Effect>)>,
    /// Indices of those that the application refuses.
    pub(super) refused: Vec<u32>,
    pub(super) app_hash: AppHash,
    events: ValidTransactions,
}

impl Bigchaindb {
    pub(crate) fn new(config: &BigchaindbConfig, admission: &AdmissionConfig) -> Self {
        let workers = match (admission.mode, config.validation) {
            (Some(AdmissionMode::Serial), _) | (None, Validation::Serial) => 1,
            (Some(AdmissionMode::Parallel), _) => cores(admission.validators),
            (None, Validation::Parallel) => cores(config.workers),
        };
        let state = Arc::new(RwLock::new(CommittedState::new(config.retain_transactions)));
        let mode = if config.strict {
            Mode::Strict
        } else {
            Mode::Compatible
        };
        let gate = admission.mode.map(|mode| {
            let committed = Arc::clone(&state);
            let gate = Gate::new(admission, mode, Spends { committed }, Pending::default());
            Arc::new(gate)
        });
        Self {
            workers,
            validators: Validators::start(workers, mode, &state),
            gate,
            state,
            events: broadcast::Sender::new(EVENT_BLOCKS),
        }
    }

    pub(crate) fn state(&self) -> RwLockReadGuard<'_, CommittedState> {
        self.state.read()
    }

    /// Ends the threads that check transactions and waits for them.
    pub(crate) fn stop(&self) {
        self.validators.stop();
        if let Some(gate) = &self.gate {
            gate.stop();
        }
    }

    /// Subscribes to every block from now on.
    pub(crate) fn listen(&self) -> broadcast::Receiver<Arc<ValidTransactions>> {
        self.events.subscribe()
    }

    /// Checks a text completely, as the HTTP API does before it hands a transaction on.
    ///
    /// # Errors
    /// Why it is refused.
    pub(crate) async fn validate(&self, text: Bytes) -> Result<Checked, Rejection> {
        self.validators.check(text, Needed::EffectAndText).await
    }

    /// `CheckTx`. What the HTTP API has checked already is only held against the ledger again.
    pub(super) async fn check(&self, tx: &mut Tx) -> u32 {
        if tx.effect.is_none() {
            let checked = self
                .validators
                .check(tx.bytes.clone(), Needed::Effect)
                .await;
            let Ok(checked) = checked else { return REFUSED };
            tx.effect = Some(checked.effect);
            if self.gate.is_none() {
                return ACCEPTED;
            }
        }
        match (&self.gate, &tx.effect) {
            (Some(gate), Some(effect)) => admit(gate, Arc::clone(effect)).await,
            _ => self.recheck(tx),
        }
    }

    /// Tells admission what the mempool holds after a block; nothing else is admitted.
    pub(super) fn mempool_is<'a>(&self, txs: impl Iterator<Item = &'a Tx>) {
        if let Some(gate) = &self.gate {
            let pending = Pending::of(txs.filter_map(|tx| tx.effect.as_ref()));
            gate.pause(|view| *view = pending);
        }
    }

    /// What admission has counted.
    pub(super) fn admission(&self) -> Option<admission::Counters> {
        self.gate.as_ref().map(|gate| gate.counters())
    }

    /// Holds a transaction that was checked before against the ledger as it is now.
    pub(super) fn recheck(&self, tx: &Tx) -> u32 {
        let passes = |effect: &Arc<Effect>| effect.check(&*self.state()).is_ok();
        if tx.effect.as_ref().is_some_and(passes) {
            ACCEPTED
        } else {
            REFUSED
        }
    }

    pub(super) fn app_hash(&self) -> Vec<u8> {
        self.state().app_hash().as_str().as_bytes().to_vec()
    }

    pub(super) fn finalize(&self, block: &Execution<'_>) -> Finalized {
        let effects: Vec<Option<&Arc<Effect>>> = block
            .txs
            .iter()
            .enumerate()
            .map(|(index, tx)| tx.effect.as_ref().filter(|_| !block.fails(index)))
            .collect();
        let state = self.state();
        let takes_effect = execution::execute(&state, &effects, self.workers);
        let mut valid = Vec::with_capacity(effects.len());
        let mut refused = Vec::new();
        for ((at, effect), takes_effect) in (0..).zip(&effects).zip(takes_effect) {
            match effect {
                Some(effect) if takes_effect => valid.push((at, Arc::clone(effect))),
                _ if block.fails(at as usize) => {}
                _ => refused.push(at),
            }
        }
        let ids: Vec<Id> = valid.iter().map(|(_, effect)| effect.id()).collect();
        Finalized {
            height: block.height,
            app_hash: state.app_hash().after(&ids),
            events: ValidTransactions::of(block.height, &valid),
            valid,
            refused,
        }
    }

    pub(super) fn commit(&self, block: Finalized) -> ValidTransactions {
        self.state
            .write()
            .apply(block.height, &block.valid, block.app_hash);
        block.events
    }

    /// Publishes a committed block to the listeners of the event stream.
    pub(super) fn publish(&self, events: ValidTransactions) {
        if !events.frames.is_empty() {
            // An error means that there are no listeners.
            let _ = self.events.send(Arc::new(events));
        }
    }
}

async fn admit(gate: &Arc<Gate<Spends>>, effect: Arc<Effect>) -> u32 {
    let (candidate, verdict) = Candidate::new(effect);
    let refused = gate.offer(vec![candidate]).await;
    if refused.is_empty() && verdict.await == Ok(true) {
        ACCEPTED
    } else {
        REFUSED
    }
}

impl ValidTransactions {
    fn of(height: u64, valid: &[(u32, Arc<Effect>)]) -> Self {
        let mut frames = Vec::new();
        for (_, effect) in valid {
            let id = effect.id();
            let asset = effect.asset().unwrap_or(id);
            let message = format!(
                r#"{{"height": {height}, "asset_id": "{asset}", "transaction_id": "{id}"}}"#
            );
            write_text(&mut frames, message.as_bytes());
        }
        Self { frames }
    }
}

#[cfg(test)]
mod tests;
