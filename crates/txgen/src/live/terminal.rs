//! The terminal while a full-screen view has it: taken, drawn on and given back on every way out.

use std::io::{self, BufWriter, IsTerminal as _, Stderr, Write as _};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use super::screen::{KeyRequest, View};
use super::state::LiveState;
use crate::shutdown::Shutdown;

/// Whether stderr is a terminal that can be drawn on, with its keys on stdin, and is ours: a process in
/// the background would be stopped by the system at the first attempt.
pub(super) fn is_usable() -> bool {
    let capable = std::env::var("TERM").is_ok_and(|term| !term.is_empty() && term != "dumb");
    let (keys, picture) = (io::stdin(), io::stderr());
    let foreground =
        || rustix::termios::tcgetpgrp(&keys).is_ok_and(|group| group == rustix::process::getpgrp());
    capable && keys.is_terminal() && picture.is_terminal() && foreground()
}

/// The view at work on a thread of its own.
#[derive(Debug)]
pub(super) struct FullScreen {
    stop: Arc<AtomicBool>,
    ended: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl FullScreen {
    /// Takes the terminal and shows `state` on it. Keys ask `shutdown`.
    ///
    /// # Errors
    /// When the terminal refuses; it is as before then.
    pub(super) fn open(state: Arc<Mutex<LiveState>>, shutdown: Shutdown) -> io::Result<Self> {
        guard();
        let terminal = take().inspect_err(|_| give_back())?;
        let stop = Arc::new(AtomicBool::new(false));
        let (end, ended) = mpsc::sync_channel(1);
        let painter = Painter {
            terminal,
            view: View::default(),
            state,
            shutdown,
            stop: stop.clone(),
            end,
        };
        let thread = thread::Builder::new()
            .name("live-view".into())
            .spawn(|| painter.paint())
            .inspect_err(|_| give_back())?;
        Ok(Self {
            stop,
            ended,
            thread: Some(thread),
        })
    }

    /// Whether the terminal still has the view.
    pub(super) fn is_shown(&self) -> bool {
        TAKEN.load(Ordering::Acquire)
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // A terminal that hangs in the middle of a picture must not hang the run.
        let ended = self.ended.recv_timeout(FAREWELL);
        if let (Some(thread), false) = (
            self.thread.take(),
            ended == Err(mpsc::RecvTimeoutError::Timeout),
        ) {
            // A panic there was reported by its hook.
            let _ = thread.join();
        }
        give_back();
    }
}

type Screen = Terminal<CrosstermBackend<BufWriter<Stderr>>>;

struct Painter {
    terminal: Screen,
    view: View,
    state: Arc<Mutex<LiveState>>,
    shutdown: Shutdown,
    stop: Arc<AtomicBool>,
    end: SyncSender<()>,
}

impl Painter {
    fn paint(mut self) {
        let mut shown = None;
        let mut next = Instant::now();
        while !self.stop.load(Ordering::Acquire) && TAKEN.load(Ordering::Acquire) {
            match self.keys() {
                Ok(true) => shown = None,
                Ok(false) => {}
                // The terminal has gone.
                Err(_) => break,
            }
            let version = self.state.lock().version;
            let now = Instant::now();
            if shown == Some(version) && now < next {
                continue;
            }
            if !TAKEN.load(Ordering::Acquire) || self.draw().is_err() {
                break;
            }
            shown = Some(version);
            next = now + CLOCK_INTERVAL;
        }
        give_back();
        let _ = self.end.try_send(());
    }

    fn draw(&mut self) -> io::Result<()> {
        let Self {
            terminal,
            view,
            state,
            ..
        } = self;
        terminal.draw(|frame| {
            // Held while the picture is made in memory, not while it is written.
            let state = state.lock();
            view.draw(frame, &state);
        })?;
        Ok(())
    }

    /// Waits a little for keys; whether anything changed by them.
    fn keys(&mut self) -> io::Result<bool> {
        if !event::poll(KEY_WAIT)? {
            return Ok(false);
        }
        let event = event::read()?;
        let Event::Key(key) = event else {
            return Ok(matches!(event, Event::Resize(..)));
        };
        match self.view.key(key) {
            KeyRequest::Nothing => {}
            KeyRequest::Quit => self.shutdown.request(),
            // The display gives it its number.
            KeyRequest::Mark => self.shutdown.mark(),
        }
        Ok(true)
    }
}

fn take() -> io::Result<Screen> {
    // First, so that a failure half way is undone as a whole.
    TAKEN.store(true, Ordering::Release);
    enable_raw_mode()?;
    let mut picture = BufWriter::with_capacity(PICTURE_BYTES, io::stderr());
    execute!(picture, EnterAlternateScreen, Hide)?;
    Terminal::new(CrosstermBackend::new(picture))
}

/// Where log lines go: to stderr, held back while it has a picture.
#[derive(Debug, Default, Clone, Copy)]
pub struct LogWriter;

impl io::Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if !TAKEN.load(Ordering::Acquire) {
            return io::stderr().write(line);
        }
        let mut held = HELD_LOG.lock();
        if held.len() + line.len() <= MAX_HELD_LOG {
            held.extend_from_slice(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Undoes [`take`], once, on the first of: the view's end, a panic, a signal.
fn give_back() {
    if TAKEN.swap(false, Ordering::AcqRel) {
        let mut stderr = io::stderr();
        // Nothing is left to be done about a terminal that refuses.
        let _ = execute!(stderr, LeaveAlternateScreen, Show);
        let _ = stderr.flush();
        let _ = disable_raw_mode();
        let mut held = HELD_LOG.lock();
        let _ = stderr.write_all(&std::mem::take(&mut *held));
    }
}

/// Has the terminal given back before a panic is reported and before a signal ends the process.
/// SIGINT and SIGTERM are not among them: they end the run, and the run ends the view.
fn guard() {
    static GUARD: OnceLock<()> = OnceLock::new();
    GUARD.get_or_init(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            give_back();
            report(panic);
        }));
        let deadly = [signal_hook::consts::SIGHUP, signal_hook::consts::SIGQUIT];
        let Ok(mut signals) = signal_hook::iterator::Signals::new(deadly) else {
            return;
        };
        // Waits as long as the process lives; it owns nothing. Without a thread the terminal is not
        // given back after these two, which is all that is lost.
        let _ = thread::Builder::new()
            .name("terminal-guard".into())
            .spawn(move || {
                for signal in &mut signals {
                    give_back();
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
            });
    });
}

/// Whether the terminal has our picture. There is one terminal in a process.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Log lines for the time after the picture.
static HELD_LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// The first lines of trouble; it repeats itself later.
const MAX_HELD_LOG: usize = 64 * 1024;
/// How long a key waits at most when the view does not wait for it: not noticed by a person.
const KEY_WAIT: Duration = Duration::from_millis(100);
/// The time left is shown in seconds.
const CLOCK_INTERVAL: Duration = Duration::from_millis(500);
const FAREWELL: Duration = Duration::from_secs(1);
/// A large terminal, every cell in another colour.
const PICTURE_BYTES: usize = 256 * 1024;
