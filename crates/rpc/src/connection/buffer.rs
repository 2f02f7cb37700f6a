//! The two buffers of a connection, reused for every message.

/// Bytes on their way out, addressed by their offset in the stream.
#[derive(Debug, Default)]
pub(super) struct OutBuffer {
    bytes: Vec<u8>,
    /// How many of `bytes` were taken already.
    start: usize,
    /// The stream offset of `bytes[0]`.
    base: u64,
}

impl OutBuffer {
    /// Appends whatever `write` appends; the stream offset behind its last byte.
    #[inline]
    pub(super) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> u64 {
        write(&mut self.bytes);
        self.base + self.bytes.len() as u64
    }

    #[inline]
    pub(super) fn pending(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The offset behind the last byte taken.
    #[inline]
    pub(super) const fn taken_to(&self) -> u64 {
        self.base + self.start as u64
    }

    #[inline]
    pub(super) fn take(&mut self, count: usize) {
        self.start += count;
        // Either everything is gone, which is the rule, or a long remainder is moved down once it
        // is shorter than what lies before it: each byte is moved at most once on average.
        if self.start == self.bytes.len() {
            self.base += self.start as u64;
            self.bytes.clear();
            self.start = 0;
        } else if self.start >= KEEP && self.start * 2 >= self.bytes.len() {
            self.base += self.start as u64;
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }
}

/// Bytes that came in and wait to be understood.
#[derive(Debug)]
pub(super) struct InBuffer {
    /// Initialised throughout; `start..end` is filled.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    initial: usize,
    /// How many bytes the parser is waiting for.
    wanted: usize,
}

impl InBuffer {
    pub(super) fn new(initial: usize) -> Self {
        let initial = initial.max(MIN_READ);
        Self {
            bytes: vec![0; initial],
            start: 0,
            end: 0,
            initial,
            wanted: 0,
        }
    }

    #[inline]
    pub(super) fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    #[inline]
    pub(super) fn filled_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    #[inline]
    pub(super) const fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end, "only filled bytes are consumed");
        self.wanted = 0;
    }

    /// The parser waits until `total` bytes are filled: room for them is made in one step.
    pub(super) const fn want(&mut self, total: usize) {
        self.wanted = total;
    }

    /// Where the next bytes go; never empty.
    #[inline]
    pub(super) fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
        if self.bytes.len() - self.end < MIN_READ || self.bytes.len() - self.start < self.wanted {
            self.make_room();
        }
        &mut self.bytes[self.end..]
    }

    #[inline]
    pub(super) const fn filled_by(&mut self, count: usize) {
        self.end += count;
    }

    fn make_room(&mut self) {
        self.bytes.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let needed = self.wanted.max(self.end + MIN_READ);
        if self.bytes.len() < needed {
            let doubled = self.bytes.len() * 2;
            self.bytes.resize(needed.max(doubled.min(DOUBLING)), 0);
        }
    }

    /// Gives back what a single large message took.
    pub(super) fn shrink(&mut self) {
        if self.start == self.end && self.bytes.len() > KEEP.max(self.initial) {
            self.bytes.truncate(self.initial);
            self.bytes.shrink_to_fit();
            self.start = 0;
            self.end = 0;
        }
    }
}

/// Fewer free bytes than this are not worth a system call.
const MIN_READ: usize = 2048;
/// A buffer up to this size is kept between messages.
const KEEP: usize = 256 << 10;
/// Past this size a buffer grows only by what is needed.
const DOUBLING: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn out_keeps_order_and_offsets(steps in proptest::collection::vec((0usize..400_000, 0usize..500_000), 1..12)) {
            let mut out = OutBuffer::default();
            let (mut appended, mut taken) = (0u64, 0u64);
            for (len, count) in steps {
                let first = appended;
                let offset = out.append(|bytes| bytes.extend((first..first + len as u64).map(|at| at as u8)));
                appended += len as u64;
                prop_assert_eq!(offset, appended);
                let count = count.min(out.pending().len());
                for (at, byte) in (taken..).zip(&out.pending()[..count]) {
                    prop_assert_eq!(*byte, at as u8);
                }
                out.take(count);
                taken += count as u64;
                prop_assert_eq!(out.taken_to(), taken);
                prop_assert_eq!(out.pending().len() as u64, appended - taken);
            }
        }

        #[test]
        fn in_keeps_order(steps in proptest::collection::vec((1usize..9000, 0usize..9000, 0usize..30_000), 1..30)) {
            let mut buffer = InBuffer::new(2048);
            let (mut written, mut read) = (0u64, 0u64);
            for (fill, consume, want) in steps {
                buffer.want(want);
                let space = buffer.space();
                prop_assert!(!space.is_empty());
                let fill = fill.min(space.len());
                for byte in &mut space[..fill] {
                    *byte = written as u8;
                    written += 1;
                }
                buffer.filled_by(fill);
                let consume = consume.min(buffer.filled().len());
                for byte in &buffer.filled()[..consume] {
                    prop_assert_eq!(*byte, read as u8);
                    read += 1;
                }
                buffer.consume(consume);
                buffer.shrink();
                prop_assert_eq!(buffer.filled().len() as u64, written - read);
            }
        }
    }
}
