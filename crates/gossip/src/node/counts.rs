//! What a node has done.

/// Counters since the node's beginning.
///
/// Laws: `received` + the node's own that it saw = `first_seen` + `duplicates`; `queued` =
/// `messages_written` + `dropped` + `filtered` + `lost` + what still waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Messages given to [`super::Node::publish`].
    pub offered: u64,
    /// Messages of them for which there was no peer.
    pub unroutable: u64,
    /// Messages put into peers' queues, one for each peer.
    pub queued: u64,
    /// Parcels handed out in writes, messages and control parcels.
    pub parcels_written: u64,
    /// Parcels of those that carry a message.
    pub messages_written: u64,
    /// Writes handed out.
    pub writes: u64,
    /// Bytes handed out.
    pub bytes_written: u64,
    /// Parcels read.
    pub parcels_read: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes of the messages read.
    pub payload_read: u64,
    /// Messages read, seen before or not.
    pub received: u64,
    /// Messages seen for the first time, the node's own broadcasts among them.
    pub first_seen: u64,
    /// Messages read that had been seen before.
    pub duplicates: u64,
    /// Messages that a full queue gave up.
    pub dropped: u64,
    /// Queued messages that were not sent because the peer has them.
    pub filtered: u64,
    /// Messages that waited for a peer when its link closed.
    pub lost: u64,
    /// Identifiers of messages forgotten before their time, because more came than are remembered.
    pub forgotten: u64,
    /// Announced or requested messages that there was no room to ask for, or that were gone.
    pub unserved: u64,
    /// Connections that the node closed before a handshake, or refused.
    pub refused: u64,
    /// Peer requests that came too early.
    pub early_requests: u64,
}

impl Counts {
    /// Both together: of two nodes.
    pub fn plus(&self, other: &Self) -> Self {
        self.combined(other, |one, two| one + two)
    }

    /// What came since an earlier count of the same node or nodes.
    pub fn minus(&self, earlier: &Self) -> Self {
        self.combined(earlier, u64::saturating_sub)
    }

    fn combined(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            offered: combine(self.offered, other.offered),
            unroutable: combine(self.unroutable, other.unroutable),
            queued: combine(self.queued, other.queued),
            parcels_written: combine(self.parcels_written, other.parcels_written),
            messages_written: combine(self.messages_written, other.messages_written),
            writes: combine(self.writes, other.writes),
            bytes_written: combine(self.bytes_written, other.bytes_written),
            parcels_read: combine(self.parcels_read, other.parcels_read),
            bytes_read: combine(self.bytes_read, other.bytes_read),
            payload_read: combine(self.payload_read, other.payload_read),
            received: combine(self.received, other.received),
            first_seen: combine(self.first_seen, other.first_seen),
            duplicates: combine(self.duplicates, other.duplicates),
            dropped: combine(self.dropped, other.dropped),
            filtered: combine(self.filtered, other.filtered),
            lost: combine(self.lost, other.lost),
            forgotten: combine(self.forgotten, other.forgotten),
            unserved: combine(self.unserved, other.unserved),
            refused: combine(self.refused, other.refused),
            early_requests: combine(self.early_requests, other.early_requests),
        }
    }
}
