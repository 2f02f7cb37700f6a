//! Scripted faults: what a test or an operator can make the node do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;

/// What is sent instead of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Garbage {
    /// Text that is no JSON.
    NotJson,
    /// The first half of the answer.
    Half,
    /// The answer under another id.
    WrongId,
    /// Nothing; over HTTP the connection hangs.
    Silence,
}

/// Transactions that fail when a block executes them though their check was good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedExecution {
    /// What the transactions start with.
    pub prefix: String,
    /// The code of their result, not 0.
    pub code: u32,
}

/// What is wrong with the node now.
#[derive(Debug, Clone, Default)]
pub(crate) struct ActiveFaults {
    pub(crate) stalled_until: Option<Instant>,
    pub(crate) refusing_until: Option<Instant>,
    pub(crate) down_until: Option<Instant>,
    pub(crate) mempool_full: bool,
    pub(crate) delay: Duration,
    pub(crate) halted: bool,
    pub(crate) garbage: Option<Garbage>,
    pub(crate) failing: Option<FailedExecution>,
    /// Rises when all connections are to be closed.
    pub(crate) generation: u64,
    /// Rises when the node starts again.
    pub(crate) restarts: u64,
}

/// Switches the faults on and off. Clones share them; every call takes effect at once, and none blocks.
#[derive(Debug, Clone)]
pub struct Faults {
    state: Arc<watch::Sender<ActiveFaults>>,
    /// Whether any fault changes answers: one load on the hot path.
    touched: Arc<AtomicBool>,
}

/// Longest time a fault lasts, so that instants never overflow: a day.
const LONGEST: Duration = Duration::from_secs(86_400);

