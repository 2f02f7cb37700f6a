//! What a node has done.

pacing::counters! {
    /// Counters since the node's beginning.
    ///
    /// Laws: `received` + the node's own that it saw = `first_seen` + `duplicates`; `queued` =
    /// `messages_written` + `dropped` + `filtered` + `lost` + what still waits.
    pub struct Counts {
        /// Messages given to [`super::Node::publish`].
        offered,
        /// Messages of them for which there was no peer.
        unroutable,
        /// Messages put into peers' queues, one for each peer.
        queued,
        /// Parcels handed out in writes, messages and control parcels.
        parcels_written,
        /// Parcels of those that carry a message.
        messages_written,
        /// Writes handed out.
        writes,
        /// Bytes handed out.
        bytes_written,
        /// Parcels read.
        parcels_read,
        /// Bytes read.
        bytes_read,
        /// Bytes of the messages read.
        payload_read,
        /// Messages read, seen before or not.
        received,
        /// Messages seen for the first time, the node's own broadcasts among them.
        first_seen,
        /// Messages read that had been seen before.
        duplicates,
        /// Messages that a full queue gave up.
        dropped,
        /// Queued messages that were not sent because the peer has them.
        filtered,
        /// Messages that waited for a peer when its link closed.
        lost,
        /// Identifiers of messages forgotten before their time, because more came than are remembered.
        forgotten,
        /// Announced or requested messages that there was no room to ask for, or that were gone.
        unserved,
        /// Connections that the node closed before a handshake, or refused.
        refused,
        /// Peer requests that came too early.
        early_requests,
    }
}
