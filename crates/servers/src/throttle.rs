//! Less of the processor for a program: it is stopped for a part of each twentieth of a second, or has fewer cores.

use std::io;
use std::num::NonZeroU32;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::process::{Group, Process};

/// Programs that run for a share of the time only, until this is dropped. They then have so much of every core, as on a
/// slower machine: their work takes longer by 1 / share, their timers do not. It needs no rights that starting them did
/// not, unlike a quota of a control group.
#[derive(Debug)]
pub struct Throttle {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Throttle {
    /// Lets them, with all that they started, run for this share of the time: above 0 and below 1.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start<'a>(processes: impl Iterator<Item = &'a Process>, share: f64) -> io::Result<Self> {
        let groups: Vec<Group> = processes.map(Process::group).collect();
        let (stop, stopped) = sync_channel(1);
        let run = move || {
            let mut owed = Owed::new(share);
            let began = Instant::now();
            loop {
                let freeze = owed.at(began.elapsed());
                if !freeze.is_zero() {
                    let frozen = Instant::now();
                    groups.iter().for_each(Group::freeze);
                    thread::sleep(freeze);
                    groups.iter().for_each(Group::thaw);
                    owed.paid(frozen.elapsed());
                }
                if stopped.recv_timeout(PERIOD.saturating_sub(freeze))
                    != Err(RecvTimeoutError::Timeout)
                {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("throttle".into()).spawn(run)?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic was printed when it happened.
            let _ = thread.join();
        }
    }
}

/// How long programs have been stopped, and should have been.
#[derive(Debug)]
struct Owed {
    share: f64,
    frozen: Duration,
}

impl Owed {
    fn new(share: f64) -> Self {
        Self {
            share: share.clamp(0.0, 1.0),
            frozen: Duration::ZERO,
        }
    }

    /// How long they have to be stopped in the period that begins now: what a stop before took too long is taken off,
    /// and what it lacked is added, as far as the period has room.
    fn at(&self, elapsed: Duration) -> Duration {
        let wanted = (elapsed + PERIOD).mul_f64(1.0 - self.share);
        wanted.saturating_sub(self.frozen).min(LONGEST)
    }

    fn paid(&mut self, frozen: Duration) {
        self.frozen += frozen;
    }
}

/// Short beside the intervals of blocks, long beside what a thread wakes too late.
const PERIOD: Duration = Duration::from_millis(50);
/// So that a program always gets on.
const LONGEST: Duration = Duration::from_millis(45);

/// Calls `start` while this thread may use only so many of its cores: the programs that it starts meanwhile have no
/// others, and see a machine of so many.
///
/// # Errors
/// When the thread has fewer, or the system refuses.
pub fn on_cores<T>(cores: NonZeroU32, start: impl FnOnce() -> T) -> io::Result<T> {
    let all = sched_getaffinity(None)?;
    if all.count() < cores.get() {
        let problem = format!("this machine gives {} cores, not {cores}", all.count());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    let mut fewer = CpuSet::new();
    let those = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core));
    for core in those.take(cores.get() as usize) {
        fewer.set(core);
    }
    sched_setaffinity(None, &fewer)?;
    let started = start();
    sched_setaffinity(None, &all)?;
    Ok(started)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn stops_that_last_too_long_are_taken_off_the_next_ones() {
        let mut owed = Owed::new(0.6);
        let (mut elapsed, mut frozen) = (Duration::ZERO, Duration::ZERO);
        for period in 0..1_000_u64 {
            let freeze = owed.at(elapsed);
            // A thread that wakes up to 9 ms late, and once a second after a tenth of a second.
            let late = Duration::from_millis(period * 7 % 10 + 100 * u64::from(period % 20 == 9));
            let lasted = if freeze.is_zero() {
                freeze
            } else {
                freeze + late
            };
            owed.paid(lasted);
            frozen += lasted;
            elapsed += lasted + PERIOD.saturating_sub(freeze);
        }
        let share = frozen.as_secs_f64() / elapsed.as_secs_f64();
        assert!((share - 0.4).abs() < 0.01, "{share}");
    }

    #[test]
    fn a_program_has_the_cores_that_it_was_started_on_and_the_thread_has_its_own_again() {
        let seen = || {
            let output = Command::new("nproc").output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let before = seen();
        assert_eq!(on_cores(NonZeroU32::MIN, seen).unwrap().trim(), "1");
        assert_eq!(seen(), before);
        let error = on_cores(NonZeroU32::MAX, seen).unwrap_err();
        assert!(error.to_string().contains("this machine gives"), "{error}");
    }
}
