//! The session's own connection to the node.

use std::task::{Context, Poll};

use fairq::ClientKey;

use crate::front::Shared;
use crate::front::backend::Backend;
use crate::metrics::MethodClass;
use crate::refusal::Refusal;
use crate::upstream::{RelayEvent, RelayLink, RelayMessage};

/// A relay, made for the first message that needs it, and how many answers it owes.
#[derive(Debug)]
pub(super) struct NodeLink<R> {
    relay: Option<Box<R>>,
    /// Messages without an answer.
    unanswered: usize,
}

impl<R: RelayLink> NodeLink<R> {
    pub(super) const fn new() -> Self {
        Self {
            relay: None,
            unanswered: 0,
        }
    }

    /// Whether anything was ever sent, so that something may come.
    pub(super) const fn is_open(&self) -> bool {
        self.relay.is_some()
    }

    /// Messages without an answer.
    pub(super) const fn unanswered(&self) -> usize {
        self.unanswered
    }

    /// Whether another message would be taken. There is always room in a relay that is not made yet.
    pub(super) fn has_room(&self) -> bool {
        self.relay.as_ref().is_none_or(|relay| relay.has_room())
    }

    /// Sends a message of this client to the node.
    ///
    /// # Errors
    /// It was not taken.
    pub(super) fn send<B: Backend<Relay = R>>(
        &mut self,
        front: &Shared<B>,
        client: ClientKey,
        message: &RelayMessage,
        class: MethodClass,
    ) -> Result<(), Refusal> {
        let make = || Box::new(front.backend.relay(client));
        let relay = self.relay.get_or_insert_with(make);
        relay.send(message, tag_of(class))?;
        self.unanswered += 1;
        Ok(())
    }

    /// What came from the node.
    pub(super) fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<RelayEvent> {
        match &mut self.relay {
            Some(relay) => relay.poll_event(context),
            None => Poll::Pending,
        }
    }

    /// A message was answered: what was asked for.
    pub(super) fn answered(&mut self, tag: u64) -> MethodClass {
        self.unanswered = self.unanswered.saturating_sub(1);
        class_of(tag)
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
