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
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::bus::{Bus, FleetError, now_ns};
use crate::folder;
use crate::message::{
    Answer, Order, PROTOCOL, Present, ROLL, Request, Roll, Told, What, object, of_run, of_worker,
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
    },
    /// The program runs, or its folder is being brought to the store.
    Busy {
        run: String,
        load: u32,
        signals: mpsc::Sender<Signal>,
        /// What became of the folder.
        ended: JoinHandle<What>,
        /// Its coordinator wants no more of it.
        is_released: bool,
    },
}

impl State {
    fn run(&self) -> Option<&str> {
        match self {
            Self::Free => None,
            Self::Claimed { run, .. } | Self::Busy { run, .. } => Some(run),
        }
    }

    /// The coordinator of this run is there.
    fn hear_of(&mut self, by: &str, now: Instant) {
        if let Self::Claimed { run, until } = self
            && run == by
        {
            *until = now + CLAIM;
        }
    }

    /// The coordinator of this run wants no more of the worker.
    fn release(&mut self, by: &str) {
        match self {
            Self::Claimed { run, .. } if run == by => *self = Self::Free,
            Self::Busy {
                run, is_released, ..
            } if run == by => *is_released = true,
            Self::Free | Self::Claimed { .. } | Self::Busy { .. } => {}
        }
    }

    /// What became of the folder of the program at work, once it has ended. Cancelled, it loses nothing.
    async fn ended(&mut self) -> What {
        match self {
            Self::Busy { ended, .. } => {
                let what = ended.await;
                what.unwrap_or_else(|error| What::NotKept(error.to_string()))
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
                what = self.state.ended() => self.ended(what, note).await,
                Some(message) = rolls.next() => self.present(message).await,
                Some(message) = requests.next() => self.answer(message, note).await,
                _ = ticks.tick() => self.tick(note).await,
                else => break,
            }
        }
        self.end(&mut requests, note).await;
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
                // Its coordinator did not hear the first answer.
                State::Claimed { run: by, .. } if *by == run => Answer::Done,
                at_work => Answer::Refused(format!(
                    "it is at work for run {}",
                    at_work.run().unwrap_or_default()
                )),
            },
            Request::Play(order) => match &self.state {
                State::Claimed { run, .. } if *run == order.run => self.start(order, note),
                State::Busy { run, .. } if *run == order.run => {
                    Answer::Refused("it has not ended the load before this one".to_owned())
                }
                _ => Answer::Refused("it is not claimed for this run".to_owned()),
            },
            Request::Stop { run } => self.signal(&run, Signal::INT, note),
            Request::Over { run } => self.signal(&run, Signal::USR2, note),
            Request::Release { run } => {
                self.state.release(&run);
                Answer::Done
            }
        }
    }

    /// Passes a signal on to the program at work for this run.
    fn signal(&self, by: &str, signal: Signal, note: &mut (dyn FnMut(&str) + Send)) -> Answer {
        if let State::Busy { run, signals, .. } = &self.state
            && run == by
        {
            note("asked to stop");
            // It fails only when the program has ended, or was asked often.
            let _ = signals.try_send(signal);
        }
        Answer::Done
    }

    fn start(&mut self, order: Order, note: &mut (dyn FnMut(&str) + Send)) -> Answer {
        let name = object(order.load, order.number);
        let folder = self.runs.join(format!("{}-shard-{name}", order.run));
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
        let (signals, signalled) = mpsc::channel(SIGNALS_WAITING);
        let job = Job {
            bus: self.bus.clone(),
            worker: self.id.clone(),
            load: order.load,
            subject: of_run(&order.run),
        };
        let (run, load) = (order.run.clone(), order.load);
        let ended = tokio::spawn(job.play(child, order, folder, signalled));
        self.state = State::Busy {
            run,
            load,
            signals,
            ended,
            is_released: false,
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
            State::Busy { run, load, .. } if self.bus.is_up() => {
                self.tell(run, *load, What::Alive).await;
            }
            State::Busy { .. } => {}
        }
    }

    /// A load is over: the worker takes the next one of this run, or of any if the run is over.
    async fn ended(&mut self, what: What, note: &mut (dyn FnMut(&str) + Send)) {
        let before = std::mem::replace(&mut self.state, State::Free);
        let State::Busy {
            run,
            load,
            is_released,
            ..
        } = before
        else {
            return;
        };
        note("ready");
        self.tell(&run, load, what).await;
        if !is_released {
            let until = Instant::now() + CLAIM;
            self.state = State::Claimed { run, until };
        }
    }

    async fn tell(&self, run: &str, load: u32, what: What) {
        let told = Told {
            worker: self.id.clone(),
            load,
            what,
        };
        self.bus.publish(of_run(run), &told, None).await;
    }

    /// Ends what is at work.
    async fn end(&mut self, requests: &mut Subscriber, note: &mut (dyn FnMut(&str) + Send)) {
        let State::Busy { signals, .. } = &self.state else {
            return;
        };
        let _ = signals.try_send(Signal::INT);
        // Whoever cannot wait for the folder signals again.
        let what = self.state.ended().await;
        self.ended(what, note).await;
        let _ = requests.unsubscribe().await;
    }
}

/// A program at work for a run.
struct Job {
    bus: Bus,
    worker: String,
    load: u32,
    subject: String,
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
        let mut sent = Vec::new();
        let code = loop {
            tokio::select! {
                code = &mut ended => break code,
                // A second Ctrl-C would have it leave at once.
                Some(signal) = signalled.recv() => if let Some(process) = process && !sent.contains(&signal) {
                    sent.push(signal);
                    // It fails only when the program has ended.
                    let _ = kill_process(process, signal);
                }
            }
        };
        let words = match words {
            Some(words) => words.await.unwrap_or_default(),
            None => Vec::new(),
        };
        self.tell(What::Ended { code, words }).await;
        match self.keep(&order, &folder).await {
            Ok(()) => What::Kept,
            Err(error) => What::NotKept(format!("{error}; it stays in {}", folder.display())),
        }
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

    async fn tell(&self, what: What) {
        let told = Told {
            worker: self.worker.clone(),
            load: self.load,
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
/// More are not looked at in time.
const SIGNALS_WAITING: usize = 4;
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
