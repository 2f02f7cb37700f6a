//! A machine that waits on the bus for a program to start.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use async_nats::{Message, Subscriber};
use futures_util::StreamExt as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::bus::{Bus, FleetError, now_ns};
use crate::folder;
use crate::message::{Answer, Order, Present, ROLL, Request, Told, What, of_run, of_worker};

/// What a worker starts.
#[derive(Debug, Clone)]
pub struct Program {
    /// Where it is.
    pub path: PathBuf,
    /// Its version: a coordinator of another one is refused.
    pub version: String,
    /// Variables of the environment with this prefix are those of the order, and no others.
    pub prefix: &'static str,
    /// Arguments before those of the order, for instance those of a guard that ends it with the worker.
    pub before: Vec<String>,
}

/// A worker on the bus.
#[derive(Debug)]
pub struct Worker {
    bus: Bus,
    id: String,
    host: String,
    program: Program,
    runs: PathBuf,
    state: State,
}

/// What a worker is at.
#[derive(Debug)]
enum State {
    Free,
    /// A coordinator gathers its crew; without a word of it until then the worker is free again.
    Claimed {
        run: String,
        until: Instant,
    },
    /// The program runs, or its folder is being brought to the store.
    Busy {
        run: String,
        stop: Option<oneshot::Sender<()>>,
        ended: JoinHandle<()>,
    },
}

impl State {
    fn run(&self) -> Option<&str> {
        match self {
            Self::Free => None,
            Self::Claimed { run, .. } | Self::Busy { run, .. } => Some(run),
        }
    }
}

impl Worker {
    /// A worker that puts its folders into `runs`; `host` is how people know this machine.
    pub fn new(bus: Bus, host: String, program: Program, runs: PathBuf) -> Self {
        let id = format!("{:x}-{:x}", now_ns(), std::process::id());
        Self {
            bus,
            id,
            host,
            program,
            runs,
            state: State::Free,
        }
    }

    /// Waits for work until `stop`; a program that is at work is then asked to stop, and its folder brought to
    /// the store. `note` is told what happens.
    ///
    /// # Errors
    /// When the bus takes no subscription.
    pub async fn serve(
        mut self,
        stop: impl Future<Output = ()>,
        note: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), FleetError> {
        let mut rolls = self.bus.subscribe(ROLL.to_owned()).await?;
        let mut requests = self.bus.subscribe(of_worker(&self.id)).await?;
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                Some(message) = rolls.next() => self.present(message).await,
                Some(message) = requests.next() => self.answer(message, note).await,
                _ = ticks.tick() => self.tick(note).await,
                else => break,
            }
        }
        self.end(&mut requests).await;
        self.bus.flush().await;
        Ok(())
    }

    async fn present(&self, message: Message) {
        let present = Present {
            id: self.id.clone(),
            host: self.host.clone(),
            version: self.program.version.clone(),
            run: self.state.run().map(str::to_owned),
        };
        if let Some(reply) = message.reply {
            self.bus.publish(reply.to_string(), &present, None).await;
        }
    }

    async fn answer(&mut self, message: Message, note: &mut (dyn FnMut(&str) + Send)) {
        let received_ns = now_ns();
        let Some(reply) = message.reply else {
            return;
        };
        let answer = match serde_json::from_slice(&message.payload) {
            Ok(request) => self.act(request, received_ns, note),
            Err(error) => Answer::Refused(format!("it does not understand the request: {error}")),
        };
        self.bus.publish(reply.to_string(), &answer, None).await;
    }

    fn act(
        &mut self,
        request: Request,
        received_ns: i64,
        note: &mut (dyn FnMut(&str) + Send),
    ) -> Answer {
        if let State::Claimed { until, .. } = &mut self.state {
            *until = Instant::now() + CLAIM;
        }
        match request {
            Request::Clock => Answer::Clock {
                received_ns,
                sent_ns: now_ns(),
            },
            Request::Claim { run } => match &self.state {
                State::Free => {
                    note(&format!("claimed for run {run}"));
                    let until = Instant::now() + CLAIM;
                    self.state = State::Claimed { run, until };
                    Answer::Done
                }
                at_work => Answer::Refused(format!(
                    "it is at work for run {}",
                    at_work.run().unwrap_or_default()
                )),
            },
            Request::Play(order) => match &self.state {
                State::Claimed { run, .. } if *run == order.run => self.start(order, note),
                _ => Answer::Refused("it is not claimed for this run".to_owned()),
            },
            Request::Stop { run } => {
                if let State::Busy { run: own, stop, .. } = &mut self.state
                    && *own == run
                    && let Some(stop) = stop.take()
                {
                    note("asked to stop");
                    // It fails only when the program has ended.
                    let _ = stop.send(());
                }
                Answer::Done
            }
            Request::Release { run } => {
                if let State::Claimed { run: own, .. } = &self.state
                    && *own == run
                {
                    self.state = State::Free;
                }
                Answer::Done
            }
        }
    }

    fn start(&mut self, order: Order, note: &mut (dyn FnMut(&str) + Send)) -> Answer {
        let folder = self
            .runs
            .join(format!("{}-shard-{}", order.run, order.number));
        let child = match self.command(&order, &folder).spawn() {
            Ok(child) => child,
            Err(error) => {
                let path = self.program.path.display();
                return Answer::Refused(format!("it cannot run {path}: {error}"));
            }
        };
        note(&format!(
            "run {}, shard {}, into {}",
            order.run,
            order.number,
            folder.display()
        ));
        let (stop, stopped) = oneshot::channel();
        let job = Job {
            bus: self.bus.clone(),
            worker: self.id.clone(),
            subject: of_run(&order.run),
        };
        let run = order.run.clone();
        let ended = tokio::spawn(job.play(child, order, folder, stopped));
        self.state = State::Busy {
            run,
            stop: Some(stop),
            ended,
        };
        Answer::Done
    }

    fn command(&self, order: &Order, folder: &std::path::Path) -> Command {
        let mut command = Command::new(&self.program.path);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with(self.program.prefix) {
                command.env_remove(name);
            }
        }
        command
            .envs(order.environment.iter().map(|(name, value)| (name, value)))
            .args(&self.program.before)
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

    async fn tick(&mut self, note: &mut (dyn FnMut(&str) + Send)) {
        match &self.state {
            State::Free => {}
            State::Claimed { run, until } if *until <= Instant::now() => {
                note(&format!(
                    "free again: nothing was heard of run {run} for {} s",
                    CLAIM.as_secs()
                ));
                self.state = State::Free;
            }
            State::Claimed { .. } => {}
            State::Busy { ended, .. } if ended.is_finished() => {
                note("ready");
                self.state = State::Free;
            }
            State::Busy { run, .. } if self.bus.is_up() => {
                let alive = Told {
                    worker: self.id.clone(),
                    what: What::Alive,
                };
                self.bus.publish(of_run(run), &alive, None).await;
            }
            State::Busy { .. } => {}
        }
    }

    /// Ends what is at work; answers the clock meanwhile.
    async fn end(&mut self, requests: &mut Subscriber) {
        let State::Busy { stop, ended, .. } = &mut self.state else {
            return;
        };
        if let Some(stop) = stop.take() {
            let _ = stop.send(());
        }
        // Whoever cannot wait for the folder signals again.
        let _ = ended.await;
        let _ = requests.unsubscribe().await;
    }
}

