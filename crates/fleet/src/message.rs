//! What goes over the bus, as JSON.
//!
//! | subject | from | what |
//! |---|---|---|
//! | `txgen.fleet.1.roll` | a coordinator to all workers | [`Roll`]; each answers with [`Present`] |
//! | `txgen.fleet.5.worker.ID` | a coordinator to one worker | [`Request`], answered by [`Answer`] |
//! | `txgen.fleet.5.run.RUN` | the workers of a run to its coordinator | [`Told`] |
//!
//! The 5 is [`PROTOCOL`]. The roll stays what it is, so that programs which differ in it can name each other.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of all messages but the roll.
pub const PROTOCOL: u32 = 5;

/// Where a coordinator asks who is there.
pub const ROLL: &str = "txgen.fleet.1.roll";

/// Where one worker is spoken to.
pub fn of_worker(id: &str) -> String {
    format!("txgen.fleet.{PROTOCOL}.worker.{id}")
}

/// Where the workers of a run tell what happens.
pub fn of_run(run: &str) -> String {
    format!("txgen.fleet.{PROTOCOL}.run.{run}")
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

/// Who is there? Where nobody waits for answers, it is a sign of life for the workers of the run.
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

impl Present {
    /// What has to be the same, in words.
    pub(crate) fn build(&self) -> String {
        build(&self.version, self.protocol)
    }
}

/// A program's version as people compare it.
pub(crate) fn build(version: &str, protocol: u32) -> String {
    format!("version {version}, protocol {protocol}")
}

/// From a coordinator to one worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Be kept for this run.
    Claim {
        /// The run.
        run: String,
    },
    /// What time is it?
    Clock,
    /// Start the program.
    Play(Order),
    /// Ask the program to stop, as Ctrl-C does.
    Stop {
        /// The run.
        run: String,
    },
    /// Tell the program, by SIGUSR2, that its load is over: another one of the run has ended it.
    Over {
        /// The run.
        run: String,
    },
    /// The run is over, or does not begin.
    Release {
        /// The run.
        run: String,
    },
}

/// A worker's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Done.
    Done,
    /// The worker's clock when the question came and when the answer left, Unix nanoseconds.
    Clock {
        /// When the question came.
        received_ns: i64,
        /// When the answer left.
        sent_ns: i64,
    },
    /// It cannot be: why.
    Refused(String),
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

/// From a worker to the coordinator of its run: sent as soon as it changes, and again after each second, since any one
/// message may be lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// The worker.
    pub worker: String,
    /// The load of the run that it is about.
    pub load: u32,
    /// How that load stands.
    #[serde(flatten)]
    pub standing: Standing,
}

/// How a load stands at a worker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// The last line that the program printed to stdout.
    pub line: Option<Value>,
    /// How the program ended; `None` while it runs.
    pub end: Option<End>,
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
