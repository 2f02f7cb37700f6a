//! How fast a node is fed, and when it is given a break.
//!
//! - [`Throughput`] counts committed transactions, every height once.
//! - [`Pacer`] decides how many transactions may leave now: a window of own transactions in no block
//!   yet (`window`), a bound on what waits for the node's answers (`answers`), and an exact emitter.
//! - [`Bound`] says what holds the next one back.
//! - [`BreakController`] decides when nothing is sent for a while, and measures whether that helped.
//!
//! What it is not: it sends nothing, follows no chain and reads no clock. The caller passes events
//! with their instants; the same events always lead to the same decisions.
//!
//! Read first: [`Pacer`], [`Bound`], [`BreakController`].
//!
//! # Constants of the pace
//!
//! The experiments are rows of the matrix (`tests/it/matrix.rs`; `docs/experiments.md`, section 6): each
//! constant was set so that its rows hold.
//!
//! | constant | value | reason | row |
//! |---|---|---|---|
//! | `FIRST` | 5,000 transactions | The window before a block was seen: CometBFT's default mempool. | `blocks_of_1_s`, `blocks_limited_by_gas` |
//! | `LEAST` | 8 transactions | The window, and the writes under way, are not below it: 8 kept a Cosmos SDK chain busy whose checks are serial. So many ask for the room that others race for. | `checks_of_3_ms`, `a_cosmos_sdk_chain` |
//! | `SECOND` | 1 s | Blocks within it count together, because a transaction may travel longer than a short block lasts; the interval while none is known. The highest rate of answers is kept by the second. | `four_validators_with_fast_blocks`, `a_busy_machine` |
//! | `RECENT` | 4 blocks | The largest of so many sums, the shortest of so many intervals, and the highest rate of answers in so many seconds, count: one late or empty block changes nothing. | `variable_blocks`, `a_saturated_disk` |
//! | `CROWD` | 2 blocks | Others who hold more than this after a block fill the node whatever is done. Two or three proxies that hold back do not reach it. | `a_foreign_backlog_beyond_a_block`, `two_proxies_and_capped_blocks` |
//! | `STEP` | 1.25 | The least lead of the pace over the blocks, and its growth; the gain that more connections must bring; how much more than ours a refusing mempool holds that others fill. | `blocks_of_a_fifth_of_a_second`, `concurrent_checks_of_30_ms`, `a_foreign_flood_as_large_as_the_own` |
//! | `EASE` | 0.99 a block | The lead falls slowly, so that few blocks are short. | `blocks_of_a_fifth_of_a_second` |
//! | `TAIL` | 16 a block interval | The last sixteenth of the room leaves in proportion to what is left: p99 of a polite client 239 ms instead of 837. | `blocks_of_1_s` |
//! | `AHEAD` | 20 ms | The longest burst, and the work that the node has ahead on each connection: some turns of a busy machine's scheduler. While others race for room, those that ask for it double after as long without a refusal. | `checks_of_3_ms`, `mempool_of_100_000`, `a_foreign_flood_as_large_as_the_own`; half a core on a real node |
//! | `GROUP` | 2 ms | Writes leave in groups of this length, to save wake-ups. | none: CPU |
//! | `REFUSED` | 250 ms | A full node is asked again after this, or after a block; after `AHEAD` while others fill it. | `a_foreign_flood_that_fills_the_mempool` |
//! | `LOST` | 16 blocks | Accepted transactions that no block shows for so long were dropped. | test `what_is_in_no_block_is_forgotten` |
//! | `SILENCE` | 10 s | Without blocks and depths for so long only answers and refusals count. | test `blind_the_pace_goes_by_answers_and_refusals` |
//! | `MOST_CONNECTIONS` | 16 | Clients flood a node over ten or so. | `concurrent_checks_of_3_ms` |

mod account;
mod answers;
mod bound;
mod breaks;
mod pacer;
mod settings;
mod throughput;
mod window;

pub use self::{
    bound::{Bound, Hold},
    breaks::{BreakCause, BreakController, BreakEvent, BreakFacts, BreakState},
    pacer::{Demand, Grant, Pacer},
    settings::{PaceMode, PaceSettings, PauseAction, PauseMode, PauseSettings},
    throughput::{BlockSeen, Counted, Throughput},
    window::Refused,
};
