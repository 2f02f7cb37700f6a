//! The state of the program as its operator sees it: the one source of the page and of `sentinel top`.

mod keeper;
#[cfg(test)]
mod tests;

pub use keeper::{Keeper, Moment};

use serde::{Deserialize, Serialize};

use crate::views::{ClientView, NodeView};

/// Everything that the page and `sentinel top` show. Made at most once a second, however many look.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overview {
    /// The version of the program.
    pub version: String,
    /// How long it has been serving.
    pub uptime_seconds: f64,
    /// Whether clients may be sent here.
    pub ready: bool,
    /// Why, in a few words.
    pub why: String,
    /// Whether writes may be sent: `open`, `draining` or `paused`.
    pub gate: String,
    /// The state of the break controller.
    pub controller: String,
    /// What holds the next write back.
    pub bound: Holding,
    /// What shares are counted in, and why.
    pub counted_in: String,
    /// The figures of this moment.
    pub now: Figures,
    /// Counts since the start.
    pub totals: Totals,
    /// The last minutes, second by second.
    pub history: History,
    /// The nodes, in the order of the configuration.
    pub nodes: Vec<NodeView>,
    /// The clients with the longest queues, longest first.
    pub clients: Vec<ClientFigures>,
    /// The last breaks, latest first.
    pub breaks: Vec<BreakFigures>,
    /// The last lines of the log, latest first.
    pub events: Vec<Event>,
}

/// What holds the next write back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// Its name, as in metrics.
    pub name: String,
    /// The same in a sentence with its numbers.
    pub text: String,
}

/// Figures of one moment. Rates are means over the last second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Writes that came, taken or not.
    pub received_per_second: f64,
    /// Writes that a node answered.
    pub forwarded_per_second: f64,
    /// Writes that were refused, or given up while they waited.
    pub refused_per_second: f64,
    /// Reads that ended.
    pub reads_per_second: f64,
    /// Transactions that the chain commits, everybody's, smoothed.
    pub committed_per_second: f64,
    /// Writes that may go out.
    pub pace_per_second: f64,
    /// Writes a waiting client of weight 1 gets.
    pub share_per_second: f64,
    /// Whether the pace knows neither blocks nor the mempool.
    pub pace_is_blind: bool,
    /// Writes that wait.
    pub queued: usize,
    /// Their bytes.
    pub queued_bytes: usize,
    /// Writes sent and not answered.
    pub in_flight: usize,
    /// Transactions in the node's mempool.
    pub mempool_txs: usize,
    /// Bytes of everything that is buffered.
    pub buffered_bytes: usize,
    /// Most bytes that may be.
    pub buffer_capacity_bytes: usize,
    /// Connections of clients.
    pub connections: usize,
    /// Clients with a write that waits.
    pub waiting_clients: usize,
    /// Clients with a state of their own.
    pub known_clients: usize,
}

/// Counts since the start. Writes received are those of the next five and what is still here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Writes that came.
    pub received: u64,
    /// Writes that a node answered.
    pub forwarded: u64,
    /// Writes that were not taken.
    pub refused: u64,
    /// Writes pushed out of the queue.
    pub displaced: u64,
    /// Writes that waited past their deadline.
    pub expired: u64,
    /// Writes whose client left.
    pub cancelled: u64,
    /// Reads that ended.
    pub reads: u64,
    /// Transactions in blocks.
    pub committed: u64,
    /// Breaks.
    pub breaks: u64,
    /// Their time.
    pub paused_seconds: f64,
}

/// The last minutes, oldest first; all columns are equally long, and the last element of each is of
/// this moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// When: seconds since the start.
    pub at_seconds: Vec<f64>,
    /// Writes that came, a second.
    pub received: Vec<f64>,
    /// Writes that a node answered, a second.
    pub forwarded: Vec<f64>,
    /// Transactions committed, a second.
    pub committed: Vec<f64>,
    /// Writes that may go out, a second.
    pub pace: Vec<f64>,
    /// Writes that wait.
    pub queued: Vec<usize>,
    /// Transactions in the node's mempool.
    pub mempool: Vec<usize>,
}

/// One client that waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientFigures {
    /// The client.
    #[serde(flatten)]
    pub client: ClientView,
    /// Its writes that left for the node; unknown at the first look at it.
    pub forwarded_per_second: Option<f64>,
}

/// One break.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BreakFigures {
    /// When it began: seconds since the start, to a second.
    pub at_seconds: f64,
    /// Why: `interval` or `threshold`.
    pub cause: String,
    /// How long no writes were sent.
    pub paused_seconds: f64,
    /// What it gained in committed transactions, its own time included: 0.05 is 5 % more. None until
    /// it is judged, and when it cannot be.
    pub gain: Option<f64>,
}

/// One line of the log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// How long ago.
    pub ago_seconds: f64,
    /// `INFO`, `WARN` or `ERROR`.
    pub level: String,
    /// What happened.
    pub text: String,
}

/// The path of the overview on the operator's listener.
pub const PATH: &str = "/overview";
