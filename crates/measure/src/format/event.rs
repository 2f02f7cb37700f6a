//! The events that senders and block followers report, in the words of the glossary.

use pacing::Nanos;

use crate::format::code::Codespace;

/// SHA-256 of a transaction's bytes: its id on a CometBFT chain.
pub type TxHash = [u8; 32];

/// A transaction that left more than this behind its due time is *late*, and its sender names the
/// [`Cause`]; anything less is [`Cause::OnTime`].
///
/// One millisecond is the resolution of the timers most load generators pace with (tokio's wheel,
/// `setTimeout`), two orders below the shortest block interval in use, and long enough that
/// an ordinary preemption on a shared machine is not called a failure of the schedule.
pub const LATE_LIMIT: Nanos = Nanos::from_nanos(1_000_000);

/// The first eight bytes of a hash, little-endian: the key of the pending table.
pub fn hash_prefix(hash: &TxHash) -> u64 {
    let mut prefix = [0; 8];
    prefix.copy_from_slice(&hash[..8]);
    u64::from_le_bytes(prefix)
}

/// The source of events: a sender shard or a block follower. Senders come first: ids `0..senders` are
/// senders, `senders..senders + followers` are followers (see
/// [`RecorderConfig`](crate::RecorderConfig)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u16);

/// Why a transaction left when it did: what it waited for after its sender had seen that it was due.
/// Given by the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Within [`LATE_LIMIT`] of its due time.
    OnTime,
    /// The generator itself was late: its thread did not run when the due time came.
    Schedule,
    /// The signed transaction was not ready.
    Source,
    /// All connections were busy with answers that did not take long: more of them would carry more.
    /// This is a limit of the generator.
    Connection,
    /// The node held the connections up: by answers that take long, by sockets that take nothing, or
    /// by ending them.
    Node,
}

/// One transaction handed to a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Position in the global schedule, unique in the run.
    pub index: u64,
    /// The transaction's id.
    pub hash: TxHash,
    /// Bytes of the transaction itself, without any envelope.
    pub size: u32,
    /// When it was due.
    pub due: Nanos,
    /// When its last byte was handed to the socket.
    pub sent: Nanos,
    /// Index of the endpoint, as in the manifest.
    pub endpoint: u16,
    /// Index of the step that contains `due`.
    pub step: u32,
    /// Why it was late, or [`Cause::OnTime`].
    pub cause: Cause,
    /// Whether the sender's own loop delayed it by more than [`LATE_LIMIT`], whatever `cause` delayed
    /// it by besides.
    pub own_late: bool,
}

/// What came back for a broadcast.
///
/// An answer of `broadcast_tx_commit` is reduced to the same cases: its CheckTx code decides
/// between `Accepted` and `Rejected`; the result of execution comes from the block as for every other method. A node that gave up waiting for the commit is [`Failure::CommitTimeout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// CheckTx answered code 0.
    Accepted,
    /// CheckTx answered another code.
    Rejected {
        /// The code, never 0.
        code: u32,
        /// Its name space.
        space: Codespace,
    },
    /// A JSON-RPC error: the transaction was not taken.
    RpcError {
        /// The error's code, for example -32603.
        code: i32,
    },
    /// No usable answer: the transaction may still be committed.
    Failed(Failure),
}

impl Reply {
    /// CheckTx answered another code than 0, of no name space.
    pub const fn rejected(code: u32) -> Self {
        let space = Codespace::NONE;
        Self::Rejected { code, space }
    }
}

base::named! {
    /// Why an answer is missing or useless.
    pub enum Failure {
        /// The connection broke before the answer came.
        Closed => "closed",
        /// No answer within the sender's deadline.
        Timeout => "timeout",
        /// The bytes were not a JSON-RPC answer.
        Malformed => "malformed",
        /// A well-formed answer with an id that no request has.
        WrongId => "wrong_id",
        /// An HTTP status other than 200 without a JSON-RPC body.
        HttpStatus => "http_status",
        /// The node gave up waiting for the commit (`broadcast_tx_commit`).
        CommitTimeout => "commit_timeout",
        /// The node refused it because an earlier transaction of its account was not taken.
        SequenceBroken => "sequence_broken",
        /// It spends an output of a transaction that the node refused: the node's answer shows nothing
        /// about it.
        Dead => "dead",
    }
}

