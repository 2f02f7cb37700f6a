//! A program at work for a run, from its start until its folder is in the store.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::bus::{Bus, FleetError};
use crate::folder;
use crate::message::{End, Folder, Order, Standing, object};

/// What a worker starts.
#[derive(Debug, Clone)]
pub struct Program {
    /// Where it is.
    pub path: PathBuf,
    /// Its version: a coordinator of another one is refused.
    pub version: String,
    /// Variables of the environment with this prefix are those of the order, and no others.
    pub prefix: &'static str,
    /// Where it says what happens, for people.
    pub note: fn(&str),
    /// Arguments before those of the order, for instance those of a guard that ends it with the worker.
    pub before: Vec<String>,
}

impl Program {
    /// What starts it for this order.
    pub(crate) fn command(&self, order: &Order, folder: &Path) -> Command {
        let mut command = Command::new(&self.path);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with(self.prefix) {
                command.env_remove(name);
            }
        }
        command
            .envs(order.environment.iter().map(|(name, value)| (name, value)))
            .args(&self.before)
            .args(&order.arguments)
            .arg("--out")
            .arg(folder)
            // Ctrl-C in a terminal is for the worker, which asks the program to stop.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }
}

/// A program at work, and afterwards how it ended. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Job {
    load: u32,
    process: Option<OwnedFd>,
    /// Those that the program got: a second Ctrl-C would have it leave at once.
    sent: Vec<Signal>,
    standing: watch::Receiver<Standing>,
    is_over: bool,
    _task: JoinSet<()>,
}

impl Job {
    pub(crate) fn start(child: Child, bus: Bus, order: Order, folder: PathBuf) -> Self {
        let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let process = id.and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok());
        let (tell, standing) = watch::channel(Standing::default());
        let (load, mut task) = (order.load, JoinSet::new());
        task.spawn(async move {
            let (code, words) = hear(child, &tell).await;
            let end = |folder| End {
                code,
                words: words.clone(),
                folder,
            };
            tell.send_modify(|it| it.end = Some(end(Folder::OnItsWay)));
            let brought = match keep(&bus, &order, &folder).await {
                Ok(()) => Folder::Kept,
                Err(error) => Folder::NotKept(format!("{error}; it stays in {}", folder.display())),
            };
            tell.send_modify(|it| it.end = Some(end(brought)));
        });
        Self {
            load,
            process,
            sent: Vec::new(),
            standing,
            is_over: false,
            _task: task,
        }
    }

    /// Sends a signal that the program did not have yet; whether it did.
    pub(crate) fn signal(&mut self, signal: Signal) -> bool {
        let is_new = !self.sent.contains(&signal);
        if is_new {
            self.sent.push(signal);
            // It fails only when the program has ended.
            let _ = self
                .process
                .as_ref()
                .map(|it| pidfd_send_signal(it, signal));
        }
        is_new
    }

    /// Which load of the run, from 1.
    pub(crate) fn load(&self) -> u32 {
        self.load
    }

    pub(crate) fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// Whether all is done, and [`changed`](Self::changed) has said so.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// It stands otherwise than when this was last asked.
    pub(crate) async fn changed(&mut self) {
        if self.standing.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        let standing = self.standing.borrow();
        let end = standing.end.as_ref();
        self.is_over = end.is_some_and(|end| end.folder != Folder::OnItsWay);
    }
}

/// Hears a program to its end: its exit code, and the last lines of its messages.
async fn hear(mut child: Child, tell: &watch::Sender<Standing>) -> (Option<i32>, Vec<String>) {
    let lines = each_line(child.stdout.take(), |line| {
        if let Ok(line) = serde_json::from_str(&line) {
            tell.send_modify(|it| it.line = Some(line));
        }
    });
    let mut last = VecDeque::new();
    let words = each_line(child.stderr.take(), |line| {
        last.push_back(line);
        if last.len() > LINES_KEPT {
            last.pop_front();
        }
    });
    tokio::join!(lines, words);
    let status = child.wait().await;
    (status.ok().and_then(|it| it.code()), last.into())
}

async fn each_line(out: Option<impl AsyncRead + Unpin>, mut take: impl FnMut(String)) {
    let Some(out) = out else { return };
    let mut lines = BufReader::new(out).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        take(line);
    }
}

/// Brings the folder to the store, as soon as there is one.
async fn keep(bus: &Bus, order: &Order, folder: &Path) -> Result<(), FleetError> {
    if !folder.is_dir() {
        return Err(FleetError::Workers("the program left no folder".to_owned()));
    }
    let until = Instant::now() + KEEP_TRYING;
    loop {
        let put = async {
            let store = bus.folders(&order.run).await?;
            folder::put(&store, &object(order.load, order.number), folder).await
        };
        match put.await {
            Err(FleetError::Store(_)) if Instant::now() < until => {
                tokio::time::sleep(RETRY).await;
            }
            settled => return settled,
        }
    }
}

/// How long a folder waits for a bus that is away.
const KEEP_TRYING: Duration = Duration::from_secs(3_600);
/// How long between two tries.
const RETRY: Duration = Duration::from_secs(2);
/// Enough for an error with its causes.
const LINES_KEPT: usize = 40;
