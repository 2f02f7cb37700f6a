//! One direction of a simulated connection.

use pacing::Nanos;

use super::LinkModel;

#[derive(Debug)]
pub(super) struct Direction {
    model: LinkModel,
    /// Bytes that were written and not read.
    unread: usize,
    /// When the line has sent what it was given.
    free_at: Nanos,
    /// A write that waits for room.
    blocked: Option<Vec<u8>>,
    pub(super) broken: bool,
}

impl Direction {
    pub(super) const fn new(model: LinkModel) -> Self {
        Self {
            model,
            unread: 0,
            free_at: Nanos::ZERO,
            blocked: None,
            broken: false,
        }
    }

    /// Takes a write, and says when it arrives; none when it has to wait for room.
    pub(super) fn write(&mut self, now: Nanos, bytes: Vec<u8>) -> Option<(Nanos, Vec<u8>)> {
        if self.unread > 0 && self.unread + bytes.len() > self.model.buffer {
            self.blocked = Some(bytes);
            return None;
        }
        Some((self.send(now, bytes.len()), bytes))
    }

    /// The other end has read, and there may be room for the write that waited.
    pub(super) fn read(&mut self, now: Nanos, length: usize) -> Option<(Nanos, Vec<u8>)> {
        self.unread = self.unread.saturating_sub(length);
        let bytes = self.blocked.take()?;
        self.write(now, bytes)
    }

    fn send(&mut self, now: Nanos, length: usize) -> Nanos {
        self.unread += length;
        let begin = now.max(self.free_at);
        let nanos = self.model.bits_per_s.map_or(0, |rate| {
            length as u128 * 8 * 1_000_000_000 / u128::from(rate.max(1))
        });
        self.free_at = begin.saturating_add(Nanos::new(nanos as u64));
        self.free_at.saturating_add(self.model.delay)
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
