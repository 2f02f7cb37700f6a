//! The process of an observed node, found again by the port on which it listens when another takes its place.

use procfs::process::Process;
use procfs::{ProcError, ProcResult};
use servers::listener;

use super::counters::Counters;

/// A process of this machine.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    pid: i32,
    /// When it began, in ticks since the machine did: distinguishes it from a later process with its number.
    began: u64,
    /// Where the node answers.
    port: u16,
    gone: bool,
}

/// What a look at it shows.
#[derive(Debug)]
pub(super) enum Look {
    /// What it has used.
    There(Counters),
    /// Another process listens in its place: this one from now on.
    Replaced {
        before: i32,
        now: i32,
        counters: Counters,
    },
    /// It has ended since the last look, and nothing listens in its place.
    Ended { pid: i32 },
    /// Nothing has come in its place.
    Away,
}

impl Watched {
    /// The process with this number, of a node that answers at this port.
    ///
    /// # Errors
    /// When it is not there, or may not be read.
    pub(super) fn new(pid: i32, port: u16) -> ProcResult<Self> {
        let process = Process::new(pid)?;
        Counters::of_process(&process)?;
        Ok(Self {
            pid,
            began: process.stat()?.starttime,
            port,
            gone: false,
        })
    }

    pub(super) fn look(&mut self) -> Look {
        if !self.gone
            && let Ok(counters) = self.counters()
        {
            return Look::There(counters);
        }
        let before = self.pid;
        let found = listener(self.port).and_then(|pid| {
            let found = Self::new(pid, self.port).ok()?;
            Some((found.counters().ok()?, found))
        });
        let Some((counters, found)) = found else {
            let ended = !std::mem::replace(&mut self.gone, true);
            return if ended {
                Look::Ended { pid: before }
            } else {
                Look::Away
            };
        };
        let now = found.pid;
        *self = found;
        Look::Replaced {
            before,
            now,
            counters,
        }
    }

    fn counters(&self) -> ProcResult<Counters> {
        let process = Process::new(self.pid)?;
        let stat = process.stat()?;
        if stat.starttime != self.began || stat.state == ZOMBIE {
            return Err(ProcError::NotFound(None));
        }
        Counters::of_process(&process)
    }
}

/// Ended, and its parent has not asked why.
const ZOMBIE: char = 'Z';

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A process that has the listener, as a server that was given it has.
    fn server(listener: &TcpListener) -> Child {
        let input = Stdio::from(std::os::fd::OwnedFd::from(listener.try_clone().unwrap()));
        Command::new("sleep")
            .arg("1000")
            .stdin(input)
            .spawn()
            .unwrap()
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_another_one_replaced_is_found_by_its_port_and_one_without_is_away() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (first, second) = (server(&listener), server(&listener));
        let (one, two) = (first.id().cast_signed(), second.id().cast_signed());
        drop(listener);
        let mut watched = Watched::new(one, port).unwrap();
        assert!(matches!(watched.look(), Look::There(_)));
        end(first);
        match watched.look() {
            Look::Replaced { before, now, .. } => assert_eq!((before, now), (one, two)),
            other => panic!("{other:?}"),
        }
        assert!(matches!(watched.look(), Look::There(_)));
        end(second);
        assert!(matches!(watched.look(), Look::Ended { pid } if pid == two));
        assert!(matches!(watched.look(), Look::Away));
    }

    #[test]
    fn a_process_that_never_was_is_refused() {
        assert!(Watched::new(i32::MAX, 1).is_err());
    }
}
