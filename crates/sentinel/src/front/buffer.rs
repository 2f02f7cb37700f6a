//! Bytes on their way in or out of one connection, on memory that idle connections do not hold.

use std::cell::RefCell;

/// A buffer that is consumed at its front and filled at its end. An empty one owns no memory once
/// it was released.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

/// What one read asks for, and the room that a thread's spare buffers have. Holds a common request
/// whole, and dozens of small WebSocket messages.
pub(crate) const READ_BYTES: usize = 16 << 10;
/// Spare buffers of a thread: as many as requests are commonly half read or half written at once.
const SPARES: usize = 64;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

impl Buffer {
    /// Empty, without memory.
    pub(crate) const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            start: 0,
        }
    }

    /// What has not been consumed.
    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The same, to be changed in place.
    pub(crate) fn filled_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }

    /// How much has not been consumed.
    pub(crate) const fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Whether all was consumed.
    pub(crate) const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory it holds.
    pub(crate) const fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Drops the first `count` bytes, or all there are.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.bytes.len());
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }

    /// Makes room for a read of useful size.
    pub(crate) fn make_read_room(&mut self) {
        // Behind what was consumed there may be little room left; before the first byte is
        // consumed the room was made for something, such as the rest of a body.
        self.make_room(match (self.len(), self.start) {
            (0, _) => READ_BYTES,
            (_, 0) => 1,
            _ => READ_BYTES / 4,
        });
    }

    /// Makes sure that `more` bytes fit behind those that are there.
    pub(crate) fn make_room(&mut self, more: usize) {
        if self.bytes.capacity() == 0 && more <= READ_BYTES {
            self.bytes = SPARE
                .with_borrow_mut(Vec::pop)
                .unwrap_or_else(|| Vec::with_capacity(READ_BYTES));
        }
        if self.start > 0 && self.bytes.capacity() - self.bytes.len() < more {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.reserve(more);
    }

    /// Makes room for more of something that has `whole` bytes in all: for as much again as has come,
    /// so that what is only announced takes no memory.
    pub(crate) fn grow_towards(&mut self, whole: usize) {
        if self.bytes.capacity() - self.bytes.len() < READ_BYTES / 4 {
            let missing = whole.saturating_sub(self.len());
            self.make_room(missing.min(self.len().max(READ_BYTES)));
        }
    }

    /// The end, to be written to; what was consumed stays in front of it.
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() == 0 {
            self.make_room(READ_BYTES);
        }
        &mut self.bytes
    }

    /// Gives the memory back if nothing is left in it.
    pub(crate) fn release(&mut self) {
        if !self.is_empty() || self.bytes.capacity() == 0 {
            return;
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        self.start = 0;
        if bytes.capacity() == READ_BYTES {
            bytes.clear();
            SPARE.with_borrow_mut(|spare| {
                if spare.len() < SPARES {
                    spare.push(bytes);
                }
            });
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.consume(self.len());
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_consumed_makes_room_and_nothing_else_moves() {
        let mut buffer = Buffer::new();
        buffer.tail().extend_from_slice(b"abcdef");
        buffer.consume(4);
        assert_eq!((buffer.filled(), buffer.len()), (&b"ef"[..], 2));
        buffer.make_room(READ_BYTES);
        assert_eq!(buffer.filled(), b"ef");
        buffer.tail().extend_from_slice(b"gh");
        assert_eq!(buffer.filled(), b"efgh");
        buffer.consume(100);
        assert!(buffer.is_empty());
    }

    #[test]
    fn an_idle_buffer_owns_nothing_and_its_memory_is_used_again() {
        let mut first = Buffer::new();
        first.tail().extend_from_slice(b"x");
        first.release();
        assert!(first.capacity() > 0);
        first.consume(1);
        let place = first.bytes.as_ptr();
        first.release();
        assert_eq!(first.capacity(), 0);
        let mut second = Buffer::new();
        second.make_room(10);
        assert_eq!(second.bytes.as_ptr(), place);
    }

    #[test]
    fn large_memory_is_not_kept() {
        let mut buffer = Buffer::new();
        buffer.make_room(10 * READ_BYTES);
        assert!(buffer.capacity() >= 10 * READ_BYTES);
        buffer.release();
        assert_eq!(buffer.capacity(), 0);
        SPARE
            .with_borrow(|spare| assert!(spare.iter().all(|bytes| bytes.capacity() == READ_BYTES)));
    }
}
