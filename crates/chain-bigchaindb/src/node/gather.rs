//! From events to blocks.

use std::collections::VecDeque;

/// What the events of one stream say of a block.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It has these transactions and no others.
    Whole(Vec<[u8; 32]>),
    /// Its events are coming.
    Begun,
    /// Events of it may be missing.
    Unknown,
}

/// Puts the events of one stream together.
///
/// A server tells a block's events one after the other and the blocks in their order, so an event of
/// a higher block completes the one before, and heights that are passed over were empty: as long as
/// the stream is not broken, and from the first block on that was committed after it was opened.
#[derive(Debug, Default)]
pub(super) struct Gatherer {
    /// The first block all of whose events came on this stream, once that is known.
    whole_from: Option<u64>,
    /// Blocks below this height are not asked for any more.
    next: u64,
    /// Heights rise; the events of the last one are still coming.
    blocks: VecDeque<(u64, Vec<[u8; 32]>)>,
    /// Ids in `blocks`.
    ids: usize,
}

impl Gatherer {
    /// Takes an event.
    pub(super) fn event(&mut self, height: u64, id: [u8; 32]) {
        match self.blocks.back_mut() {
            Some((last, ids)) if *last == height => ids.push(id),
            // Out of order: no server does that. Its block is complete.
            Some((last, _)) if *last > height => return,
            _ if height < self.next => return,
            _ => self.blocks.push_back((height, vec![id])),
        }
        self.ids += 1;
    }

    /// What is known of a block. Nothing is asked again of a lower one.
    pub(super) fn told(&mut self, height: u64) -> Told {
        self.forget_to(height.saturating_sub(1));
        if self.whole_from.is_none_or(|from| height < from) {
            return Told::Unknown;
        }
        match self.blocks.front() {
            None => Told::Unknown,
            Some((at, _)) if *at > height => Told::Whole(Vec::new()),
            Some(_) if self.blocks.len() == 1 => Told::Begun,
            Some(_) => Told::Whole(self.close()),
        }
    }

    /// Gives the first block as it is.
    pub(super) fn close(&mut self) -> Vec<[u8; 32]> {
        let (_, ids) = self.blocks.pop_front().unwrap_or_default();
        self.ids -= ids.len();
        ids
    }

    /// Takes no more events of this block and of lower ones.
    pub(super) fn forget_to(&mut self, height: u64) {
        self.next = height + 1;
        while self.blocks.front().is_some_and(|(at, _)| *at <= height) {
            self.close();
        }
    }

    /// Everything above this height was committed after the stream was opened.
    pub(super) fn opened_at(&mut self, latest: u64) {
        self.whole_from.get_or_insert(latest + 1);
    }

    /// Whether it is known which blocks are whole.
    pub(super) const fn is_whole(&self) -> bool {
        self.whole_from.is_some()
    }

    /// The stream broke.
    pub(super) fn clear(&mut self) {
        *self = Self {
            next: self.next,
            ..Self::default()
        };
    }

    /// How many ids wait.
    pub(super) const fn ids(&self) -> usize {
        self.ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gatherer(latest: u64, events: &[(u64, u8)]) -> Gatherer {
        let mut gatherer = Gatherer::default();
        gatherer.opened_at(latest);
        for (height, id) in events {
            gatherer.event(*height, [*id; 32]);
        }
        gatherer
    }

    fn whole(ids: &[u8]) -> Told {
        Told::Whole(ids.iter().map(|id| [*id; 32]).collect())
    }

    #[test]
    fn a_higher_block_completes_the_one_before_and_the_empty_ones_between() {
        let mut gatherer = gatherer(6, &[(7, 1), (7, 2)]);
        assert_eq!(gatherer.told(7), Told::Begun);
        gatherer.event(10, [3; 32]);
        let told = [7, 8, 9, 10, 11].map(|height| gatherer.told(height));
        let unknown = Told::Unknown;
        assert_eq!(
            told,
            [whole(&[1, 2]), whole(&[]), whole(&[]), Told::Begun, unknown]
        );
        assert_eq!(gatherer.ids(), 0);
    }

    #[test]
    fn blocks_of_a_stream_that_opened_in_them_or_broke_are_unknown() {
        let mut gatherer = gatherer(4, &[(4, 1), (5, 2), (6, 3)]);
        assert_eq!(gatherer.told(4), Told::Unknown);
        assert_eq!(gatherer.told(5), whole(&[2]));
        gatherer.clear();
        gatherer.event(6, [4; 32]);
        gatherer.event(7, [5; 32]);
        assert_eq!(gatherer.told(6), Told::Unknown);
    }

    #[test]
    fn a_block_that_was_given_is_not_begun_again_by_its_late_events() {
        let mut gatherer = gatherer(0, &[(3, 1)]);
        assert_eq!(gatherer.told(3), Told::Begun);
        assert_eq!(gatherer.close(), [[1; 32]]);
        gatherer.forget_to(3);
        gatherer.event(3, [2; 32]);
        assert_eq!((gatherer.told(4), gatherer.ids()), (Told::Unknown, 0));
    }
}
