//! Values in the order in which they came, each with a number of its own.

use std::collections::VecDeque;

/// A queue whose values can be taken out anywhere by their numbers. Numbers count up without gaps,
/// so a value is found by its distance from the oldest. The place of a value that was taken out is
/// freed when everything before it is gone.
#[derive(Debug)]
pub(super) struct Numbered<T> {
    /// The number of the first place.
    first: u64,
    /// The first of them is never empty.
    places: VecDeque<Option<T>>,
    filled: usize,
}

impl<T> Numbered<T> {
    pub(super) const fn new() -> Self {
        Self {
            first: 1,
            places: VecDeque::new(),
            filled: 0,
        }
    }

    /// The number that the next value gets.
    pub(super) fn next_number(&self) -> u64 {
        self.first + self.places.len() as u64
    }

    pub(super) fn push(&mut self, value: T) {
        self.places.push_back(Some(value));
        self.filled += 1;
    }

    /// The value with this number; none if it was taken before or never existed.
    pub(super) fn take(&mut self, number: u64) -> Option<T> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let value = self.places.get_mut(place)?.take()?;
        self.filled -= 1;
        while let Some(None) = self.places.front() {
            self.places.pop_front();
            self.first += 1;
        }
        Some(value)
    }

    pub(super) fn take_oldest(&mut self) -> Option<T> {
        self.oldest()?;
        self.take(self.first)
    }

    pub(super) fn oldest(&self) -> Option<&T> {
        self.places.front().and_then(Option::as_ref)
    }

    /// Values that were not taken out.
    pub(super) const fn len(&self) -> usize {
        self.filled
    }

    /// Takes everything out, the oldest first. Numbers go on counting.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.first = self.next_number();
        self.filled = 0;
        self.places.drain(..).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_number_in_any_order_and_once() {
        let mut values = Numbered::new();
        for value in ["a", "b", "c", "d"] {
            values.push(value);
        }
        assert_eq!(values.take(2), Some("b"));
        assert_eq!(values.take(2), None);
        assert_eq!((values.oldest(), values.len()), (Some(&"a"), 3));
        assert_eq!(values.take(1), Some("a"));
        // The places of both are free; numbers do not change.
        assert_eq!((values.oldest(), values.places.len()), (Some(&"c"), 2));
        assert_eq!(values.take(4), Some("d"));
        for unknown in [0, 1, 5, u64::MAX] {
            assert_eq!(values.take(unknown), None);
        }
        assert_eq!(values.take(3), Some("c"));
        assert_eq!((values.len(), values.places.len()), (0, 0));
        assert_eq!(values.oldest(), None);
    }

    #[test]
    fn draining_keeps_the_order_and_the_numbers() {
        let mut values = Numbered::new();
        values.push(10);
        values.push(20);
        values.push(30);
        values.take(2);
        assert_eq!(values.drain().collect::<Vec<_>>(), [10, 30]);
        assert_eq!((values.len(), values.next_number()), (0, 4));
        assert_eq!(values.take(3), None);
        values.push(40);
        assert_eq!(values.take(4), Some(40));
    }
}
