//! The states of a write that has left its client's queue, what moves it from one to another, and the table of such writes.

use slab::Slab;

/// Where a write is between its client's queue and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteState {
    /// Taken from its client's queue, and not sent yet.
    New,
    /// To be sent, before anything from the queues.
    Ready,
    /// Waits for earlier ones of its line, which are over another connection or not known of.
    Parked,
    /// Sent, and not answered.
    UnderWay,
    /// The mempool was full: it is offered again when the node is asked again.
    Refused,
    /// Waits for a block, which counts the sequences before it.
    AwaitsBlock,
    /// Its connection broke while it was under way: the node may have it.
    FateUnknown,
    /// The node has it, and its first answer was lost: a block shows whether its check had passed.
    Confirming,
    /// The node accepted it, and no block has shown it yet. It is kept, as the node may lose it.
    Accepted,
}

/// What happens to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A connection takes it.
    Sent,
    /// Its line is busy elsewhere.
    LineBusy,
    /// No connection takes it at the moment, or a block has to make room for one so large.
    NoRoom,
    /// Nothing of its line is under way any more, and no fate in it is open.
    LineFree,
    /// Its connection broke.
    Broke,
    /// The node's mempool is full.
    Full,
    /// The node is asked again after a refusal.
    AskAgain,
    /// Earlier ones of its account have to come first, and are on their way.
    Behind,
    /// Earlier ones of its account have to be in a block first.
    BehindBlock,
    /// A block.
    Block,
    /// Its check passed.
    Passed,
    /// The node has it already, after a first answer that was lost.
    AlreadyThere,
    /// The node may have lost it: it is offered once more.
    OfferAgain,
    /// A block shows it.
    Shown,
    /// The node gave its last answer.
    Answered,
    /// Its deadline is over, its client is gone, or there is no place for it.
    Over,
    /// So many later ones are in blocks that the node must have dropped it, or no block has shown so many that the oldest
    /// are forgotten.
    Overtaken,
}

/// What an event makes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It is in this state now.
    Is(WriteState),
    /// It is over.
    Ends,
    /// This cannot happen in this state.
    Impossible,
}

impl WriteState {
    /// Every state.
    pub(crate) const ALL: [Self; 9] = [
        Self::New,
        Self::Ready,
        Self::Parked,
        Self::UnderWay,
        Self::Refused,
        Self::AwaitsBlock,
        Self::FateUnknown,
        Self::Confirming,
        Self::Accepted,
    ];

    /// What an event makes of a write in this state.
    pub(crate) const fn after(self, event: Event) -> Next {
        match (self, event) {
            // New | Ready => UnderWay | Parked | Ready
            (Self::New | Self::Ready, Event::Sent) => Next::Is(Self::UnderWay),
            (Self::New | Self::Ready, Event::LineBusy) => Next::Is(Self::Parked),
            (Self::New | Self::Ready, Event::NoRoom) => Next::Is(Self::Ready),
            // Parked => Ready
            (Self::Parked, Event::LineFree) => Next::Is(Self::Ready),
            // UnderWay => FateUnknown => Ready
            (Self::UnderWay, Event::Broke) => Next::Is(Self::FateUnknown),
            (Self::FateUnknown, Event::OfferAgain) => Next::Is(Self::Ready),
            // UnderWay => Refused => Ready
            (Self::UnderWay, Event::Full) => Next::Is(Self::Refused),
            (Self::Refused, Event::AskAgain) => Next::Is(Self::Ready),
            // UnderWay => Ready | AwaitsBlock => Ready
            (Self::UnderWay, Event::Behind) => Next::Is(Self::Ready),
            (Self::UnderWay, Event::BehindBlock) => Next::Is(Self::AwaitsBlock),
            (Self::AwaitsBlock, Event::Block) => Next::Is(Self::Ready),
            // UnderWay => Accepted | Confirming
            (Self::UnderWay, Event::Passed) => Next::Is(Self::Accepted),
            (Self::UnderWay, Event::AlreadyThere) => Next::Is(Self::Confirming),
            // Accepted => Ready
            (Self::Accepted, Event::OfferAgain) => Next::Is(Self::Ready),
            // Its answer is on its way.
            (Self::UnderWay, Event::Shown) => Next::Is(Self::UnderWay),
            // UnderWay => the end
            (Self::UnderWay, Event::Answered) => Next::Ends,
            // Accepted => the end
            (Self::Accepted, Event::Answered | Event::Shown | Event::Overtaken) => Next::Ends,
            // What waits => the end
            (
                Self::Ready
                | Self::Parked
                | Self::Refused
                | Self::AwaitsBlock
                | Self::FateUnknown
                | Self::Confirming,
                Event::Shown | Event::Over,
            )
            | (Self::New, Event::Over) => Next::Ends,
            _ => Next::Impossible,
        }
    }
}

