//! The BigchainDB application: what is checked, what a block does, and what is remembered of it.
//!
//! A transaction is read and its signatures are checked once, before it enters the mempool; what
//! it does to the ledger then travels with it. The ledger's side of the check, which may change
//! with every block, is made again whenever the original makes it.

use std::sync::Arc;

use bigchain::block::AppHash;
use bigchain::{Effect, Id};
use bytes::Bytes;
use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::broadcast;
use wire::ws::write_text;

use super::execution;
use super::spends::{Candidate, Pending, Spends};
use super::state::CommittedState;
use super::validators::{Checked, Needed, Rejection, Validators};
use crate::app::admission::Gate;
use crate::app::{App, Execution, Finalized, Tx};
use crate::config::{AdmissionConfig, AdmissionMode, BigchaindbConfig, Validation, cores};
use crate::host::Work;

/// Code of a transaction that is refused (`CodeTypeError` of the original).
const REFUSED: u32 = 1;
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
    pub(super) events: broadcast::Sender<Arc<ValidTransactions>>,
}

/// The event stream's messages of a block.
#[derive(Debug)]
pub(super) struct ValidTransactions {
    /// A WebSocket message for each transaction that took effect, as it goes to every client.
    pub(super) frames: Vec<u8>,
}

/// What a block does.
#[derive(Debug)]
struct Executed {
    height: u64,
    /// Transactions that take effect, with their index in the block.
    valid: Vec<(u32, Arc<Effect>)>,
    /// Indices of those that the application refuses.
    refused: Vec<u32>,
    app_hash: AppHash,
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
        let gate = admission.mode.map(|mode| {
            let committed = Arc::clone(&state);
            let gate = Gate::new(admission, mode, Spends { committed }, Pending::default());
            Arc::new(gate)
        });
        Self {
            workers,
            validators: Validators::start(workers, &state),
            gate,
            state,
            events: broadcast::Sender::new(EVENT_BLOCKS),
        }
    }

    pub(super) fn state(&self) -> RwLockReadGuard<'_, CommittedState> {
        self.state.read()
    }

    /// Checks a text completely, as the HTTP API does before it hands a transaction on.
    ///
    /// # Errors
    /// Why it is refused.
    pub(super) async fn validate(&self, text: Bytes) -> Result<Checked, Rejection> {
        self.validators.check(text, Needed::EffectAndText).await
    }

    /// `CheckTx`. What the HTTP API has checked already is only held against the ledger again.
    async fn check_effect(&self, tx: &mut Tx) -> u32 {
        if tx.learnt.is_none() {
            let checked = self
                .validators
                .check(tx.bytes.clone(), Needed::Effect)
                .await;
            let Ok(checked) = checked else { return REFUSED };
            tx.learnt = Some(checked.effect);
            if self.gate.is_none() {
                return ACCEPTED;
            }
        }
        match (&self.gate, effect_of(tx)) {
            (Some(gate), Some(effect)) => admit(gate, effect).await,
            _ => self.recheck(tx),
        }
    }

    fn execute(&self, block: &Execution<'_>) -> Executed {
        let txs = block.txs.iter().enumerate();
        let effects: Vec<Option<Arc<Effect>>> = txs
            .map(|(index, tx)| effect_of(tx).filter(|_| !block.fails(index)))
            .collect();
        let state = self.state();
        let takes_effect = execution::execute(&state, &effects, self.workers);
        let mut valid = Vec::with_capacity(effects.len());
        let mut refused = Vec::new();
        for ((at, effect), takes_effect) in (0..).zip(effects).zip(takes_effect) {
            match effect {
                Some(effect) if takes_effect => valid.push((at, effect)),
                _ if block.fails(at as usize) => {}
                _ => refused.push(at),
            }
        }
        let ids: Vec<Id> = valid.iter().map(|(_, effect)| effect.id()).collect();
        Executed {
            height: block.height,
            app_hash: state.app_hash().after(&ids),
            events: ValidTransactions::of(block.height, &valid),
            valid,
            refused,
        }
    }
}

impl App for Bigchaindb {
    fn check(&self, _tx: &Tx) -> Option<u32> {
        None
    }

    fn check_later<'a>(&'a self, tx: &'a mut Tx) -> Work<'a, u32> {
        Box::pin(self.check_effect(tx))
    }

    fn is_behind_socket(&self) -> bool {
        true
    }

    fn rechecks(&self) -> bool {
        true
    }

    /// Holds a transaction that was checked before against the ledger as it is now.
    fn recheck(&self, tx: &Tx) -> u32 {
        let passes = |effect: Arc<Effect>| effect.check(&*self.state()).is_ok();
        if effect_of(tx).is_some_and(passes) {
            ACCEPTED
        } else {
            REFUSED
        }
    }

    /// Admission holds against the mempool what is spent; nothing else is admitted meanwhile.
    fn mempool_is(&self, txs: &mut dyn Iterator<Item = &Tx>) {
        if let Some(gate) = &self.gate {
            let pending = Pending::of(txs.filter_map(effect_of));
            gate.pause(|view| *view = pending);
        }
    }

    fn admission(&self) -> Option<admission::Counters> {
        self.gate.as_ref().map(|gate| gate.counters())
    }

    fn app_hash(&self) -> Vec<u8> {
        self.state().app_hash().as_str().as_bytes().to_vec()
    }

    fn finalize(&self, block: Execution<'_>) -> Finalized {
        let executed = self.execute(&block);
        let mut failed = block.failing;
        failed.extend(executed.refused.iter().map(|at| (*at, REFUSED)));
        failed.sort_unstable();
        let (state, listeners) = (Arc::clone(&self.state), self.events.clone());
        Finalized {
            failed,
            outcomes: Vec::new(),
            app_hash: executed.app_hash.as_str().as_bytes().to_vec(),
            commit: Box::new(move || {
                let Executed {
                    height,
                    valid,
                    app_hash,
                    events,
                    ..
                } = executed;
                state.write().apply(height, &valid, app_hash);
                if events.frames.is_empty() {
                    return None;
                }
                // An error means that there are no listeners.
                Some(Box::new(move || _ = listeners.send(Arc::new(events))))
            }),
        }
    }

    /// Ends the threads that check transactions and waits for them.
    fn stop(&self) {
        self.validators.stop();
        if let Some(gate) = &self.gate {
            gate.stop();
        }
    }
}

/// What a transaction does to the ledger, if its check found that.
fn effect_of(tx: &Tx) -> Option<Arc<Effect>> {
    tx.learnt.clone()?.downcast().ok()
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