/// A program at work for a run.
struct Job {
    bus: Bus,
    worker: String,
    subject: String,
}

impl Job {
    async fn play(
        self,
        mut child: Child,
        order: Order,
        folder: PathBuf,
        stopped: oneshot::Receiver<()>,
    ) {
        let lines = child.stdout.take();
        let words = child.stderr.take().map(|out| tokio::spawn(last_lines(out)));
        let process = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let ended = async {
            if let Some(lines) = lines {
                self.pass_on(lines).await;
            }
            child.wait().await.ok().and_then(|status| status.code())
        };
        let mut ended = std::pin::pin!(ended);
        let code = tokio::select! {
            code = &mut ended => code,
            Ok(()) = stopped => {
                if let Some(process) = process {
                    // It fails only when the program has ended.
                    let _ = kill_process(process, Signal::INT);
                }
                ended.await
            }
        };
        let words = match words {
            Some(words) => words.await.unwrap_or_default(),
            None => Vec::new(),
        };
        self.tell(What::Ended { code, words }).await;
        let kept = self.keep(&order, &folder).await;
        self.tell(match kept {
            Ok(()) => What::Kept,
            Err(error) => What::NotKept(format!("{error}; it stays in {}", folder.display())),
        })
        .await;
    }

    /// Passes on what the program prints; what it prints while the connection is down is not waited for.
    async fn pass_on(&self, out: impl AsyncRead + Unpin) {
        let mut lines = BufReader::new(out).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if let Ok(line) = serde_json::from_str(&line)
                && self.bus.is_up()
            {
                self.tell(What::Line(line)).await;
            }
        }
    }

    /// Brings the folder to the store, as soon as there is one.
    async fn keep(&self, order: &Order, folder: &std::path::Path) -> Result<(), FleetError> {
        if !folder.is_dir() {
            return Err(FleetError::Workers("the program left no folder".to_owned()));
        }
        let until = Instant::now() + KEEP_TRYING;
        loop {
            let put = async {
                let store = self.bus.folders(&order.run).await?;
                folder::put(&store, &order.number.to_string(), folder).await
            };
            match put.await {
                Err(FleetError::Store(_)) if Instant::now() < until => {
                    tokio::time::sleep(RETRY).await;
                }
                settled => return settled,
            }
        }
    }

    async fn tell(&self, what: What) {
        let told = Told {
            worker: self.worker.clone(),
            what,
        };
        self.bus.publish(self.subject.clone(), &told, None).await;
    }
}

/// The last lines of a program's messages.
async fn last_lines(out: impl AsyncRead + Unpin) -> Vec<String> {
    let mut last = VecDeque::new();
    let mut lines = BufReader::new(out).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        last.push_back(line);
        if last.len() > LINES_KEPT {
            last.pop_front();
        }
    }
    last.into()
}

/// How often a worker at work says that it is there.
const TICK: Duration = Duration::from_secs(1);
/// How long a claim holds without a word of its coordinator.
const CLAIM: Duration = Duration::from_secs(15);
/// How long a folder waits for a bus that is away.
const KEEP_TRYING: Duration = Duration::from_secs(3_600);
/// How long between two tries.
const RETRY: Duration = Duration::from_secs(2);
/// Enough for an error with its causes.
const LINES_KEPT: usize = 40;
