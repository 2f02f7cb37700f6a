//! Every threshold of a conclusion, with its reason: the one place to change them.
//!
//! Where no source is named, the limit is this program's own choice, and the reason is given.

use pacing::Nanos;

/// A target that accepts or commits a smaller share of what it was offered is saturated. 5 % is more
/// than the edges of a step and the rounding of a few blocks can take from a step that kept up.
pub const SUSTAINED_SHARE: f64 = 0.95;
/// What left after the end of its step is out of it when it was late by more than this part of the step: as much
/// as [`SUSTAINED_SHARE`] leaves out.
pub const DISPLACED_PART: u64 = 20;
/// What the generator kept longer than this is out of its step, however long that is: rates are given for each second.
pub const MOST_DISPLACEMENT: Nanos = Nanos::from_secs(1);
/// Fewer transactions that the generator did not offer in time decide nothing, whatever share of a step they are.
pub const HANDFUL: u64 = 5;
/// A ramp ends after this many steps in a row that were not sustained: one may be chance.
pub const SATURATED_STEPS: usize = 2;
/// With fewer transactions in a step, one of them is more than 5 %.
pub const MIN_OFFERED: u64 = 20;
/// A chain that keeps up leaves at most the block in progress waiting; half a block more for the
/// moment between the making of a block and its observation.
pub const BACKLOG_BLOCKS: f64 = 1.5;
/// A chain that keeps up may show a transaction two blocks after it came, and a quarter where their intervals vary:
/// one until the votes, and one more for its execution. So much more than [`BACKLOG_BLOCKS`] of a step may be missing
/// when it is judged.
pub const UNSEEN_BLOCKS: f64 = 0.75;
/// A step that is short shows an overload before [`BACKLOG_BLOCKS`] wait: from its first block to its last one
/// as much more fell due than was committed, in what falls due for a block. A chain that keeps up commits in
/// each block what waited for it; the rest is for blocks of which the first was seen sooner than the last.
pub const LEFT_BEHIND_BLOCKS: f64 = 0.4;
/// The same in seconds of the rate, where blocks are quick: a busy machine sees a block that much later.
pub const LEFT_BEHIND_S: f64 = 0.3;
/// An ended step is not judged before the blocks of its time are read. A ramp without a last step waits for them so much
/// longer than its transactions had: as long as the drain waits at the end.
pub const MOST_UNREAD: Nanos = Nanos::from_secs(30);
/// Before any block was seen, two are expected within this time: no chain in common use makes them
/// more rarely than every five seconds.
pub const SLOWEST_BLOCKS_S: f64 = 10.0;
/// The answers to what was due in a step are awaited for this long after it, or for
/// [`BACKLOG_BLOCKS`] blocks where that is longer: ten times an ordinary response time.
pub const ANSWERS_AWAITED_S: f64 = 1.0;
/// Nothing is awaited longer: three blocks of the slowest chain in common use, Bitcoin's.
pub const MOST_AWAITED_S: f64 = 1_800.0;
/// Steps that say nothing of their rate (a stall, a generator that did not offer them) end a ramp after this many failed
/// ones in a row: as many again as end it otherwise, so that a node that halts for good ends it, too.
pub const STALLED_STEPS: usize = 2 * SATURATED_STEPS;
/// No answer or block for this long is a stall, if it is also longer than [`SILENCE_BLOCKS`] intervals of
/// the chain: a pause that people see, and no ordinary response time.
pub const SILENCE_S: f64 = 1.0;
/// Intervals between blocks vary; where they are random (exponential), one in twenty is longer than this
/// many means.
pub const SILENCE_BLOCKS: f64 = 3.0;
/// What a mempool held longer ago says nothing of what it holds: it is sampled several times a second, and rows are a
/// second long.
pub const SAMPLED_WITHIN: Nanos = Nanos::from_secs(2);
/// An accepted transaction is lost when this many blocks with room for it came without one of the run's:
/// the block in progress, the next one, and one more.
pub const LOST_AFTER_BLOCKS: u64 = 3;

/// The point of a search is not sustained when more of the planned is lost: the precision that a
/// rate is quoted with.
pub const LOST_LIMIT: f64 = 0.01;
/// Nor when the backlog grows by a larger share of the rate: it would fill any mempool in time.
pub const GROWTH_LIMIT: f64 = 0.01;
/// How sure it has to be that the backlog does not grow (Student's t).
pub const GROWTH_CONFIDENCE: f64 = 0.95;
/// How sure it has to be that the backlog grew before a point is broken: of points that the target sustains one in a
/// hundred may be called broken.
pub const BROKEN_CONFIDENCE: f64 = 0.99;
/// A point is sustained only when a growth beyond this share of the rate is excluded: the precision a
/// search ends at. A wider interval leaves the point undecided.
pub const UNSEEN_GROWTH_LIMIT: f64 = 0.05;
/// Nor is it sustained on fewer blocks: with three, Student's t is 6.3 at 95 %, with five 2.4.
pub const MIN_TREND_BLOCKS: usize = 5;
/// Fewer blocks show no rate: with two intervals, one that is late by chance is half of it.
pub const MIN_RATE_BLOCKS: u64 = 4;
/// A point whose generator left more than this share of what fell due for later did not offer its
/// rate. Twice what a point may lose.
pub const BEHIND_LIMIT: f64 = 0.02;
/// A latency of which more may be the generator's own lateness is given as a range.
pub const OWN_LATENESS_LIMIT: f64 = 0.1;

/// A machine of which more is busy has nothing left for a node that needs it: the mean of seconds in some of which
/// all is.
pub const FULL_MACHINE: f64 = 0.85;

/// A node that lacked the processor for so much of a step may have lacked it for all of it: a wait that is longer than the
/// time between two looks is seen when it ends, and counts once.
pub const STARVED_SHARE: f64 = 0.5;

/// A cause that touched a smaller share of the plan did not limit the run.
pub const LIMITING_SHARE: f64 = 0.01;
/// What has a beginning and an end is weighed against what fell due in so many seconds, where the plan is longer: an
/// outage is as bad in a run of a day as in one of a minute.
pub const WINDOW_S: f64 = 60.0;
/// Refusals whose code does not tell are for what the transactions are where the first comes within the time of so many
/// at their mean rate: refusals that are even in time come later once in 150 runs.
pub const FROM_THE_START: f64 = 5.0;

/// Share of the sent transactions that may be late by the generator's own fault before the run is
/// `degraded`: beyond 1 % the p99 of the response time contains the generator's lateness.
pub const LATE_SHARE_DEGRADED: f64 = 0.01;
/// Share of the sent transactions that may be displaced by the generator before the run is `invalid`: as much as a step
/// that was sustained may miss. With `--strict` the share that may be late: beyond 5 % the p95 of the response time
/// contains the generator's lateness, too.
pub const LATE_SHARE_INVALID: f64 = 1.0 - SUSTAINED_SHARE;
/// A single stall of the generator that makes the run `degraded`: the longest gap that stays
/// inside one window of the per-second series is half a second.
pub const STALL_DEGRADED_MS: f64 = 500.0;
/// Share of the planned transactions that may stay unsent before the run is `invalid`. Any
/// unsent transaction makes it `degraded`: the offered load was not the planned one. 1 % is the
/// precision that a rate is quoted with.
pub const UNSENT_SHARE_INVALID: f64 = 0.01;
