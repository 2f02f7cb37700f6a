//! What held a load back, and the observations that say so.

use serde::{Deserialize, Serialize};

/// One observation that explains what held a load back.
///
/// `evidence` of `summary.json` lists them, the most telling first; `limited_by` follows from the first
/// one, if it is [`Strength::Strong`] at least. In the order of `from_s` they are the chain of causes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What was seen.
    pub kind: EvidenceKind,
    /// What it speaks against.
    pub points_to: LimitedBy,
    /// How much it weighs.
    pub strength: Strength,
    /// How many transactions it touched.
    pub txs: u64,
    /// When it began, seconds since the origin; `None` for what concerns the whole run.
    pub from_s: Option<f64>,
    /// When it ended.
    pub until_s: Option<f64>,
    /// How much a block or the mempool holds, where that is what was seen.
    #[serde(default)]
    pub limit: Option<u64>,
    /// The address of the endpoint that it is about, where it is about one of several.
    #[serde(default)]
    pub endpoint: Option<String>,
    /// The figures in words, for people.
    pub text: String,
}

/// What was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceKind {
    /// Accepted, and left out of blocks that had room for them: the node lost them.
    LostAfterAccept,
    /// A stretch without an answer while requests waited.
    NoAnswers,
    /// A stretch without an answer of one endpoint while requests to it waited.
    EndpointSilent,
    /// A stretch without a block while accepted transactions waited.
    NoBlocks,
    /// Answered with another code than 0 or with a JSON-RPC error.
    Refused,
    /// In blocks, with another code than 0.
    FailedInBlocks,
    /// Blocks of one size, the largest that was seen, which left out what waited.
    BlocksFull,
    /// Blocks without gas for another transaction, while more than a block waited.
    BlocksOutOfGas,
    /// Accepted faster than committed.
    Backlog,
    /// The mempool stopped growing when refusals began.
    MempoolFull,
    /// Accepted, and in no block by the end.
    Pending,
    /// Without a usable answer.
    NoUsableAnswer,
    /// Steps that were offered and not sustained.
    StepsFailed,
    /// One stage of the node works on one transaction at a time, and was at work nearly all the time.
    SerialStage,
    /// Late or unsent because the node held up the connections.
    HeldUpByNode,
    /// Late or unsent because connections were busy or down.
    ShortOfConnections,
    /// Late because the generator's threads did not run in time.
    ScheduleLate,
    /// Late or unsent because transactions were not ready.
    SourceLate,
    /// A closed loop: each transaction waited for an answer.
    ClosedLoop,
    /// The run was ended before its plan was.
    EndedEarly,
}

impl EvidenceKind {
    /// Whether it follows from what no block was seen to contain.
    pub(crate) const fn is_of_blocks(self) -> bool {
        use EvidenceKind::{Backlog, NoBlocks, Pending, StepsFailed};
        matches!(self, Backlog | NoBlocks | Pending | StepsFailed)
    }
}

/// How much an observation weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strength {
    /// Worth knowing; decides nothing: it touched too few, or follows from something stronger.
    Remark,
    /// It held the load back.
    Strong,
    /// A failure whatever else was seen.
    Decisive,
}

/// What held the run back most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// Nothing: the node kept up with what was offered.
    Nothing,
    /// It cannot be told.
    Unknown,
    /// The generator's threads did not run in time.
    Schedule,
    /// The workload could not prepare transactions fast enough.
    Source,
    /// Connections were busy or down.
    Connection,
    /// The concurrency of a closed loop, and the time that answers took.
    Concurrency,
    /// The node pushed back, refused, or did not commit what it accepted.
    Node,
}

impl LimitedBy {
    /// What it is, a colon, and what that means.
    #[must_use]
    pub const fn explain(self) -> &'static str {
        match self {
            Self::Nothing => "nothing: the node kept up with what was offered",
            Self::Unknown => "unknown: the run ended before it could tell",
            Self::Schedule => "schedule: the generator did not get the processor in time",
            Self::Source => "source: transactions were not ready in time",
            Self::Connection => {
                "connection: all were busy or down; more --connections may carry more"
            }
            Self::Concurrency => {
                "concurrency: each transaction waited for an answer; more --concurrency may carry more"
            }
            Self::Node => "node: it pushed back, refused, or did not commit what it accepted",
        }
    }
}
