//! Handles the messages of the node.

use bytes::Bytes;

use super::Relay;
use super::link::Replay;
use super::message::{Pending, Purpose, RelayEvent};
use super::node_message::{EXITED, NodeMessage, height};
use super::subscriptions::{EventKind, Subscription, SubscriptionState};

/// What to do with an event.
enum EventAction {
    Pass,
    Drop,
    /// It belongs to another chain than the one subscribed to: the node's data was replaced.
    End {
        key: u64,
    },
    /// Blocks up to this height are missing before it.
    Gap {
        key: u64,
        to: u64,
    },
}

impl Relay {
    /// A message of the node came.
    pub(super) fn on_message(&mut self, text: Bytes) {
        self.note_activity();
        let message = text.clone();
        match NodeMessage::read(&message) {
            NodeMessage::Event { id, query, rest } => match self.event_action(id, &query, rest) {
                EventAction::Pass => self.ready.push_back(RelayEvent::Text(text)),
                EventAction::Drop => {}
                EventAction::End { key } => {
                    self.end_subscription(key, "the node's chain was replaced");
                }
                EventAction::Gap { key, to } => {
                    self.start_replay(Replay {
                        to,
                        only: Some(key),
                        held: Some(text),
                    });
                }
            },
            NodeMessage::Cancelled { id, reason } => self.on_cancelled(id, &reason, text),
            NodeMessage::Answer { id, error } => self.on_answer(id, error.as_deref(), text),
            // The client would have got it from the node, too.
            NodeMessage::Garbage => self.ready.push_back(RelayEvent::Text(text)),
        }
    }

    fn event_action(&mut self, id: &str, query: &str, rest: &str) -> EventAction {
        let Some(known) = self.subscriptions.of_event(id, query) else {
            // Its confirmation is still to come.
            return EventAction::Pass;
        };
        match known.state {
            SubscriptionState::Leaving => return EventAction::Drop,
            // Events may overtake the confirmation.
            SubscriptionState::Live | SubscriptionState::Lost => {
                known.state = SubscriptionState::Live;
            }
        }
        if !known.kind.is_per_block() {
            return EventAction::Pass;
        }
        let Some(height) = height(rest) else {
            return EventAction::Pass;
        };
        // Before the first break the first event may have any height.
        let expected = known.next.unwrap_or(height);
        if height > expected {
            let (key, to) = (known.key, height - 1);
            return EventAction::Gap { key, to };
        }
        let chain = self.relays.0.nodes.replacements();
        if height < expected {
            return match known.chain == chain {
                // It was delivered by a replay already.
                true => EventAction::Drop,
                false => EventAction::End { key: known.key },
            };
        }
        (known.next, known.chain) = (Some(height + 1), chain);
        if known.kind == EventKind::NewBlock {
            self.relays.note_empty_updates(rest);
        }
        EventAction::Pass
    }

    fn on_cancelled(&mut self, id: &str, reason: &str, text: Bytes) {
        let known = self.subscriptions.iter().find(|known| known.id == id);
        let known = known.map(|known| known.key);
        // Subscriptions outlive the node.
        if known.is_some() && reason == EXITED {
            return self.on_break("the node stops");
        }
        let ended = known.and_then(|key| self.subscriptions.remove(key));
        if ended.is_none_or(|ended| ended.state != SubscriptionState::Leaving) {
            self.ready.push_back(RelayEvent::Text(text));
        }
    }

    fn on_answer(&mut self, id: Option<&str>, error: Option<&str>, text: Bytes) {
        let Some(answered) = self.answered(id) else {
            return self.ready.push_back(RelayEvent::Text(text));
        };
        let Pending {
            tag,
            purpose,
            charge,
            ..
        } = answered;
        match (purpose, error) {
            (Purpose::Resubscribe { key }, error) => {
                return self.on_subscribed_again(key, error);
            }
            (Purpose::Leave { key }, _) => {
                self.subscriptions.remove(key);
                return;
            }
            (Purpose::Subscribe { query, request }, None) => {
                let nodes = &self.relays.0.nodes;
                self.subscriptions.add(Subscription {
                    since: nodes.height(self.node),
                    chain: nodes.replacements(),
                    _charge: charge,
                    ..Subscription::new(id.unwrap_or_default(), query, request)
                });
            }
            (Purpose::Unsubscribe { query }, None) => self.subscriptions.end(&query),
            _ => {}
        }
        self.ready.push_back(match tag {
            Some(tag) => RelayEvent::Answer { tag, text },
            None => RelayEvent::Text(text),
        });
    }

    /// The request that an answer belongs to. The node answers in order, so those before it get
    /// none any more.
    fn answered(&mut self, id: Option<&str>) -> Option<Pending> {
        let mut pending = self.pending.iter();
        let fits = |pending: &Pending| match (&pending.id, id) {
            (Some(expected), Some(id)) => expected.as_str() == id,
            (None, None) => true,
            _ => false,
        };
        let place = match pending.position(fits) {
            Some(place) => place,
            // What the node cannot carry out it answers without an id, or with -1.
            None if id.is_none_or(|id| id == "-1") && !self.pending.is_empty() => 0,
            None => return None,
        };
        for skipped in self.pending.drain(..place) {
            if skipped.tag.is_some() {
                self.ready
                    .push_back(skipped.failed("the node did not answer"));
            }
        }
        self.pending.pop_front()
    }
}
