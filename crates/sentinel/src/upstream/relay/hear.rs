//! What a relay does with the node's words.

use bytes::Bytes;

use super::replay::Replay;
use super::spoken::{EXITED, Spoken, height};
use super::subscriptions::{EventKind, State};
use super::{Pending, Purpose, Relay, RelayEvent};

/// What becomes of an event.
enum Fate {
    Pass,
    Drop,
    /// Blocks up to this height are missing before it.
    Gap {
        key: u64,
        to: u64,
    },
}

impl Relay {
    /// The node has said something.
    pub(super) fn on_message(&mut self, text: Bytes) {
        self.prove();
        match Spoken::read(&text) {
            Spoken::Event { id, query, rest } => {
                let fate = self.judge_event(id, &query, rest);
                match fate {
                    Fate::Pass => self.ready.push_back(RelayEvent::Text(text)),
                    Fate::Drop => {}
                    Fate::Gap { key, to } => {
                        self.start_replay(Replay {
                            to,
                            only: Some(key),
                            held: Some(text),
                        });
                    }
                }
            }
            Spoken::Cancelled { id, reason } => self.on_cancelled(id, &reason, &text),
            Spoken::Answer { id, error } => {
                let (id, error) = (id.map(str::to_owned), error);
                self.on_answer(id.as_deref(), error, text);
            }
            // The client would have got it from the node, too.
            Spoken::Garbage => self.ready.push_back(RelayEvent::Text(text)),
        }
    }

    fn judge_event(&mut self, id: &str, query: &str, rest: &str) -> Fate {
        let Some(known) = self.subscriptions.of_event(id, query) else {
            // Its confirmation is still to come.
            return Fate::Pass;
        };
        match known.state {
            State::Leaving => return Fate::Drop,
            // Events may overtake the confirmation.
            State::Live | State::Lost => known.state = State::Live,
        }
        if !known.kind.is_per_block() {
            return Fate::Pass;
        }
        let Some(height) = height(rest) else {
            return Fate::Pass;
        };
        // Before the first break the first event may have any height.
        let expected = known.next.unwrap_or(height);
        if height > expected {
            let (key, to) = (known.key, height - 1);
            return Fate::Gap { key, to };
        }
        if height < expected {
            return Fate::Drop;
        }
        known.next = Some(height + 1);
        if known.kind == EventKind::NewBlock {
            self.relays.learn(rest);
        }
        Fate::Pass
    }

    fn on_cancelled(&mut self, id: &str, reason: &str, text: &Bytes) {
        let mut named = self.subscriptions.iter().filter(|known| known.id == id);
        let (known, others) = (
            named.next().map(|known| (known.key, known.state)),
            named.count(),
        );
        match known {
            // Subscriptions outlive the node.
            Some(_) if reason == EXITED => self.on_break("the node stops"),
            Some((key, State::Leaving)) => drop(self.subscriptions.remove(key)),
            known => {
                // With several of one id the node does not say which: then all are kept.
                if let Some((key, _)) = known.filter(|_| others == 0) {
                    self.subscriptions.remove(key);
                }
                self.ready.push_back(RelayEvent::Text(text.clone()));
            }
        }
    }

    fn on_answer(&mut self, id: Option<&str>, error: Option<String>, text: Bytes) {
        let Some(Pending { tag, purpose, .. }) = self.answered(id) else {
            return self.ready.push_back(RelayEvent::Text(text));
        };
        match (purpose, &error) {
            (Purpose::Resubscribe { key }, error) => {
                return self.on_subscribed_again(key, error.as_deref());
            }
            (Purpose::Leave { key }, _) => {
                self.subscriptions.remove(key);
                return;
            }
            (
                Purpose::Subscribe {
                    query: Some(query),
                    request,
                },
                None,
            ) => {
                let since = self.relays.0.nodes.height(self.node);
                let id = id.unwrap_or_default();
                self.subscriptions.add(id, query, request, since);
            }
            (Purpose::Unsubscribe { query: Some(query) }, None) => self.subscriptions.end(&query),
            (Purpose::UnsubscribeAll, None) => self.subscriptions.end_all(),
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
