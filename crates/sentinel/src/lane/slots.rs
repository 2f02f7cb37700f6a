//! Values in the order in which they came, each with a number of its own.

use std::collections::VecDeque;

/// A queue whose values can be taken out anywhere by their numbers. Numbers count up without gaps,
/// so a value is found by its distance from the oldest. The place of a value that was taken out is
/// freed when everything before it is gone.
#[derive(Debug)]
pub(super) struct Slots<T> {
    /// The number of the first slot.
    first: u64,
    /// The first of them is never empty.
    slots: VecDeque<Option<T>>,
    filled: usize,
}

impl<T> Slots<T> {
    pub(super) const fn new() -> Self {
        Self {
            first: 1,
            slots: VecDeque::new(),
            filled: 0,
        }
    }

    /// The number that the next value gets.
    pub(super) fn next_number(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    pub(super) fn push(&mut self, value: T) {
        self.slots.push_back(Some(value));
        self.filled += 1;
    }

    /// The value with this number; none if it was taken before or never existed.
    pub(super) fn take(&mut self, number: u64) -> Option<T> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let value = self.slots.get_mut(place)?.take()?;
        self.filled -= 1;
        while let Some(None) = self.slots.front() {
            self.slots.pop_front();
            self.first += 1;
        }
        Some(value)
    }

    pub(super) fn oldest(&self) -> Option<&T> {
        self.slots.front().and_then(Option::as_ref)
    }

    /// Those that were not taken out, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    /// Values that were not taken out.
    pub(super) const fn len(&self) -> usize {
        self.filled
    }

    /// Takes everything out, the oldest first. Numbers go on counting.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.first = self.next_number();
        self.filled = 0;
        self.slots.drain(..).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_number_in_any_order_and_once() {
        let mut slots = Slots::new();
        for value in ["a", "b", "c", "d"] {
            slots.push(value);
        }
        assert_eq!(slots.take(2), Some("b"));
        assert_eq!(slots.take(2), None);
        assert_eq!((slots.oldest(), slots.len()), (Some(&"a"), 3));
        assert_eq!(slots.take(1), Some("a"));
        // The places of both are free; numbers do not change.
        assert_eq!((slots.oldest(), slots.slots.len()), (Some(&"c"), 2));
        assert_eq!(slots.take(4), Some("d"));
        for unknown in [0, 1, 5, u64::MAX] {
            assert_eq!(slots.take(unknown), None);
        }
        assert_eq!(slots.take(3), Some("c"));
        assert_eq!((slots.len(), slots.slots.len()), (0, 0));
        assert_eq!(slots.oldest(), None);
    }

    #[test]
    fn draining_keeps_the_order_and_the_numbers() {
        let mut slots = Slots::new();
        slots.push(10);
        slots.push(20);
        slots.push(30);
        slots.take(2);
        assert_eq!(slots.drain().collect::<Vec<_>>(), [10, 30]);
        assert_eq!((slots.len(), slots.next_number()), (0, 4));
        assert_eq!(slots.take(3), None);
        slots.push(40);
        assert_eq!(slots.take(4), Some(40));
    }
}
