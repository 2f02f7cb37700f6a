//! What goes over the bus, as JSON.
//!
//! | subject | from | what |
//! |---|---|---|
//! | `txgen.fleet.1.roll` | a coordinator to all workers | [`Roll`]; each answers with [`Present`] |
//! | `txgen.fleet.6.worker.ID` | a coordinator to one worker | [`Request`], answered by [`Told`] |
//! | `txgen.fleet.6.run.RUN.present` | the workers to a coordinator | [`Present`] |
//! | `txgen.fleet.6.run.RUN.told` | a worker to the coordinator | [`Told`] |
//!
//! The 6 is [`PROTOCOL`]. The roll stays what it is, so that programs which differ in it can name each other.
//!
//! Each message says all that its sender wants or has come to, so that it does not matter which of them are lost.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of all messages but the roll.
pub const PROTOCOL: u32 = 6;

/// Where a coordinator asks which workers are there.
pub const ROLL: &str = "txgen.fleet.1.roll";

/// Where one worker is spoken to.
pub fn of_worker(id: &str) -> String {
    format!("txgen.fleet.{PROTOCOL}.worker.{id}")
}

/// Where the coordinator of a run hears its workers: `present`, `told`, or `*` for both.
pub fn of_run(run: &str, what: &str) -> String {
    format!("txgen.fleet.{PROTOCOL}.run.{run}.{what}")
}

/// A message to be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Where.
    pub subject: String,
    /// Where answers to it are to be published.
    pub reply: Option<String>,
    /// One of the messages of this module.
    pub payload: Vec<u8>,
}

impl Outgoing {
    pub(crate) fn new(subject: String, reply: Option<String>, message: &impl Serialize) -> Self {
        Self {
            subject,
            reply,
            payload: serde_json::to_vec(message).expect("a message has no keys but texts"),
        }
    }
}

/// Lets the workers of a run know that its coordinator is there.
pub fn sign_of_life(run: &str) -> Outgoing {
    let run = run.to_owned();
    Outgoing::new(ROLL.to_owned(), None, &Roll { run })
}

/// The name of a folder in the bucket of its run.
pub(crate) fn object(load: u32, number: u32) -> String {
    match load {
        1 => number.to_string(),
        load => format!("{load}-{number}"),
    }
}

/// The bucket of a run's folders.
pub fn bucket(run: &str) -> String {
    format!("txgen-{run}")
}

/// Asks which workers are there. Without a reader of the answers, it is a sign of life for the workers of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roll {
    /// The run that workers are wanted for.
    pub run: String,
}

/// A worker that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Present {
    /// Its id, new with each start.
    pub id: String,
    /// Its machine.
    pub host: String,
    /// The version of its program.
    pub version: String,
    /// Its [`PROTOCOL`].
    pub protocol: u32,
    /// The run that it works for.
    pub run: Option<String>,
}

/// A program's version as people compare it.
pub(crate) fn build(version: &str, protocol: u32) -> String {
    format!("version {version}, protocol {protocol}")
}

/// From a coordinator to one worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The coordinator's run.
    pub run: String,
    /// The answer bears the same number.
    pub number: u64,
    /// What the worker is to do.
    pub want: Want,
}

/// What a worker is to do. Each is asked again when no answer comes, and done once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Want {
    /// Be kept for the run, and say how it stands.
    Stay,
    /// Start the program.
    Play(Order),
    /// Ask the program to stop, as Ctrl-C does.
    Stop,
    /// Tell the program, by SIGUSR2, that its load is over: another one of the run has ended it.
    Over,
    /// Be free: the run is over, or does not begin.
    Leave,
}

/// A program to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The run.
    pub run: String,
    /// Which load of the run, from 1.
    pub load: u32,
    /// The place of this worker in the run, from 1.
    pub number: u32,
    /// The program's arguments, without where its folder is.
    pub arguments: Vec<String>,
    /// Variables of its environment; the worker's own of the same prefix are not seen.
    pub environment: Vec<(String, String)>,
}

impl Order {
    /// What people call it.
    pub(crate) fn shard(&self) -> String {
        format!("run {}, shard {}", self.run, self.number)
    }
}

/// From a worker to a coordinator: to any that asks, and to the one of its run when something changes and every
/// two seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// The worker.
    pub worker: String,
    /// The request that it answers, if any.
    pub answer: Option<Answer>,
    /// The run that it is kept for.
    pub run: Option<String>,
    /// The last load of the run that it has an order for; 0 before the first.
    pub load: u32,
    /// Why it has not started that.
    pub refused: Option<String>,
    /// How that load stands.
    #[serde(flatten)]
    pub standing: Standing,
}

/// Which request is answered, and when it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The request's.
    pub number: u64,
    /// The worker's clock, Unix nanoseconds.
    pub at_ns: i64,
}

/// How a load stands at a worker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// The last line that the program printed to stdout.
    pub line: Option<Value>,
    /// How the program ended; `None` while it runs.
    pub end: Option<End>,
}

impl Standing {
    /// Whether the program has ended, and its folder is where it stays.
    pub fn is_over(&self) -> bool {
        let end = self.end.as_ref();
        end.is_some_and(|end| end.folder != Folder::OnItsWay)
    }
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Its exit code; `None` when it was killed.
    pub code: Option<i32>,
    /// The last lines that it wrote to stderr.
    pub words: Vec<String>,
    /// Where its folder is.
    pub folder: Folder,
}

/// Where the folder of a program that has ended is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Folder {
    /// Being brought to the bucket of the run.
    OnItsWay,
    /// In the bucket, under the numbers of the load and of the worker.
    Kept,
    /// It cannot be brought there: why.
    NotKept(String),
}
