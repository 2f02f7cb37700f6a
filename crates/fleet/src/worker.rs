//! A machine that waits on the bus for a program to start.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use async_nats::Message;
use futures_util::StreamExt as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::bus::{Bus, FleetError, now_ns};
use crate::folder;
use crate::message::{
    Answer, Folder, Order, PROTOCOL, Present, ROLL, Request, Roll, Told, What, object, of_run,
    of_worker,
};

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
    /// A coordinator gathers its crew, or is between two loads; without a word of it until then the worker is free
    /// again.
    Claimed {
        run: String,
        until: Instant,
        /// How the load before ended.
        last: Option<(Teller, What)>,
    },
    Busy(Work),
}

/// A program that runs, or whose folder is being brought to the store.
#[derive(Debug)]
struct Work {
    teller: Teller,
    now: watch::Receiver<What>,
    signals: mpsc::Sender<Signal>,
    /// Those that the program got: a second Ctrl-C would have it leave at once.
    sent: Vec<Signal>,
    ended: JoinHandle<What>,
    /// Its coordinator wants no more of it.
    is_released: bool,
}

impl State {
    /// Kept for this run.
    fn claimed(run: String, last: Option<(Teller, What)>) -> Self {
        let until = Instant::now() + CLAIM;
        Self::Claimed { run, until, last }
    }

    fn run(&self) -> Option<&str> {
        match self {
            Self::Free => None,
            Self::Claimed { run, .. } => Some(run),
            Self::Busy(work) => Some(&work.teller.run),
        }
    }

    /// The coordinator of this run is there.
    fn hear_of(&mut self, by: &str, now: Instant) {
        if let Self::Claimed { run, until, .. } = self
            && run == by
        {
            *until = now + CLAIM;
        }
    }

    /// The coordinator of this run wants no more of the worker.
    fn release(&mut self, by: &str) {
        match self {
            Self::Claimed { run, .. } if run == by => *self = Self::Free,
            Self::Busy(work) if work.teller.run == by => work.is_released = true,
            _ => {}
        }
    }

    /// Passes a signal on to the program at work for this run, if it did not have it yet; whether it did.
    fn signal(&mut self, by: &str, signal: Signal) -> bool {
        let Self::Busy(work) = self else { return false };
        let is_new = work.teller.run == by && !work.sent.contains(&signal);
        if is_new {
            work.sent.push(signal);
            // It fails only when the program has ended.
            let _ = work.signals.try_send(signal);
        }
        is_new
    }

    /// What a worker says again each second.
    fn news(&self) -> Option<(Teller, What)> {
        match self {
            Self::Free => None,
            Self::Claimed { last, .. } => last.clone(),
            Self::Busy(work) => Some((work.teller.clone(), work.now.borrow().clone())),
        }
    }

    /// How the load ended, once the program at work has and its folder is brought. Cancelled, it loses nothing.
    async fn ended(&mut self) -> What {
        match self {
            Self::Busy(work) => {
                let ended = (&mut work.ended).await;
                ended.expect("nobody cancels it, and it does not panic")
            }
            Self::Free | Self::Claimed { .. } => std::future::pending().await,
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
    /// the store.
    ///
    /// # Errors
    /// When the bus takes no subscription.
    pub async fn serve(mut self, stop: impl Future<Output = ()>) -> Result<(), FleetError> {
        let mut rolls = self.bus.subscribe(ROLL.to_owned()).await?;
        let mut requests = self.bus.subscribe(of_worker(&self.id)).await?;
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stop = std::pin::pin!(stop);
        let mut is_stopping = false;
        while !is_stopping || matches!(self.state, State::Busy(_)) {
            tokio::select! {
                () = &mut stop, if !is_stopping => {
                    is_stopping = true;
                    let run = self.state.run().unwrap_or_default().to_owned();
                    self.state.signal(&run, Signal::INT);
                }
                what = self.state.ended() => self.ended(what).await,
                Some(message) = rolls.next() => self.present(message).await,
                Some(message) = requests.next() => self.answer(message).await,
                _ = ticks.tick() => self.tick().await,
                else => break,
            }
        }
        self.bus.flush().await;
        Ok(())
    }

    async fn present(&mut self, message: Message) {
        if let Ok(roll) = serde_json::from_slice::<Roll>(&message.payload) {
            self.state.hear_of(&roll.run, Instant::now());
        }
        let present = Present {
            id: self.id.clone(),
            host: self.host.clone(),
            version: self.program.version.clone(),
            protocol: PROTOCOL,
            run: self.state.run().map(str::to_owned),
        };
        if let Some(reply) = message.reply {
            self.bus.publish(reply.to_string(), &present, None).await;
        }
    }

    async fn answer(&mut self, message: Message) {
        let received_ns = now_ns();
        let answer = match serde_json::from_slice(&message.payload) {
            Ok(request) => self.act(request, received_ns),
            Err(error) => Answer::Refused(format!("it does not understand the request: {error}")),
        };
        if let Some(reply) = message.reply {
            self.bus.publish(reply.to_string(), &answer, None).await;
        }
    }

    fn act(&mut self, request: Request, received_ns: i64) -> Answer {
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
                    (self.program.note)(&format!("claimed for run {run}"));
                    self.state = State::claimed(run, None);
                    Answer::Done
                }
                // Its coordinator did not hear the first answer.
                State::Claimed { run: by, .. } if *by == run => Answer::Done,
                at_work => Answer::Refused(format!(
                    "it is at work for run {}",
                    at_work.run().unwrap_or_default()
                )),
            },
            Request::Play(order) => match &self.state {
                State::Claimed { run, .. } if *run == order.run => self.start(order),
                State::Busy(work) if work.teller.run == order.run => {
                    Answer::Refused("it has not ended the load before this one".to_owned())
                }
                _ => Answer::Refused("it is not claimed for this run".to_owned()),
            },
            Request::Stop { run } => self.pass_on(&run, Signal::INT),
            Request::Over { run } => self.pass_on(&run, Signal::USR2),
            Request::Release { run } => {
                self.state.release(&run);
                Answer::Done
            }
        }
    }

    fn pass_on(&mut self, run: &str, signal: Signal) -> Answer {
        if self.state.signal(run, signal) {
            (self.program.note)("asked to stop");
        }
        Answer::Done
    }

    fn start(&mut self, order: Order) -> Answer {
        let name = object(order.load, order.number);
        let folder = self.runs.join(format!("{}-shard-{name}", order.run));
        let child = match self.command(&order, &folder).spawn() {
            Ok(child) => child,
            Err(error) => {
                let path = self.program.path.display();
                return Answer::Refused(format!("it cannot run {path}: {error}"));
            }
        };
        (self.program.note)(&format!(
            "run {}, shard {}, into {}",
            order.run,
            order.number,
            folder.display()
        ));
        let (signals, signalled) = mpsc::channel(SIGNALS);
        let (tell, now) = watch::channel(What::Alive);
        let teller = Teller {
            bus: self.bus.clone(),
            worker: self.id.clone(),
            run: order.run.clone(),
            load: order.load,
        };
        let job = Job {
            teller: teller.clone(),
            now: tell,
        };
        let ended = tokio::spawn(job.play(child, order, folder, signalled));
        self.state = State::Busy(Work {
            teller,
            now,
            signals,
            sent: Vec::new(),
            ended,
            is_released: false,
        });
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

    async fn tick(&mut self) {
        if let State::Claimed { run, until, .. } = &self.state
            && *until <= Instant::now()
        {
            (self.program.note)(&format!(
                "free again: nothing was heard of run {run} for {} s",
                CLAIM.as_secs()
            ));
            self.state = State::Free;
        }
        if self.bus.is_up()
            && let Some((teller, what)) = self.state.news()
        {
            teller.tell(what).await;
        }
    }

    /// A load is over: the worker takes the next one of this run, or of any if the run is over.
    async fn ended(&mut self, what: What) {
        let State::Busy(work) = std::mem::replace(&mut self.state, State::Free) else {
            return;
        };
        (self.program.note)("ready");
        work.teller.tell(what.clone()).await;
        if !work.is_released {
            self.state = State::claimed(work.teller.run.clone(), Some((work.teller, what)));
        }
    }
}

