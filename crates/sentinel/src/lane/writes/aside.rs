//! Writes that have left their queues and cannot be sent yet, or not any more.
//!
//! They are before all that waits in the queues, where there are shares. So a line of which one waits here takes
//! nothing more from its queue, a client has a share of the places here, and those that it takes beyond it (what was
//! under way comes back at once when a connection breaks) leave the places of the others free.

use std::collections::HashMap;

use fairq::ClientKey;
use hashbrown::DefaultHashBuilder;

/// What the fair queue is to hold, or to release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) client: ClientKey,
    /// All of the client if none is given.
    pub(crate) line: Option<u64>,
    pub(crate) is_held: bool,
}

/// How many wait here, by client.
#[derive(Debug, Default)]
pub(super) struct Aside {
    of_clients: HashMap<ClientKey, usize, DefaultHashBuilder>,
    /// Of each client its share at most.
    counted: usize,
}

impl Aside {
    /// Whether what comes from the queues may wait here.
    pub(super) const fn has_room(&self) -> bool {
        self.counted < MOST
    }

    /// One more waits: its client is held once it has its share.
    pub(super) fn add(&mut self, client: ClientKey) -> Option<Hold> {
        let count = self.of_clients.entry(client).or_default();
        *count += 1;
        self.counted += usize::from(*count <= SHARE);
        (*count == SHARE).then_some(Hold {
            client,
            line: None,
            is_held: true,
        })
    }

    /// One of a client waits no more.
    pub(super) fn take(&mut self, client: ClientKey) -> Option<Hold> {
        let count = self.of_clients.get_mut(&client)?;
        *count -= 1;
        let left = *count;
        if left == 0 {
            self.of_clients.remove(&client);
        }
        self.counted -= usize::from(left < SHARE);
        (left == SHARE - 1).then_some(Hold {
            client,
            line: None,
            is_held: false,
        })
    }
}

/// As many as may be under way by default.
const MOST: usize = 512;
/// A sixteenth.
const SHARE: usize = MOST / 16;