impl Faults {
    pub(crate) fn new() -> Self {
        Self {
            state: Arc::new(watch::Sender::new(ActiveFaults::default())),
            touched: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Stalls the node for `span`: nothing is read, answered or committed; connections stay open.
    pub fn stall(&self, span: Duration) {
        self.change(|state| state.stalled_until = after(span));
    }

    /// Refuses new connections for `span`. Open ones stay.
    pub fn refuse_connections(&self, span: Duration) {
        self.change(|state| state.refusing_until = after(span));
    }

    /// Answers every broadcast with "mempool is full", or no longer.
    pub fn set_mempool_full(&self, full: bool) {
        self.change(|state| state.mempool_full = full);
    }

    /// Closes every open connection now, whatever is under way on it.
    pub fn drop_connections(&self) {
        self.change(|state| state.generation += 1);
    }

    /// Holds each answer back for `delay`; zero ends it.
    pub fn slow_answers(&self, delay: Duration) {
        self.change(|state| state.delay = delay.min(LONGEST));
    }

    /// Stops making blocks until [`Self::resume`].
    pub fn halt(&self) {
        self.change(|state| state.halted = true);
    }

    /// Makes blocks again after [`Self::halt`].
    pub fn resume(&self) {
        self.change(|state| state.halted = false);
    }

    /// Stops the node as a crash does and starts it again after `down`: connections close, new
    /// ones are refused meanwhile, the mempool and its cache are lost, the chain stays.
    pub fn restart(&self, down: Duration) {
        self.change(|state| {
            state.down_until = after(down);
            state.refusing_until = after(down);
            state.generation += 1;
            state.restarts += 1;
        });
    }

    /// Sends garbage instead of answers, or no longer.
    pub fn answer_garbage(&self, garbage: Option<Garbage>) {
        self.change(|state| state.garbage = garbage);
    }

    /// Lets transactions fail in blocks though their check was good, or no longer.
    pub fn fail_execution(&self, failing: Option<FailedExecution>) {
        self.change(|state| state.failing = failing);
    }

    /// Ends every fault.
    pub fn clear(&self) {
        self.change(|state| {
            *state = ActiveFaults {
                generation: state.generation,
                restarts: state.restarts,
                ..ActiveFaults::default()
            };
        });
    }

    pub(crate) fn now(&self) -> ActiveFaults {
        self.state.borrow().clone()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<ActiveFaults> {
        self.state.subscribe()
    }

    /// Whether every broadcast is refused.
    pub fn has_full_mempool(&self) -> bool {
        !self.untouched() && self.now().mempool_full
    }

    /// Whether answers go out as they are. Cheap.
    pub(crate) fn untouched(&self) -> bool {
        !self.touched.load(Ordering::Relaxed)
    }

    /// Waits until a stall is over.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn pass(&self) {
        if !self.untouched() {
            self.wait_until(|state| state.stalled_until).await;
        }
    }

    /// Holds back and spoils the body of an answer that was made; whether it is sent at all.
    pub(crate) async fn spoil(&self, body: &mut Vec<u8>) -> bool {
        if self.untouched() {
            return true;
        }
        let delay = self.now().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        self.pass().await;
        match self.now().garbage {
            Some(Garbage::Silence) => return false,
            Some(garbage) => *body = garbled(body, garbage),
            None => {}
        }
        true
    }

    /// Waits until an instant in the state has passed or is gone.
    pub(crate) async fn wait_until(&self, instant: impl Fn(&ActiveFaults) -> Option<Instant>) {
        let mut changes = self.watch();
        loop {
            let Some(until) =
                instant(&changes.borrow_and_update()).filter(|until| *until > Instant::now())
            else {
                return;
            };
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut ActiveFaults)) {
        self.state.send_modify(|state| {
            change(state);
            let touched = state.stalled_until.is_some()
                || state.mempool_full
                || !state.delay.is_zero()
                || state.garbage.is_some();
            self.touched.store(touched, Ordering::Relaxed);
        });
    }
}

fn after(span: Duration) -> Option<Instant> {
    Some(Instant::now() + span.min(LONGEST))
}

/// The body that is sent instead of an answer's.
fn garbled(body: &[u8], garbage: Garbage) -> Vec<u8> {
    const WRONG_ID: &[u8] = b"\"id\":987654321";
    match garbage {
        Garbage::NotJson => b"<<< this is no JSON >>>".to_vec(),
        Garbage::Half => body[..body.len() / 2].to_vec(),
        Garbage::Silence => Vec::new(),
        Garbage::WrongId => match body.windows(5).position(|five| five == b"\"id\":") {
            Some(at) => {
                let rest = &body[at + 5..];
                let end = rest
                    .iter()
                    .position(|byte| matches!(byte, b',' | b'}'))
                    .unwrap_or(rest.len());
                [&body[..at], WRONG_ID, &rest[end..]].concat()
            }
            None => body.to_vec(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stall_ends_by_itself_or_when_cleared() {
        let faults = Faults::new();
        let start = Instant::now();
        faults.pass().await;
        faults.stall(Duration::from_millis(1400));
        faults.pass().await;
        assert_eq!(start.elapsed(), Duration::from_millis(1400));
        faults.stall(Duration::from_secs(60));
        let clearing = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            faults.clear();
        };
        tokio::join!(faults.pass(), clearing);
        assert_eq!(start.elapsed(), Duration::from_millis(2400));
        assert!(faults.untouched());
    }

    #[tokio::test(start_paused = true)]
    async fn connections_are_refused_as_long_as_asked() {
        let faults = Faults::new();
        let start = Instant::now();
        faults.refuse_connections(Duration::from_secs(1));
        faults.wait_until(|state| state.refusing_until).await;
        assert_eq!(start.elapsed(), Duration::from_secs(1));
        faults.restart(Duration::from_secs(2));
        faults.wait_until(|state| state.refusing_until).await;
        assert_eq!(start.elapsed(), Duration::from_secs(3));
    }

    #[test]
    fn garbage_is_what_it_says() {
        let body = br#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
        assert_eq!(
            garbled(body, Garbage::WrongId),
            br#"{"jsonrpc":"2.0","id":987654321,"result":{}}"#
        );
        assert_eq!(garbled(body, Garbage::Half).len(), body.len() / 2);
        assert!(wire::json::check(&garbled(body, Garbage::NotJson)).is_err());
    }
}
