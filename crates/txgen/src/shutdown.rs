//! Ctrl-C: once to stop offering and drain, twice to leave at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How often the user asked to stop.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    requests: Arc<AtomicUsize>,
}

impl Shutdown {
    /// Listens to SIGINT and SIGTERM.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn on_signals() -> io::Result<Self> {
        let shutdown = Self::default();
        let requests = shutdown.requests.clone();
        let mut signals = signal_hook::iterator::Signals::new([
            signal_hook::consts::SIGINT,
            signal_hook::consts::SIGTERM,
        ])?;
        // The thread waits for signals as long as the process lives; it owns nothing else.
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                for _ in &mut signals {
                    requests.fetch_add(1, Ordering::Release);
                }
            })?;
        Ok(shutdown)
    }

    /// Asks to stop, as a signal would.
    pub fn request(&self) {
        self.requests.fetch_add(1, Ordering::Release);
    }

    /// Whether to stop offering.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.requests.load(Ordering::Acquire) > 0
    }

    /// Whether to leave at once.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        self.requests.load(Ordering::Acquire) > 1
    }
}
