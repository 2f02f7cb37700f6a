//! From events to blocks.

use pacing::Nanos;

/// A block as far as its events have come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gathered {
    pub(super) height: u64,
    /// When its first event came: its transactions were committed then, all of them.
    pub(super) observed: Nanos,
    pub(super) ids: Vec<[u8; 32]>,
}

/// Puts the events of one stream together.
///
/// A server tells a block's events one after the other and the blocks in their order, so an event of
/// a higher block completes the one before, and heights that are passed over were empty: as long as
/// the stream is not broken.
#[derive(Debug, Default)]
pub(super) struct Gatherer {
    /// The height to deliver next, once one is known.
    next: Option<u64>,
    open: Option<Gathered>,
}

impl Gatherer {
    /// Takes an event; gives the blocks that it completes, in order.
    pub(super) fn event(&mut self, height: u64, id: [u8; 32], now: Nanos) -> Vec<Gathered> {
        if self.next.is_some_and(|next| height < next) {
            // Told of by a block that was looked up already.
            return Vec::new();
        }
        let mut complete = Vec::new();
        match &mut self.open {
            Some(open) if open.height == height => {
                open.ids.push(id);
                return complete;
            }
            // Out of order: no server does that; the block it belongs to is complete for us.
            Some(open) if open.height > height => return complete,
            _ => {}
        }
        complete.extend(self.open.take());
        let passed_over = complete.last().map(|open| open.height + 1).or(self.next);
        for empty in passed_over.unwrap_or(height)..height {
            complete.push(Gathered {
                height: empty,
                observed: now,
                ids: Vec::new(),
            });
        }
        self.next = Some(height);
        self.open = Some(Gathered {
            height,
            observed: now,
            ids: vec![id],
        });
        complete
    }

    /// The height to look up when events may be missing; `None` while no height is known.
    pub(super) const fn next(&self) -> Option<u64> {
        self.next
    }

    /// Begins at this height, if none is known yet.
    pub(super) fn begin(&mut self, height: u64) {
        self.next.get_or_insert(height);
    }

    /// Takes a block that was looked up, which is whole: the one at [`Gatherer::next`].
    pub(super) fn looked_up(&mut self, height: u64, ids: Vec<[u8; 32]>, now: Nanos) -> Gathered {
        let open = self.open.take_if(|open| open.height == height);
        self.next = Some(height + 1);
        Gathered {
            height,
            observed: open.map_or(now, |open| open.observed),
            ids,
        }
    }

    /// Takes the block whose events are coming as it is: nothing says that events of it are missing.
    pub(super) fn close(&mut self) -> Option<Gathered> {
        let open = self.open.take()?;
        self.next = Some(open.height + 1);
        Some(open)
    }

    /// When the block whose events are coming was first heard of.
    pub(super) fn open_since(&self) -> Option<Nanos> {
        self.open.as_ref().map(|open| open.observed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(now: u64) -> Nanos {
        Nanos::new(now)
    }

    fn block(height: u64, observed: u64, ids: &[u8]) -> Gathered {
        Gathered {
            height,
            observed: at(observed),
            ids: ids.iter().map(|id| [*id; 32]).collect(),
        }
    }

    #[test]
    fn a_higher_block_completes_the_one_before_and_the_empty_ones_between() {
        let mut gatherer = Gatherer::default();
        assert_eq!(gatherer.event(7, [1; 32], at(10)), []);
        assert_eq!(gatherer.event(7, [2; 32], at(11)), []);
        assert_eq!(gatherer.open_since(), Some(at(10)));
        assert_eq!(
            gatherer.event(10, [3; 32], at(20)),
            [block(7, 10, &[1, 2]), block(8, 20, &[]), block(9, 20, &[])]
        );
        assert_eq!(gatherer.next(), Some(10));
    }

    #[test]
    fn what_was_lost_is_looked_up_and_told_once() {
        let mut gatherer = Gatherer::default();
        gatherer.event(4, [1; 32], at(1));
        // The stream broke; block 4 had three transactions and block 5 was never told of.
        let found = gatherer.looked_up(4, vec![[1; 32], [2; 32], [3; 32]], at(9));
        assert_eq!(found, block(4, 1, &[1, 2, 3]));
        let found = gatherer.looked_up(5, vec![[4; 32]], at(9));
        assert_eq!(found, block(5, 9, &[4]));
        // The new stream still tells the end of block 5.
        assert_eq!(gatherer.event(5, [4; 32], at(10)), []);
        assert_eq!(gatherer.event(6, [5; 32], at(11)), []);
        assert_eq!(gatherer.event(7, [6; 32], at(12)), [block(6, 11, &[5])]);
    }

    #[test]
    fn blocks_before_the_first_event_are_told_when_the_height_was_known() {
        let mut gatherer = Gatherer::default();
        gatherer.begin(3);
        gatherer.begin(9);
        assert_eq!(gatherer.event(4, [1; 32], at(5)), [block(3, 5, &[])]);
    }
}
