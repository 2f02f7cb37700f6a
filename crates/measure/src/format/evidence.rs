//! What held a load back, and the observations that show it: kinds and numbers. `report` has the sentences.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One observation that explains what held a load back.
///
/// `evidence` of `summary.json` lists them, the most telling first; `limited_by` follows from the first
/// one, if it is [`Strength::Strong`] at least. In the order of `from_s` they are the chain of causes. Counts
/// and rates that the summary has elsewhere are not repeated here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What was seen, with its numbers.
    #[serde(flatten)]
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
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EvidenceKind {
    /// Accepted, and left out of blocks that had room for them: the node lost them.
    LostAfterAccept {
        /// The last blocks, none of which contains a transaction of the run.
        blocks: u64,
    },
    /// A stretch without an answer while requests waited.
    NoAnswers,
    /// A stretch without an answer of one endpoint while requests to it waited.
    EndpointSilent {
        /// Its address.
        endpoint: String,
    },
    /// A stretch without a block while accepted transactions waited.
    NoBlocks,
    /// Answered with another code than 0 or with a JSON-RPC error.
    Refused,
    /// In blocks, with another code than 0.
    FailedInBlocks,
    /// Blocks that left out what waited.
    BlocksFull {
        /// Transactions in the largest of them.
        limit: u64,
    },
    /// Blocks without gas for another transaction, while more than a block waited.
    BlocksOutOfGas {
        /// Gas that a block may have.
        limit: u64,
        /// Transactions in them.
        block_txs: u64,
    },
    /// Accepted faster than committed.
    Backlog,
    /// The mempool stopped growing when refusals began.
    MempoolFull {
        /// Transactions in it.
        limit: u64,
    },
    /// Accepted, and in no block by the end.
    Pending {
        /// Whether every block was seen.
        all_seen: bool,
        /// Whether an answer shows that the node has checked the transaction.
        checked: bool,
    },
    /// Without a usable answer.
    NoUsableAnswer,
    /// Steps that were offered and not sustained.
    StepsFailed {
        /// How many.
        failed: u64,
        /// Of so many.
        steps: u64,
        /// The rate of the first.
        rate_tps: f64,
        /// Why it was not sustained.
        excess: Excess,
    },
    /// One stage of the node works on one transaction at a time, and was at work nearly all the time.
    SerialStage(StageEvidence),
    /// Late or unsent because the node held up the connections.
    HeldUpByNode(LateOrUnsent),
    /// Late or unsent because connections were busy or down.
    ShortOfConnections(LateOrUnsent),
    /// Late because the generator's threads did not run in time.
    ScheduleLate(LateOrUnsent),
    /// Late or unsent because transactions were not ready.
    SourceLate(LateOrUnsent),
    /// A closed loop: each transaction waited for an answer.
    ClosedLoop,
    /// The run was ended before its plan was.
    EndedEarly,
    /// Something in a gossip network.
    Mesh(MeshEvidence),
    /// Evidence of a folder that an earlier version wrote, in its words.
    Worded {
        /// Its kind.
        was: String,
        /// The sentence.
        text: String,
    },
}

/// Transactions that a cause touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateOrUnsent {
    /// Sent more than 1 ms late.
    pub late: u64,
    /// Not sent at all.
    pub unsent: u64,
}

/// What shows that a stage of the node was at work nearly all the time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum StageEvidence {
    /// The times of answers: they waited for others, and what was accepted did not wait for blocks. CheckTx, the RPC or a
    /// limit in front of the node had no more.
    Answers {
        /// Answers in a second, at most.
        most_tps: f64,
        /// What one takes when none waits, in milliseconds.
        alone_ms: f64,
        /// The product of the two: as many were in work at once; about 1 where one is checked at a time.
        at_once: f64,
        /// What one takes when others wait, at most.
        crowded_ms: f64,
    },
    /// The times of blocks.
    Blocks {
        /// The stage that takes the time between blocks; `None`: execution and recheck together.
        stage: Option<Stage>,
        /// What a transaction costs in its block, in milliseconds.
        execution_ms: f64,
        /// What it costs in the mempool after a block.
        recheck_ms: f64,
        /// The share of the time between blocks that execution takes.
        execution: f64,
        /// The share that recheck takes.
        recheck: f64,
        /// The time between blocks, in seconds.
        gap_s: f64,
    },
    /// The node's own metrics.
    Metrics {
        /// The node.
        node: String,
        /// The stage that was at work most; `None`: none was for half of the time.
        stage: Option<Stage>,
        /// The share of the time in which CheckTx was at work; `None` where its calls waited for each
        /// other in every second.
        check: Option<f64>,
        /// The same of execution.
        execution: f64,
        /// The same of recheck.
        recheck: f64,
    },
    /// The counters of the built-in Bitcoin node's admission.
    Admission {
        /// Its mode.
        mode: String,
        /// The share of its busiest second in which it checked.
        share: f64,
        /// Transactions checked in that second.
        rate_tps: f64,
    },
}