/// Tells the coordinator of a run about one load.
#[derive(Debug, Clone)]
struct Teller {
    bus: Bus,
    worker: String,
    run: String,
    load: u32,
}

impl Teller {
    async fn tell(&self, what: What) {
        let told = Told {
            worker: self.worker.clone(),
            load: self.load,
            what,
        };
        self.bus.publish(of_run(&self.run), &told, None).await;
    }
}

/// A program at work for a run.
struct Job {
    teller: Teller,
    /// What the worker says each second.
    now: watch::Sender<What>,
}

impl Job {
    /// Hears the program to its end, and brings its folder to the store.
    async fn play(
        self,
        mut child: Child,
        order: Order,
        folder: PathBuf,
        mut signalled: mpsc::Receiver<Signal>,
    ) -> What {
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
        let code = loop {
            tokio::select! {
                code = &mut ended => break code,
                Some(signal) = signalled.recv() => if let Some(process) = process {
                    // It fails only when the program has ended.
                    let _ = kill_process(process, signal);
                }
            }
        };
        let words = match words {
            Some(words) => words.await.unwrap_or_default(),
            None => Vec::new(),
        };
        let ended = |folder| What::Ended {
            code,
            words: words.clone(),
            folder,
        };
        self.now.send_replace(ended(Folder::OnItsWay));
        self.teller.tell(ended(Folder::OnItsWay)).await;
        ended(match self.keep(&order, &folder).await {
            Ok(()) => Folder::Kept,
            Err(error) => Folder::NotKept(format!("{error}; it stays in {}", folder.display())),
        })
    }

    /// Passes on what the program prints; while the connection is down, the last line waits.
    async fn pass_on(&self, out: impl AsyncRead + Unpin) {
        let mut lines = BufReader::new(out).lines();
        let (bus, mut waiting) = (&self.teller.bus, None);
        loop {
            tokio::select! {
                biased;
                () = bus.back(), if waiting.is_some() => {
                    if let Some(line) = waiting.take() {
                        self.teller.tell(What::Line(line)).await;
                    }
                }
                line = lines.next_line() => {
                    let Ok(Some(line)) = line else { break };
                    waiting = serde_json::from_str(&line).ok().or(waiting);
                }
            }
        }
        if let Some(line) = waiting {
            self.teller.tell(What::Line(line)).await;
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
                let store = self.teller.bus.folders(&order.run).await?;
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
/// As many as there are: each is sent once.
const SIGNALS: usize = 2;
/// Enough for an error with its causes.
const LINES_KEPT: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_holds_as_long_as_its_own_coordinator_is_heard_and_ends_by_its_word_alone() {
        let now = Instant::now();
        let mut state = State::Claimed {
            run: "one".to_owned(),
            until: now,
            last: None,
        };
        let until = |state: &State| match state {
            State::Claimed { until, .. } => *until,
            other => panic!("{other:?}"),
        };
        state.hear_of("another", now + TICK);
        assert_eq!(until(&state), now);
        state.hear_of("one", now + TICK);
        assert_eq!(until(&state), now + TICK + CLAIM);
        state.release("another");
        assert_eq!(state.run(), Some("one"));
        state.release("one");
        assert_eq!(state.run(), None);
    }
}
