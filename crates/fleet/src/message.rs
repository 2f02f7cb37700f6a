//! What goes over the bus, as JSON.
//!
//! | subject | from | what |
//! |---|---|---|
//! | `txgen.fleet.1.roll` | a coordinator to all workers | [`Roll`]; each answers with [`Present`] |
//! | `txgen.fleet.1.worker.ID` | a coordinator to one worker | [`Request`], answered by [`Answer`] |
//! | `txgen.fleet.1.run.RUN` | the workers of a run to its coordinator | [`Told`] |
//!
//! The 1 is the version of this protocol: programs that differ in it do not get each other's messages.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where a coordinator asks who is there.
pub const ROLL: &str = "txgen.fleet.1.roll";

/// Where one worker is spoken to.
pub fn of_worker(id: &str) -> String {
    format!("txgen.fleet.1.worker.{id}")
}

/// Where the workers of a run tell what happens.
pub fn of_run(run: &str) -> String {
    format!("txgen.fleet.1.run.{run}")
}

/// The bucket of a run's folders.
pub fn bucket(run: &str) -> String {
    format!("txgen-{run}")
}

/// Who is there?
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
    /// The run that it works for.
    pub run: Option<String>,
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
    /// The place of this worker in the run, from 1.
    pub number: u32,
    /// The program's arguments, without where its folder is.
    pub arguments: Vec<String>,
    /// Variables of its environment; the worker's own of the same prefix are not seen.
    pub environment: Vec<(String, String)>,
}

/// From a worker to the coordinator of its run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// The worker.
    pub worker: String,
    /// What.
    pub what: What,
}

/// What a worker tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// It is there.
    Alive,
    /// A line that the program printed to stdout.
    Line(Value),
    /// The program has ended.
    Ended {
        /// Its exit code; `None` when it was killed.
        code: Option<i32>,
        /// The last lines that it wrote to stderr.
        words: Vec<String>,
    },
    /// The folder is in the bucket of the run, under the number of the worker.
    Kept,
    /// The folder cannot be brought there: why.
    NotKept(String),
}
