//! One rate for what all nodes of a machine write, as through a switch that carries no more.
//!
//! The nodes are processes: what they share is a file with the instant at which the switch is free again, and its lock.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use pacing::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// A node's way into the switch.
pub(super) struct Switch {
    file: File,
    bits_per_s: u64,
}

impl Switch {
    /// The switch of this file, which may be empty.
    ///
    /// # Errors
    /// When the file cannot be opened or made.
    pub(super) fn open(path: &Path, bits_per_s: u64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path)?;
        Ok(Self { file, bits_per_s })
    }

    /// How long a write of so many bytes takes from now on, behind those of all nodes before it.
    ///
    /// # Errors
    /// When the file cannot be locked, read or written.
    pub(super) fn pass(&self, bytes: usize) -> io::Result<Nanos> {
        self.pass_at(since_boot(), bytes)
    }

    fn pass_at(&self, now: Nanos, bytes: usize) -> io::Result<Nanos> {
        // Held for microseconds; it ends with the process too.
        self.file.lock()?;
        let passed = self.reserve(now, bytes);
        self.file.unlock()?;
        passed
    }

    fn reserve(&self, now: Nanos, bytes: usize) -> io::Result<Nanos> {
        let mut free_at = [0; 8];
        // Nobody has written before: it is free.
        self.file.read_at(&mut free_at, 0)?;
        let begin = now.max(Nanos::new(u64::from_le_bytes(free_at)));
        let takes = bytes as u128 * 8 * 1_000_000_000 / u128::from(self.bits_per_s.max(1));
        let end = begin.saturating_add(Nanos::new(takes as u64));
        self.file.write_all_at(&end.as_nanos().to_le_bytes(), 0)?;
        Ok(end.saturating_sub(now))
    }
}

/// The clock that all processes of a machine share.
fn since_boot() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    Nanos::new(now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_write_passes_one_after_the_other_at_the_rate() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("switch");
        // 1,000 bytes take 10 ms.
        let [one, other] = [(); 2].map(|()| Switch::open(&path, 800_000).unwrap());
        let ms = |switch: &Switch, now, bytes| {
            let took = switch.pass_at(Nanos::from_millis(now), bytes).unwrap();
            took.as_nanos() / 1_000_000
        };
        assert_eq!(ms(&one, 5, 1000), 10);
        assert_eq!(ms(&other, 5, 1000), 20, "behind the first node's");
        assert_eq!(ms(&one, 20, 500), 10, "from 25 ms on it is free");
        assert_eq!(ms(&other, 100, 1000), 10, "nothing is saved up");
    }
}
