//! How fast a node is fed, and when it is given a break.
//!
//! - [`Throughput`] counts committed transactions, every height once.
//! - [`Pacer`] decides how many transactions may leave now: a window of own transactions in no block yet
//!   (`window`, one pure function from a state and what was seen between two blocks to the next state), less what is
//!   kept for clients that ask for little (the same file), the free places of the mempool (`load`), the in-flight cap on
//!   what waits for the node's answers (`in_flight`), and an exact emitter.
//! - [`Bound`] names the limit that holds the next write back.
//! - [`BreakController`] decides when nothing is sent for a while, and measures whether that helped.
//!
//! What it is not: it sends nothing, follows no chain and reads no clock. The caller passes events
//! with their instants, and knows by hash what is own; the same events always lead to the same decisions.
//!
//! Read first: [`Pacer`], [`Bound`], [`BreakController`].
//!
//! # Constants of the pace
//!
//! The experiments are rows of the matrix (`tests/it/matrix.rs`; `docs/experiments.md`, section 5).
//!
//! | constant | value | reason | row |
//! |---|---|---|---|
//! | `FIRST` | 64 transactions | The window before blocks have shown anything, where the chain's last blocks and its limits show nothing: less than two blocks of a chain of 40 transactions a block, which with 500 had 11.6 in its mempool after a second. | tests `pacing_48_a_chain_that_has_shown_nothing…`, `pacing_48_sentinels_alone…` |
//! | `MOST_FIRST` | 1,024 transactions | The same at most where a block by the chain's limits is larger, less what others have there: a fifth of CometBFT's default mempool (5,000), so that four proxies that guess too much are not refused. With 64 a second's 1,000 writes waited up to 1.6 s for three blocks; with 2,048 p99 of a mempool of 300 was 787 ms for 217. | tests `pacing_48_a_steady_load…`, `pacing_48_limits_that_say_too_much…`, `a_cosmos_sdk_chain_with_a_mempool_of_300` |
//! | `LEAST` | 8 transactions | The window, and the in-flight cap, are not below it: 8 kept a Cosmos SDK chain busy whose checks are serial. | `checks_of_3_ms`, `a_cosmos_sdk_chain` |
//! | `SECOND` | 1 s | Blocks within it count together, because a transaction may travel longer than a short block lasts; the interval while none is known. The highest rate of answers is kept by the second. | `four_validators_with_fast_blocks`, `a_busy_machine` |
//! | `RECENT` | 4 blocks | The largest of so many sums, the shortest of so many intervals, the highest rate of so many seconds and the most lines of so many rounds count. A round is so many blocks, or a second if that is shorter; what is learnt of connections holds for 4 times as many rounds, twice as many after each further trial, up to 256. | `variable_blocks`, `a_saturated_disk` |
//! | `STEP` | 1.25 | The least pacing gain (the pace over the blocks), and its growth; more lines by this factor than connections were tried for are others; fewer connections stay if answers are slower by no more than half of it: with all of it one of two sentinels with fewer connections than the other had 0.76 of its share. | `blocks_of_a_fifth_of_a_second`, tests `fewer_connections_are_kept…`, `controller_27…` |
//! | `LEAST_RATE` | 50/s | The adaptive pace is not below it: a chain that has committed next to nothing is tried. It was the default of `pace.min_req`, which nothing set. | `blocks_of_30_s` |
//! | `PROBE` | 8 | The pacing gain is at most so much. With a gain of 4 own clients had 0.86 of what they get directly beside a flood. | `a_foreign_flood_as_large_as_the_own` |
//! | `NEARLY` | 0.99 | Part of a room from which on it counts as filled, and part of the mempool that is; the pacing gain falls by it with each block, so that few blocks are short. | `blocks_of_a_fifth_of_a_second` |
//! | `DEVIATIONS` | 2 | Places are kept for what clients that ask for little are expected to send, and so many standard deviations of random arrivals (Halfin and Whitt 1981). With none kept p99 of a polite client beside one with 60 writes waiting was 166 to 335 ms; with these 2. | tests `pacing_53_…` |
//! | half of what is free, a sixteenth (`Pacer::kept`) | ½, ¹⁄₁₆ | Kept of the window for clients that come for the first time: the part of one beside one other, less and less until the next block. Without it p99 of a client that comes for ten seconds in twenty was 542 ms with blocks of 40 transactions. The least part that stays kept while a block is late is a sixteenth, as of all that clients share (`sentinel`'s budget), or what small clients send in a block's time: with one place 1,000 small writes a second beside large ones waited 20 to 200 ms for a late block. | tests `pacing_53_places_are_kept_for_clients_that_come_for_the_first_time`, `pacing_53_places_stay_kept…` |
//! | `AHEAD` | 20 ms | The longest burst, and the work that the node has ahead: some turns of a busy machine's scheduler. A full mempool is asked again after it; a tenth of it is the least group in which writes leave. | `checks_of_3_ms`, `mempool_of_100_000`, `a_foreign_flood_as_large_as_the_own` |
//! | `SILENCE` | 10 s | Without blocks and depths for so long only answers and refusals count. | test `blind_the_pace_goes_by_depths…` |
//! | `MOST_CONNECTIONS` | 64 | Connections at most, of the 900 that a node takes. | `serial_answers_64_clients` |
//!
//! # What mechanisms win
//!
//! Each switched off alone, against the matrix as it is.
//!
//! | mechanism | without it |
//! |---|---|
//! | gain beyond `STEP` | committed: `a_very_busy_machine` 0.77, `four_validators` 0.82, `a_cosmos_sdk_chain_with_a_mempool_of_1_000` 0.86, six more 0.90 to 0.95; own beside a foreign flood 0.54 |
//! | the first write that a full mempool takes opens the room of a block | own beside a foreign flood 0.87; p99 of `variable_blocks` 1.14 |
//! | what is too many leaves over some blocks | p99 of `blocks_of_40_and_a_client_with_60_waiting` 2 ms → 21 s, `blocks_of_200` 2 → 708 ms, `blocks_limited_by_bytes_and_mixed_sizes` 2 → 802 ms |
//! | the time of a write sent alone replaces the least | no row; the cap follows a node that has become slower (test `a_node_that_is_further_away…`) |

mod bound;
mod breaks;
mod emitter;
mod in_flight;
mod load;
mod pacer;
mod settings;
mod throughput;
mod window;

pub use self::{
    bound::{Bound, Grant, Hold, Refused},
    breaks::{BreakCause, BreakController, BreakEvent, BreakFacts, BreakState},
    load::{Demand, Load, Unit},
    pacer::Pacer,
    settings::{MinTxRate, PaceMode, PauseAction, PauseSettings},
    throughput::{BlockSeen, Throughput},
};