/// What was seen in a gossip network. What is of one second has the figures of its first one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "snake_case")]
pub enum MeshEvidence {
    /// A node saw fewer new entries than were offered.
    EntriesMissing {
        /// The node.
        node: u16,
        /// Entries that it saw.
        seen: u64,
        /// Transactions offered in the same second.
        offered: u64,
    },
    /// A node dropped parcels at full queues.
    QueueFull {
        /// The node.
        node: u16,
    },
    /// The generator offered less than was due, or late.
    OfferShort {
        /// Transactions offered.
        offered: u64,
        /// Transactions due.
        planned: u64,
        /// p99 of the lateness, in milliseconds; `None` of the whole load.
        late_ms: Option<f64>,
    },
    /// A node ended.
    NodeEnded {
        /// The node.
        node: u16,
    },
    /// A node saw no new entry for seconds in which some were offered; it has recovered where the evidence ends.
    Outage {
        /// The node.
        node: u16,
    },
    /// A node wrote as much as its rate allows.
    RateReached {
        /// The node.
        node: u16,
        /// Bytes that it wrote in a second.
        bytes_per_s: f64,
        /// Bytes that it may write in a second.
        limit_bytes_per_s: f64,
    },
    /// All nodes together wrote as much as the switch between them carries.
    SwitchFull {
        /// Bytes that they wrote in a second.
        bytes_per_s: f64,
        /// Bytes that it carries in a second.
        limit_bytes_per_s: f64,
    },
    /// A node used all of the one CPU that it can use, or of its share.
    CpuFull {
        /// The node.
        node: u16,
        /// CPUs that it used.
        cpus: f64,
        /// CPUs that it has: one, or its share.
        limit_cpus: f64,
    },
    /// The machine had no CPU to spare.
    MachineFull {
        /// CPUs of the machine.
        cpus: f64,
        /// Of those, busy with any program.
        busy: f64,
        /// Of the busy ones, with programs that are not of the mesh, where they had a part that counts.
        others: Option<f64>,
        /// CPUs that other guests of the host had.
        stolen: f64,
        /// Time that all nodes together waited for a CPU in a second, in seconds.
        waited_s: f64,
    },
}

/// A stage of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// CheckTx of new transactions.
    Check,
    /// FinalizeBlock and Commit.
    Execution,
    /// CheckTx of what a block left in the mempool.
    Recheck,
}

/// How the steps of a run are judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepTerms {
    /// Whether blocks were watched.
    pub followed: bool,
    /// Whether a step counts as offered only where it left on time to the millisecond (`--strict`).
    pub strict: bool,
}

/// Why a step was not sustained.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Excess {
    /// What fell short.
    pub shortfall: Shortfall,
    /// How long the node gave no sign, if that is why: the rest of the step kept up.
    pub stall_s: Option<f64>,
}

/// What fell short, as a share of the transactions due in a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shortfall {
    /// Only these were sent, or on time: the generator could not offer the step.
    Offered(f64),
    /// Only these were accepted.
    Accepted(f64),
    /// Only these were committed with code 0.
    Committed(f64),
    /// These failed in their blocks.
    FailedInBlocks(f64),
    /// These were sent late because of the node.
    Late(f64),
    /// Only these were committed, and as much may wait for a block at the edges of a step of so few blocks.
    Unclear(f64),
    /// The node lacked the processor for this share of the step, which is enough to explain what it did not do.
    Starved(f64),
}

impl Excess {
    /// Whether the step shows that the node did not sustain its rate.
    pub const fn is_the_nodes(&self) -> bool {
        !matches!(
            self.shortfall,
            Shortfall::Offered(_) | Shortfall::Unclear(_) | Shortfall::Starved(_)
        )
    }

    /// Whether it leaves open what the node does at the rate: it stood still for a while and kept up otherwise, the
    /// rate was not offered, too few blocks show it, or the node lacked the processor.
    pub const fn is_open(&self) -> bool {
        self.stall_s.is_some() || !self.is_the_nodes()
    }

    /// What became of the step, in two words.
    pub const fn label(&self) -> &'static str {
        match self.shortfall {
            Shortfall::Offered(_) => "not offered",
            Shortfall::Unclear(_) | Shortfall::Starved(_) => "not clear",
            _ => "not sustained",
        }
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (only, share, fate) = match self.shortfall {
            Shortfall::Starved(share) => (
                "for ",
                share,
                "the step the node waited for a processor, which may be why it took less",
            ),
            Shortfall::Offered(share) => (
                "only ",
                share,
                "sent in time: the generator could not offer it",
            ),
            Shortfall::Accepted(share) => ("only ", share, "accepted"),
            Shortfall::Committed(share) => ("only ", share, "committed"),
            Shortfall::FailedInBlocks(share) => ("", share, "committed with an error code"),
            Shortfall::Late(share) => ("", share, "sent late because of the node"),
            Shortfall::Unclear(share) => (
                "only ",
                share,
                "committed, and the rest may be in the next block: too few blocks to tell",
            ),
        };
        if let Shortfall::Starved(_) = self.shortfall {
            write!(f, "{only}{:.0} % of {fate}", share * 100.0)?;
        } else if share < 0.0005 {
            write!(f, "nothing of what was offered was {fate}")?;
        } else {
            write!(f, "{only}{:.1} % of offered was {fate}", share * 100.0)?;
        }
        match self.stall_s {
            Some(stall_s) => write!(f, " (stall of {stall_s:.1} s)"),
            None => Ok(()),
        }
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
    /// It is undecided.
    Unknown,
    /// The generator's threads did not run in time.
    Schedule,
    /// The workload could not prepare transactions fast enough.
    Source,
    /// Connections were busy or down.
    Connection,
    /// The concurrency of a closed loop, and the time that answers took.
    Concurrency,
    /// What was sent: the target refuses it for what it is, or fails it in its block.
    Workload,
    /// The node pushed back, refused, or did not commit what it accepted.
    Node,
}