/// A write: its number, in the order in which writes left the queues, and its place in the table, which another one
/// takes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WriteId {
    number: u64,
    place: usize,
}

impl WriteId {
    /// None comes before it.
    pub(crate) const FIRST: Self = Self {
        number: 0,
        place: 0,
    };

    /// One in no table.
    #[cfg(test)]
    pub(crate) const fn of(number: u64) -> Self {
        Self { number, place: 0 }
    }
}

/// Entries of writes with their numbers. A place is found without a search, however many there are.
#[derive(Debug)]
pub(super) struct Table<E> {
    places: Slab<(u64, E)>,
    next: u64,
}

impl<E> Default for Table<E> {
    fn default() -> Self {
        Self {
            places: Slab::new(),
            next: 0,
        }
    }
}

impl<E> Table<E> {
    pub(super) fn insert(&mut self, entry: E) -> WriteId {
        let number = self.next;
        self.next += 1;
        let place = self.places.insert((number, entry));
        WriteId { number, place }
    }

    pub(super) fn get(&self, id: WriteId) -> Option<&E> {
        let (number, entry) = self.places.get(id.place)?;
        (*number == id.number).then_some(entry)
    }

    pub(super) fn get_mut(&mut self, id: WriteId) -> Option<&mut E> {
        let (number, entry) = self.places.get_mut(id.place)?;
        (*number == id.number).then_some(entry)
    }

    pub(super) fn remove(&mut self, id: WriteId) -> Option<E> {
        self.get(id)?;
        self.places.try_remove(id.place).map(|(_, entry)| entry)
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// All of them, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (WriteId, &E)> {
        let places = self.places.iter();
        places.map(|(place, (number, entry))| {
            (
                WriteId {
                    number: *number,
                    place,
                },
                entry,
            )
        })
    }

    /// All of them, in the order of their numbers.
    pub(super) fn into_entries(self) -> Vec<E> {
        let mut all: Vec<_> = self.places.into_iter().map(|(_, one)| one).collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, entry)| entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [Event; 17] = [
        Event::Sent,
        Event::LineBusy,
        Event::NoRoom,
        Event::LineFree,
        Event::Broke,
        Event::Full,
        Event::AskAgain,
        Event::Behind,
        Event::BehindBlock,
        Event::Block,
        Event::Passed,
        Event::AlreadyThere,
        Event::OfferAgain,
        Event::Shown,
        Event::Answered,
        Event::Over,
        Event::Overtaken,
    ];

    /// The whole table: a row for each state, a letter for each event, of the state that comes next. `.` is
    /// the end, `-` cannot happen.
    #[test]
    fn every_state_has_an_answer_to_every_event() {
        let letter = |next| match next {
            Next::Impossible => '-',
            Next::Ends => '.',
            Next::Is(WriteState::New) => 'N',
            Next::Is(WriteState::Ready) => 'R',
            Next::Is(WriteState::Parked) => 'P',
            Next::Is(WriteState::UnderWay) => 'U',
            Next::Is(WriteState::Refused) => 'F',
            Next::Is(WriteState::AwaitsBlock) => 'B',
            Next::Is(WriteState::FateUnknown) => '?',
            Next::Is(WriteState::Confirming) => 'C',
            Next::Is(WriteState::Accepted) => 'A',
        };
        let row = |state: WriteState| EVENTS.map(|event| letter(state.after(event)));
        let rows: Vec<String> = (WriteState::ALL.into_iter())
            .map(|state| String::from_iter(row(state)))
            .collect();
        // Sent, LineBusy, NoRoom, LineFree, Broke, Full, AskAgain, Behind, BehindBlock, Block, Passed,
        // AlreadyThere, OfferAgain, Shown, Answered, Over, Overtaken
        let table = [
            "UPR------------.-",
            "UPR----------.-.-",
            "---R---------.-.-",
            "----?F-RB-AC-U.--",
            "------R------.-.-",
            "---------R---.-.-",
            "------------R.-.-",
            "-------------.-.-",
            "------------R..-.",
        ];
        assert_eq!(rows, table);
        // Every state but the first is reached, and each has a way to the end.
        for (place, state) in WriteState::ALL.into_iter().enumerate() {
            let reached = (WriteState::ALL.into_iter()).any(|from| {
                from != state && EVENTS.iter().any(|one| from.after(*one) == Next::Is(state))
            });
            assert_eq!(reached, state != WriteState::New, "{state:?}");
            assert!(table[place].contains('.'), "{state:?}");
        }
    }
}
