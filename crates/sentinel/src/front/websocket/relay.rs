//! The session's own way to the node.

use std::task::{Context, Poll};

use bytes::Bytes;

use super::{End, Session};
use crate::front::backend::{Backend, RelayLink};
use crate::front::socket::Stream;
use crate::jsonrpc::{KeptId, classify_message};
use crate::metrics::{MethodClass, OutcomeLabel};
use crate::refusal::Refusal;
use crate::upstream::RelayEvent;
use wire::ws::{close_code, write_text};

/// A relay, made for the first message that needs it, and what it owes.
#[derive(Debug)]
pub(super) struct Way<R> {
    relay: Option<Box<R>>,
    /// Messages without an answer.
    open: usize,
}

impl<R> Default for Way<R> {
    fn default() -> Self {
        Self {
            relay: None,
            open: 0,
        }
    }
}

impl<R> Way<R> {
    /// Messages without an answer.
    pub(super) const fn open(&self) -> usize {
        self.open
    }
}

/// Tags are the classes of messages: that is all a session has to know of one that is answered.
const fn tag_of(class: MethodClass) -> u64 {
    class as u64
}

fn class_of(tag: u64) -> MethodClass {
    let class = usize::try_from(tag).ok();
    let class = class.and_then(|place| MethodClass::ALL.get(place).copied());
    class.unwrap_or(MethodClass::Other)
}

impl<B: Backend, IO: Stream> Session<B, IO> {
    /// Whether the relay takes another message. There is always room in one that is not made yet.
    pub(super) fn way_has_room(&self) -> bool {
        self.way.relay.as_ref().is_none_or(|relay| relay.has_room())
    }

    /// Sends a message to the node.
    pub(super) fn send(&mut self, text: &Bytes, class: MethodClass) -> Result<(), Refusal> {
        let relay = match self.way.relay.take() {
            Some(relay) => relay,
            None => Box::new(self.front.backend.relay(self.client)),
        };
        let relay = self.way.relay.insert(relay);
        let what = classify_message(text, &self.front.json_limits)?;
        relay.send(text.clone(), &what, tag_of(class))?;
        self.way.open += 1;
        Ok(())
    }

    /// Takes what came from the node, as long as the client keeps up: whether anything did.
    pub(super) fn take_relayed(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        let most = self.front.config.ws.out_bytes / 2;
        let mut progress = false;
        while self.socket.output.len() <= most
            && let Some(relay) = &mut self.way.relay
            && let Poll::Ready(event) = relay.poll_event(context)
        {
            progress = true;
            match event {
                RelayEvent::Text(text) | RelayEvent::SubscriptionEnded(text) => {
                    write_text(self.socket.output.tail(), &text);
                }
                RelayEvent::Answer { tag, text } => {
                    write_text(self.socket.output.tail(), &text);
                    self.answered(class_of(tag), OutcomeLabel::Forwarded);
                }
                RelayEvent::Failed { tag, id, refusal } => {
                    self.refuse(id.as_ref().map(KeptId::as_str), &refusal);
                    if let Some(tag) = tag {
                        self.answered(class_of(tag), OutcomeLabel::Lost);
                    }
                }
                RelayEvent::Closed => {
                    return Err(End::Say(close_code::GOING_AWAY, String::new()));
                }
            }
        }
        Ok(progress)
    }

    fn answered(&mut self, class: MethodClass, outcome: OutcomeLabel) {
        self.way.open = self.way.open.saturating_sub(1);
        if class.is_write() {
            self.count_write(class, outcome);
            self.turn_is_answered();
        } else {
            self.count_read(class, outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_tells_the_class() {
        for class in MethodClass::ALL {
            assert_eq!(class_of(tag_of(class)), class);
        }
        assert_eq!(class_of(u64::MAX), MethodClass::Other);
    }
}
