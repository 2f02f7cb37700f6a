//! The BigchainDB application: what is checked, what a block does, and what is remembered of it.
//!
//! A transaction is read and its signatures are checked once, before it enters the mempool; what
//! it does to the ledger then travels with it. The ledger's side of the check, which may change
//! with every block, is made again whenever the original makes it.

mod execution;
mod state;
mod validators;

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use bigchain::block::AppHash;
use bigchain::{Effect, Id, Mode};
use bytes::Bytes;
use tokio::sync::broadcast;
use wire::ws::write_text;

use super::Execution;
use crate::chain::block::Tx;
use crate::config::{BigchaindbConfig, Validation};

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
    pub(crate) fn new(config: &BigchaindbConfig) -> Self {
        let workers = match config.validation {
            Validation::Serial => 1,
            Validation::Parallel => config.workers(),
        };
        let state = Arc::new(RwLock::new(CommittedState::new(config.retain_transactions)));
        let mode = if config.strict {
            Mode::Strict
        } else {
            Mode::Compatible
        };
        Self {
            workers,
            validators: Validators::start(workers, mode, &state),
            state,
            events: broadcast::Sender::new(EVENT_BLOCKS),
        }
    }

    pub(crate) fn state(&self) -> RwLockReadGuard<'_, CommittedState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the threads that check transactions and waits for them.
    pub(crate) fn stop(&self) {
        self.validators.stop();
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
        if tx.effect.is_some() {
            return self.recheck(tx);
        }
        match self
            .validators
            .check(tx.bytes.clone(), Needed::Effect)
            .await
        {
            Ok(checked) => {
                tx.effect = Some(checked.effect);
                ACCEPTED
            }
            Err(_) => REFUSED,
        }
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
            .unwrap_or_else(PoisonError::into_inner)
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