/// The end of one request. Its `Sent` was reported before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// The transaction's index.
    pub index: u64,
    /// [`hash_prefix`] of the transaction's hash.
    pub hash_prefix: u64,
    /// When the answer came, by the system's stamp where it gives one and otherwise when it was read;
    /// or when the sender gave up.
    pub at: Nanos,
    /// What came back.
    pub reply: Reply,
}

base::named! {
    /// Why a due transaction was never sent.
    pub enum UnsentReason {
        /// `--max-in-flight` was reached.
        MaxInFlight => "max_in_flight",
        /// The catch-up policy dropped it.
        CatchUp => "catch_up",
        /// It was still waiting when the time to drain was over.
        Deadline => "deadline",
        /// The run was interrupted while it waited.
        Interrupted => "interrupted",
        /// The run ended by itself while it waited (a saturated ramp).
        Stopped => "stopped",
        /// Its connection broke before its last byte was handed over.
        Broken => "broken",
        /// The workload had no transaction for it.
        Source => "source",
        /// The node held the connections up for so long that one of the limits above was reached.
        Node => "node",
        /// Its account was abandoned: an earlier transaction of it was not taken.
        SequenceBroken => "sequence_broken",
        /// Its generator was lost, and with it what it did.
        GeneratorLost => "generator_lost",
    }
}

/// A transaction that was due and will not be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsent {
    /// Position in the global schedule.
    pub index: u64,
    /// When it was due.
    pub due: Nanos,
    /// When it was given up.
    pub at: Nanos,
    /// Index of the step that contains `due`.
    pub step: u32,
    /// Why.
    pub reason: UnsentReason,
}

/// One transaction of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockTx {
    /// The transaction's id.
    pub hash: TxHash,
    /// Result code of its execution; 0 is success, [`UNKNOWN_CODE`] when the node does not give it.
    pub code: u32,
    /// Name space of the code.
    pub space: Codespace,
}

/// The code of a transaction in a block whose results the node does not give: it may have failed.
pub const UNKNOWN_CODE: u32 = u32::MAX;

/// One block, seen by one follower. Several followers may report the same height: the earliest
/// observation counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockSeen {
    /// The chain's height, from 1.
    pub height: u64,
    /// The header's time, nanoseconds since the Unix epoch.
    pub header_time_unix_ns: i64,
    /// When the height was first announced or seen.
    pub observed: Nanos,
    /// How much earlier the node may have had it, where it was found by polling; `None` when the node
    /// announced it.
    pub resolution: Option<Nanos>,
    /// Size of the block, or of its transactions where the node does not give it.
    pub bytes: u64,
    /// Gas that its transactions wanted; `None` where their results were not read.
    pub gas_wanted: Option<u64>,
    /// Gas that they used.
    pub gas_used: Option<u64>,
    /// Every transaction of the block, in its order.
    pub txs: Vec<BlockTx>,
}

/// The depth of one node's mempool at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MempoolSample {
    /// When it was answered.
    pub at: Nanos,
    /// Which endpoint.
    pub endpoint: u16,
    /// Transactions waiting.
    pub txs: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Whether a connection was broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReconnectReason {
    /// It is part of the plan (`square --reconnect`).
    Planned,
    /// The connection broke.
    Broken,
    /// It broke, and was not usable again by the end, whatever was tried: how long it was down by then.
    NotBack,
}

/// A connection that is usable again after it was down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reconnected {
    /// When it was usable again.
    pub at: Nanos,
    /// Which endpoint.
    pub endpoint: u16,
    /// From the break until it was usable again.
    pub down: Nanos,
    /// Attempts that failed in between.
    pub failed_attempts: u32,
    /// Why it was down.
    pub reason: ReconnectReason,
}
