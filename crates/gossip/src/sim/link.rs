//! A line with a rate and a delay, and one direction of a simulated connection over one.

use pacing::Nanos;

use super::LinkModel;

/// A line that sends one write after the other at a rate; what it sends arrives after a delay.
#[derive(Debug)]
pub struct Line {
    bits_per_s: Option<u64>,
    delay: Nanos,
    /// When it has sent everything that it was given.
    free_at: Nanos,
}

impl Line {
    /// A line that is free; without `bits_per_s` it sends at once.
    pub const fn new(bits_per_s: Option<u64>, delay: Nanos) -> Self {
        Self {
            bits_per_s,
            delay,
            free_at: Nanos::ZERO,
        }
    }

    /// Sends a write of so many bytes behind those before it. Gives when the line has sent it, and when it arrives.
    pub fn send(&mut self, now: Nanos, length: usize) -> (Nanos, Nanos) {
        let nanos = self.bits_per_s.map_or(0, |rate| {
            length as u128 * 8 * 1_000_000_000 / u128::from(rate.max(1))
        });
        let begin = now.max(self.free_at);
        self.free_at = begin.saturating_add(Nanos::new(nanos as u64));
        (self.free_at, self.free_at.saturating_add(self.delay))
    }
}

#[derive(Debug)]
pub(super) struct Direction {
    line: Line,
    /// How many bytes may be written and not read.
    buffer: usize,
    /// Bytes that were written and not read.
    unread: usize,
    /// A write that waits for room.
    blocked: Option<Vec<u8>>,
    pub(super) broken: bool,
}

impl Direction {
    pub(super) const fn new(model: LinkModel) -> Self {
        Self {
            line: Line::new(model.bits_per_s, model.delay),
            buffer: model.buffer,
            unread: 0,
            blocked: None,
            broken: false,
        }
    }

    /// Takes a write; gives when it arrives, none when it has to wait for room.
    pub(super) fn write(&mut self, now: Nanos, bytes: Vec<u8>) -> Option<(Nanos, Vec<u8>)> {
        if self.unread > 0 && self.unread + bytes.len() > self.buffer {
            self.blocked = Some(bytes);
            return None;
        }
        self.unread += bytes.len();
        let (_, arrives) = self.line.send(now, bytes.len());
        Some((arrives, bytes))
    }

    /// The other end has read, and there may be room for the write that waited.
    pub(super) fn read(&mut self, now: Nanos, length: usize) -> Option<(Nanos, Vec<u8>)> {
        self.unread = self.unread.saturating_sub(length);
        let bytes = self.blocked.take()?;
        self.write(now, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_sends_one_write_after_the_other_and_takes_no_more_than_its_buffer() {
        let mut line = Direction::new(LinkModel {
            delay: Nanos::from_micros(10),
            bits_per_s: Some(8_000_000),
            buffer: 150,
        });
        let at = |sent: Option<(Nanos, Vec<u8>)>| sent.map(|(at, _)| at.as_micros());
        assert_eq!(at(line.write(Nanos::ZERO, vec![0; 100])), Some(110));
        assert_eq!(
            at(line.write(Nanos::ZERO, vec![0; 50])),
            Some(160),
            "after the first"
        );
        assert_eq!(at(line.write(Nanos::ZERO, vec![0; 60])), None);
        assert_eq!(
            at(line.read(Nanos::from_micros(200), 50)),
            None,
            "100 + 60 are too many"
        );
        assert_eq!(at(line.read(Nanos::from_micros(300), 50)), Some(370));
    }
}
