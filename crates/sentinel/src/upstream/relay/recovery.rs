//! After an outage: missed events are delivered late, or the client is told that its subscription
//! has ended.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::event::{self, EventQuery, PastEvent};
use super::link::{Link, OwnQuery, Replay};
use super::message::{Pending, Purpose, RelayEvent, about};
use super::node_message::{EXITING, cancelled};
use super::subscriptions::SubscriptionState;
use super::{Relay, Relays};
use crate::jsonrpc::KeptId;
use crate::refusal::Forwarded;
use crate::upstream::UpstreamError;
use crate::upstream::query::charged;
use crate::upstream::version::Version;

impl Relay {
    /// The node answered a repeated subscription.
    pub(super) fn on_subscribed_again(&mut self, key: u64, error: Option<&str>) {
        if error == Some(EXITING) {
            return self.on_break("the node stops");
        }
        match (error, self.subscriptions.get_mut(key)) {
            (None, Some(known)) => known.state = SubscriptionState::Live,
            (Some(reason), Some(_)) => {
                self.notify_end(key, reason);
                self.subscriptions.remove(key);
            }
            // The client has ended it in the meantime.
            (_, None) => {}
        }
        let waits = self
            .subscriptions
            .iter()
            .any(|known| known.state == SubscriptionState::Lost);
        if !waits && self.lost.is_some() {
            let (nodes, node) = (self.relays.0.nodes.clone(), self.node);
            self.work = Some(OwnQuery::Height(Box::pin(async move {
                nodes.latest_height(node).await
            })));
        }
    }

    /// The node's height after the last subscription was repeated: later blocks come as events.
    pub(super) fn on_height(&mut self, height: Result<u64, UpstreamError>) {
        self.work = None;
        let height = match height {
            Ok(height) => height,
            Err(error) => return self.on_break(&error.to_string()),
        };
        let Some(lost) = self.lost.take() else {
            return;
        };
        let others: Vec<u64> = self
            .subscriptions
            .iter()
            .filter(|known| known.state == SubscriptionState::Live && !known.kind.is_per_block())
            .map(|known| known.key)
            .collect();
        if height > lost.height {
            let reason = format!(
                "the connection to the node was lost at height {} and events up to height {height} were missed",
                lost.height
            );
            for key in others {
                self.end_subscription(key, &reason);
            }
        }
        for known in self.subscriptions.iter_mut() {
            if known.kind.is_per_block() {
                known.next = Some(known.expected());
            }
        }
        self.start_replay(Replay {
            to: height,
            only: None,
            held: None,
        });
    }

    /// Delivers the events of past blocks before anything else is read.
    pub(super) fn start_replay(&mut self, replay: Replay) {
        self.replay = Some(replay);
        self.continue_replay();
    }

    /// Asks for the next past block, or ends the replay.
    fn continue_replay(&mut self) {
        while let Some(replay) = &self.replay {
            let concerned = self.subscriptions.iter().filter(|known| {
                known.state == SubscriptionState::Live
                    && known.kind.is_per_block()
                    && known.expected() <= replay.to
                    && replay.only.is_none_or(|only| only == known.key)
            });
            // All subscriptions together, height by height.
            let Some(known) = concerned.min_by_key(|known| known.expected()) else {
                return self.end_replay();
            };
            let (key, height, missed) = (
                known.key,
                known.expected(),
                replay.to - known.expected() + 1,
            );
            let wanted = EventQuery {
                height,
                kind: known.kind,
                no_updates_are_null: self.relays.no_updates_are_null(),
            };
            if missed > MAX_REPLAY {
                let reason = format!("{missed} blocks were missed");
                self.end_subscription(key, &reason);
            } else if !self.has_known_events() {
                // Other versions write other events.
                let reason = format!("blocks {height} to {} were missed", height + missed - 1);
                self.end_subscription(key, &reason);
            } else {
                return self.ask_past(key, wanted, Duration::ZERO);
            }
        }
    }

    fn has_known_events(&self) -> bool {
        let version = self.relays.0.nodes.version(self.node);
        version.is_some_and(Version::has_known_events)
    }

    fn ask_past(&mut self, key: u64, wanted: EventQuery, pause: Duration) {
        let (nodes, node) = (self.relays.0.nodes.clone(), self.node);
        self.work = Some(OwnQuery::Event(
            key,
            Box::pin(async move {
                sleep(pause).await;
                event::fetch(nodes, node, wanted).await
            }),
        ));
    }

