//! What signals ask for. Ctrl-C (SIGINT, or SIGTERM): once to stop offering and drain, twice to leave
//! at once. SIGUSR1: note this moment in the record. SIGUSR2: the load is over, as when a condition of it is broken.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use clap::Args;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use tokio::sync::watch;

/// How often the user asked to stop, and to note the moment.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    requests: watch::Sender<usize>,
    marks: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
}

impl Shutdown {
    /// Listens to SIGINT, SIGTERM, SIGUSR1 and SIGUSR2.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn on_signals() -> io::Result<Self> {
        let shutdown = Self::default();
        let listener = shutdown.clone();
        let mut signals = signal_hook::iterator::Signals::new([
            signal_hook::consts::SIGINT,
            signal_hook::consts::SIGTERM,
            signal_hook::consts::SIGUSR1,
            signal_hook::consts::SIGUSR2,
        ])?;
        // The thread waits for signals as long as the process lives; it owns nothing else.
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                for signal in &mut signals {
                    match signal {
                        signal_hook::consts::SIGUSR1 => listener.mark(),
                        signal_hook::consts::SIGUSR2 => listener.end(),
                        _ => listener.request(),
                    }
                }
            })?;
        Ok(shutdown)
    }

    /// Asks to stop, as a signal would.
    pub fn request(&self) {
        self.requests.send_modify(|requests| *requests += 1);
    }

    /// Ends the load, as SIGUSR2 would.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Asks for a note, as SIGUSR1 would.
    pub fn mark(&self) {
        self.marks.fetch_add(1, Ordering::Release);
    }

    /// How often a note was asked for.
    pub fn marks(&self) -> usize {
        self.marks.load(Ordering::Acquire)
    }

    /// Whether another generator of the load ended it.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Whether to stop offering.
    pub fn is_requested(&self) -> bool {
        *self.requests.borrow() > 0
    }

    /// Waits until offering is to stop.
    ///
    /// # Cancel safety
    /// Nothing is lost when it is dropped.
    pub async fn requested(&self) {
        // It fails only without a sender, and this one is there.
        let _ = self.requests.subscribe().wait_for(|it| *it > 0).await;
    }

    /// Whether to leave at once.
    pub fn is_urgent(&self) -> bool {
        *self.requests.borrow() > 1
    }
}

/// The hidden command `guard`, as which [`servers::Process`] calls a program of its own.
#[derive(Debug, Args)]
pub struct GuardArgs {
    /// The process that it ends with.
    #[arg(long)]
    pub parent: i32,
    /// The program and its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub command: Vec<OsString>,
}

/// Turns this process into the program, to be killed with the process that started it.
///
/// The kernel sends the signal when the parent ends, also when that was killed; the order survives
/// the exec. It comes back only with an error.
pub fn become_program(args: &GuardArgs) -> io::Error {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    // The parent may have ended before the order was given.
    let parent = getppid().map(|id| id.as_raw_nonzero().get());
    if parent != Some(args.parent) {
        return io::Error::other("the program that started this one has ended");
    }
    let Some((program, arguments)) = args.command.split_first() else {
        return io::Error::other("no program is named");
    };
    Command::new(program).args(arguments).exec()
}
