//! A rate and a delay of the node's own, and a switch that it shares: what it writes leaves it at the rate, over all its
//! links, and later by the delay. Without any of them the sockets alone limit it.

use std::collections::VecDeque;

use gossip::PeerId;
use gossip::sim::Line;
use pacing::Nanos;

use super::switch::Switch;

/// The writes of a node on their way to its sockets.
pub(super) struct Shaper {
    line: Line,
    switch: Option<Switch>,
    /// When the line has sent the last write to a peer. Both queues are in the order of time, since all writes take
    /// the same line.
    sent: VecDeque<(Nanos, PeerId)>,
    leaving: VecDeque<(Nanos, PeerId, Vec<u8>)>,
    /// Bytes in `leaving`.
    held: usize,
}

/// What the shaper releases.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Released {
    /// The line has sent the last write to this peer: the node may write to it again.
    Writable(PeerId),
    /// The write leaves the node now.
    Write(PeerId, Vec<u8>),
}

impl Shaper {
    /// `None` where nothing is limited.
    pub(super) fn new(
        bits_per_s: Option<u64>,
        delay: Nanos,
        switch: Option<Switch>,
    ) -> Option<Self> {
        let is_limited = bits_per_s.is_some() || !delay.is_zero() || switch.is_some();
        is_limited.then(|| Self {
            line: Line::new(bits_per_s, delay),
            switch,
            sent: VecDeque::new(),
            leaving: VecDeque::new(),
            held: 0,
        })
    }

    /// Takes a write of the node.
    pub(super) fn write(&mut self, now: Nanos, peer: PeerId, bytes: Vec<u8>) {
        // A switch comes first, so that what waits for the node's own line keeps no others from passing it.
        let passes = self.switch.as_ref().map(|switch| switch.pass(bytes.len()));
        let passes = passes.map(|took| took.expect("the program made the file for its nodes"));
        let passed = now.saturating_add(passes.unwrap_or_default());
        let (sent, leaves) = self.line.send(passed, bytes.len());
        self.held += bytes.len();
        self.sent.push_back((sent, peer));
        self.leaving.push_back((leaves, peer, bytes));
    }

    /// When [`Shaper::release`] has something next.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        let leaves = self.leaving.front().map(|(at, ..)| *at);
        let sent = self.sent.front().map(|(at, _)| *at);
        let sent = sent.filter(|_| self.held <= MAX_HELD);
        leaves.into_iter().chain(sent).min()
    }

    /// The next thing that is due by `now`.
    pub(super) fn release(&mut self, now: Nanos) -> Option<Released> {
        if self.leaving.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, peer, bytes) = self.leaving.pop_front()?;
            self.held -= bytes.len();
            return Some(Released::Write(peer, bytes));
        }
        let is_sent = self.sent.front().is_some_and(|(at, _)| *at <= now);
        if is_sent && self.held <= MAX_HELD {
            let (_, peer) = self.sent.pop_front()?;
            return Some(Released::Writable(peer));
        }
        None
    }
}

/// With more bytes on the way the node writes no more: those of 100 ms at 5 Gbit/s.
const MAX_HELD: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const PEERS: [PeerId; 2] = [PeerId(1), PeerId(2)];

    fn at(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    /// Everything that is released up to this millisecond, with the millisecond.
    fn released(shaper: &mut Shaper, until_ms: u64) -> Vec<(u64, Released)> {
        let mut all = Vec::new();
        while let Some(due) = shaper.next_due().filter(|due| *due <= at(until_ms)) {
            let released = shaper.release(due).unwrap();
            all.push((due.as_nanos() / 1_000_000, released));
        }
        all
    }

    #[test]
    fn writes_to_all_peers_share_the_rate_and_each_leaves_later_by_the_delay() {
        // 1,000 bytes take 10 ms.
        let mut shaper = Shaper::new(Some(800_000), at(40), None).unwrap();
        for peer in PEERS {
            shaper.write(at(0), peer, vec![0; 1000]);
        }
        let expected = [
            (10, Released::Writable(PEERS[0])),
            (20, Released::Writable(PEERS[1])),
            (50, Released::Write(PEERS[0], vec![0; 1000])),
            (60, Released::Write(PEERS[1], vec![0; 1000])),
        ];
        assert_eq!(released(&mut shaper, 100), expected);
        assert_eq!(shaper.next_due(), None);
    }

    #[test]
    fn a_delay_alone_lets_a_peer_be_written_to_at_once() {
        let mut shaper = Shaper::new(None, at(40), None).unwrap();
        shaper.write(at(3), PEERS[0], vec![1]);
        let expected = [
            (3, Released::Writable(PEERS[0])),
            (43, Released::Write(PEERS[0], vec![1])),
        ];
        assert_eq!(released(&mut shaper, 100), expected);
    }

    #[test]
    fn what_is_on_the_way_is_bounded() {
        let mut shaper = Shaper::new(None, at(1000), None).unwrap();
        shaper.write(at(0), PEERS[0], vec![0; MAX_HELD + 1]);
        assert_eq!(shaper.release(at(999)), None, "no further write yet");
        let left = released(&mut shaper, 1000);
        assert!(matches!(
            left[..],
            [(1000, Released::Write(..)), (_, Released::Writable(_))]
        ));
    }

    #[test]
    fn without_a_rate_and_a_delay_there_is_no_shaper() {
        assert!(Shaper::new(None, Nanos::ZERO, None).is_none());
    }
}