    /// The event of a past block was fetched, or is unavailable.
    pub(super) fn on_past(&mut self, key: u64, event: Result<PastEvent, UpstreamError>) {
        self.work = None;
        let event = event.and_then(|event| self.deliver_past(key, &event));
        match event {
            Ok(()) => self.continue_replay(),
            // The ledger has room again when clients have taken what is buffered for them.
            Err(UpstreamError::Memory) => {
                let Some(known) = self.subscriptions.get_mut(key) else {
                    return self.continue_replay();
                };
                let wanted = EventQuery {
                    height: known.expected(),
                    kind: known.kind,
                    no_updates_are_null: self.relays.no_updates_are_null(),
                };
                self.ask_past(key, wanted, MEMORY_PAUSE);
            }
            Err(
                error @ (UpstreamError::Refused(_)
                | UpstreamError::TooLarge(_)
                | UpstreamError::Garbage(..)),
            ) => {
                let height = self
                    .subscriptions
                    .get_mut(key)
                    .map(|known| known.expected());
                let reason = format!("block {} was missed: {error}", height.unwrap_or(0));
                self.end_subscription(key, &reason);
                self.continue_replay();
            }
            Err(error) => self.on_break(&error.to_string()),
        }
    }

    fn deliver_past(&mut self, key: u64, event: &PastEvent) -> Result<(), UpstreamError> {
        let ledger = self.ledger();
        let Some(known) = self.subscriptions.get_mut(key) else {
            return Ok(());
        };
        let text = event.text(&known.id, &known.query);
        let charge = ledger.reserve(text.len()).ok_or(UpstreamError::Memory)?;
        known.next = Some(known.expected() + 1);
        self.ready
            .push_back(RelayEvent::Text(charged(text, charge)));
        self.relays.0.replayed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn end_replay(&mut self) {
        let held = self.replay.take().and_then(|replay| replay.held);
        // Nothing was read during the replay, so its time does not count against the node.
        let now = Instant::now();
        for pending in &mut self.pending {
            pending.since = now;
        }
        if let Link::Open(socket) = &mut self.link {
            socket.touch(now);
        }
        if let Some(text) = held {
            self.on_message(text);
        }
    }

    /// Tells the client that a subscription is over.
    fn notify_end(&mut self, key: u64, reason: &str) {
        let Some(known) = self.subscriptions.get_mut(key) else {
            return;
        };
        let message = cancelled(&known.id, reason);
        self.ready.push_back(RelayEvent::Text(message.into()));
        self.relays.0.cancelled.fetch_add(1, Ordering::Relaxed);
    }

    /// Tells the client that a subscription is over, and the node.
    pub(super) fn end_subscription(&mut self, key: u64, reason: &str) {
        self.notify_end(key, reason);
        let Some(known) = self.subscriptions.get_mut(key) else {
            return;
        };
        known.state = SubscriptionState::Leaving;
        let request = about(LEAVE_ID, "unsubscribe", &known.query);
        let Link::Open(socket) = &mut self.link else {
            // Further events are dropped, and the next connection does not have the subscription.
            return;
        };
        socket.write_text(&request);
        self.pending.push_back(Pending {
            id: Some(KeptId::new(LEAVE_ID)),
            tag: None,
            purpose: Purpose::Leave { key },
            forwarded: Forwarded::No,
            since: Instant::now(),
            charge: None,
        });
    }

    /// The outage lasts too long: all subscriptions end.
    pub(super) fn give_up_subscriptions(&mut self) {
        self.lost = None;
        let keys: Vec<u64> = self.subscriptions.iter().map(|known| known.key).collect();
        for key in keys {
            self.notify_end(key, "no node can be reached");
        }
        self.subscriptions.end_all();
    }
}

impl Relays {
    /// Notes from a live event whether no validator updates are `null` or `[]`.
    pub(super) fn note_empty_updates(&self, rest: &str) {
        let known = &self.0.no_updates_are_null;
        if known.get().is_none()
            && let Some(are_null) = event::shows_null_updates(rest)
        {
            let _ = known.set(are_null);
        }
    }

    fn no_updates_are_null(&self) -> bool {
        self.0.no_updates_are_null.get() == Some(&true)
    }
}

/// Most blocks whose events are delivered late: a quarter of an hour at one block a second.
const MAX_REPLAY: u64 = 1_000;
/// The ledger is asked again after this.
const MEMORY_PAUSE: Duration = Duration::from_millis(100);
/// The id of the relay's own requests to end a subscription.
const LEAVE_ID: &str = r#""sentinel-leave""#;
