//! What a node counts.

use serde::{Deserialize, Serialize};

pacing::counters! {
    /// What a node counts: of one second, or of a whole run. Its names are columns of `series.csv`.
    #[derive(Serialize, Deserialize)]
    #[serde(default)]
    pub(crate) struct Counters {
        /// Transactions that this node, as the generator, has offered to the mesh.
        offered,
        /// Messages that this node made: of transactions, periodic ones, requests and answers.
        made,
        /// Of those, such as every node relays.
        made_for_all,
        /// Of those, requests for missing messages.
        requests,
        /// Of those, answers to a peer.
        answers,
        /// Messages of the application seen for the first time.
        first_seen,
        /// Of those, such as every node relays.
        first_seen_for_all,
        /// Messages of the application received again.
        duplicates,
        /// Messages whose type the mix does not have.
        unknown,
        /// Transactions seen for the first time (TPS).
        transactions,
        /// Entries seen for the first time (EPS).
        entries,
        /// Parcels written, whole.
        parcels_out,
        /// Write calls that a socket took something of.
        writes,
        /// Bytes written.
        bytes_out,
        /// Parcels read.
        parcels_in,
        /// Read calls that gave something.
        reads,
        /// Bytes read.
        bytes_in,
        /// Of those, payload of the application's messages.
        payload_in,
        /// Messages of the application read, whether seen before or not.
        messages_in,
        /// Messages put into queues to peers.
        queued_in,
        /// Of those, written.
        messages_out,
        /// Parcels dropped at full queues to peers: the older half of a queue each time.
        dropped_full,
        /// Parcels dropped since their link broke before they were written.
        dropped_link,
        /// Messages made for a peer when there was none.
        dropped_no_peer,
        /// Parcels not sent because the resend filter knew that the peer has them.
        filtered,
        /// Links that ended without being asked to.
        broken_links,
        /// Connections refused or closed: too many, from one address, of a wrong network, malformed.
        refused,
        /// CPU time of the process, in nanoseconds.
        cpu_ns,
        /// Time that the process was ready to run and waited for a CPU, in nanoseconds.
        wait_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_and_a_sum_give_the_whole_again() {
        let early = Counters {
            reads: 2,
            ..Counters::default()
        };
        let late = Counters {
            reads: 5,
            entries: 1,
            ..Counters::default()
        };
        let mut sum = early;
        sum += late.since(&early);
        assert_eq!(sum, late);
        assert_eq!(Counters::NAMES.len(), late.values().len());
    }
}
