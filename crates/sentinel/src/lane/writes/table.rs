//! The table of writes, by where they are in it.

use slab::Slab;

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
