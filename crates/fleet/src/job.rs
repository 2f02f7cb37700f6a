//! A program at work for a run, from its start until its folder is in the store.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::bus::Bus;
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
    process: Option<OwnedFd>,
    /// Those that the program got: a second Ctrl-C would have it leave at once.
    sent: Vec<Signal>,
    standing: watch::Receiver<Standing>,
    _task: JoinSet<()>,
}

impl Job {
    pub(crate) fn start(
        child: Child,
        bus: Bus,
        program: &Program,
        order: Order,
        folder: PathBuf,
    ) -> Self {
        let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let process = id.and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok());
        let (tell, standing) = watch::channel(Standing::default());
        let note = program.note;
        let mut task = JoinSet::new();
        task.spawn(async move {
            let note = |what| note(&format!("{}: {what}", order.shard()));
            let mut end = hear(child, &tell).await;
            tell.send_modify(|it| it.end = Some(end.clone()));
            note(end.code.map_or_else(
                || "killed".to_owned(),
                |code| format!("ended with exit code {code}"),
            ));
            let name = object(order.load, order.number);
            end.folder = match folder::put(&bus, &order.run, &name, &folder).await {
                Ok(()) => Folder::Kept,
                Err(error) => {
                    let mut problem = error.to_string();
                    if folder.is_dir() {
                        problem += &format!("; it stays in {}", folder.display());
                    }
                    note(problem.clone());
                    Folder::NotKept(problem)
                }
            };
            tell.send_modify(|it| it.end = Some(end));
        });
        Self {
            process,
            sent: Vec::new(),
            standing,
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

    /// How it stands, once that is otherwise than when this was last asked.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn changed(&mut self) -> Standing {
        if self.standing.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        self.standing.borrow_and_update().clone()
    }
}

/// Hears a program to its end.
async fn hear(mut child: Child, tell: &watch::Sender<Standing>) -> End {
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
    End {
        code: status.ok().and_then(|it| it.code()),
        words: last.into(),
        folder: Folder::OnItsWay,
    }
}

async fn each_line(out: Option<impl AsyncRead + Unpin>, mut take: impl FnMut(String)) {
    let Some(out) = out else { return };
    let mut lines = BufReader::new(out).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        take(line);
    }
}

/// Enough for an error with its causes.
const LINES_KEPT: usize = 40;
