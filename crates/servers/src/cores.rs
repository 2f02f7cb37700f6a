//! Fewer cores for a program than its machine has.

use std::io;
use std::num::NonZeroU32;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

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
