//! What is counted of transactions, and how the counts of several parts add up.

use std::collections::BTreeMap;

use pacing::Nanos;

use crate::format::event::{Cause, LATE_LIMIT, Sent, UnsentReason};
use crate::limits::{DISPLACED_PART, MOST_DISPLACEMENT};

/// How two parts become a whole.
pub(crate) trait AddUp {
    /// Adds the counts of another part.
    fn add_up(&mut self, part: &Self);
}

/// Implements [`AddUp`] from a list of fields: the `sum` of some, the `max` of others, and nothing
/// of those that are not listed.
macro_rules! adds_up {
    ($type:ty { sum: $($sum:ident),* $(; max: $($max:ident),*)? $(,)? }) => {
        impl $crate::format::counts::AddUp for $type {
            fn add_up(&mut self, part: &Self) {
                $($crate::format::counts::AddUp::add_up(&mut self.$sum, &part.$sum);)*
                $($($crate::format::counts::raise(&mut self.$max, &part.$max);)*)?
            }
        }
    };
}
pub(crate) use adds_up;

/// Keeps the larger one.
pub(crate) fn raise<T: PartialOrd + Copy>(value: &mut T, other: &T) {
    if *other > *value {
        *value = *other;
    }
}

/// The sum of all parts.
pub(crate) fn sum<'a, T: AddUp + Default + 'a>(parts: impl IntoIterator<Item = &'a T>) -> T {
    parts.into_iter().fold(T::default(), |mut sum, part| {
        sum.add_up(part);
        sum
    })
}

/// Defines a struct of counters: all of them `u64`, listed once for its fields and its sum.
macro_rules! counters {
    ($(#[$about:meta])* pub struct $name:ident { $($(#[$doc:meta])* $field:ident,)* }) => {
        #[derive(
            Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize,
        )]
        $(#[$about])*
        pub struct $name {
            $($(#[$doc])* pub $field: u64,)*
        }

        $crate::format::counts::adds_up!($name { sum: $($field),* });

        impl std::ops::AddAssign for $name {
            fn add_assign(&mut self, part: Self) {
                $crate::format::counts::AddUp::add_up(self, &part);
            }
        }
    };
}

pub(crate) use counters;

counters! {
    /// The counts of a span of time, a step or a run: the columns that `series.csv` and `steps.csv`
    /// have in common.
    pub struct Counts {
        /// Fell due; in a closed loop, sent.
        offered,
        /// Handed to a socket.
        sent,
        /// Given up.
        unsent,
        /// Answered with code 0.
        accepted,
        /// Answered with another code or a JSON-RPC error.
        rejected,
        /// Without a usable answer.
        errors,
        /// Own transactions seen in blocks, code 0.
        committed,
        /// Own transactions seen in blocks, other code.
        commit_failed,
        /// Own transactions seen in blocks whose results the node did not give.
        #[serde(default)]
        unverified,
        /// Blocks observed.
        blocks,
    }
}

counters! {
    /// Transactions later than [`LATE_LIMIT`], by cause. One that its sender saw
    /// late and that then waited for something else counts in both.
    pub struct Late {
        /// The generator's thread was late.
        schedule,
        /// The transaction was not ready.
        source,
        /// There were too few connections for the rate and the time that an answer takes.
        connection,
        /// The node held the connections up.
        node,
    }
}

counters! {
    /// Transactions that were not offered when they should have been, by the cause: those that left so late that
    /// the load was another one. They left after the end of their step, and by more than a twentieth of it late; or,
    /// where the generator kept them, by more than a second. Lateness below that is in the latencies.
    pub struct Displaced {
        /// The generator's threads or its source.
        behind,
        /// Its connections, or its limit on what may be in flight.
        crowded,
        /// The node.
        held_up,
    }
}

counters! {
    /// Transactions found in a block although their answer was not an acceptance.
    pub struct CommittedAnyway {
        /// The answer was another code or a JSON-RPC error.
        rejected,
        /// The answer was missing or unusable.
        errors,
        /// No answer by the end of the run.
        unanswered,
    }
}

impl Counts {
    /// Sent and not answered.
    pub const fn in_flight(&self) -> u64 {
        self.sent
            .saturating_sub(self.accepted + self.rejected + self.errors)
    }

    /// Offered, and neither sent nor given up.
    pub const fn unsent_yet(&self) -> u64 {
        self.offered.saturating_sub(self.sent + self.unsent)
    }

    /// Accepted and not in a block.
    pub const fn backlog(&self) -> u64 {
        self.accepted.saturating_sub(self.in_blocks())
    }

    /// Own transactions in blocks, whatever their code.
    pub const fn in_blocks(&self) -> u64 {
        self.committed + self.commit_failed + self.unverified
    }
}

impl Late {
    pub(crate) const fn count(&mut self, sent: &Sent) {
        let schedule = sent.own_late || matches!(sent.cause, Cause::Schedule);
        self.schedule += schedule as u64;
        match sent.cause {
            Cause::OnTime | Cause::Schedule => {}
            Cause::Source => self.source += 1,
            Cause::Connection => self.connection += 1,
            Cause::Node => self.node += 1,
        }
    }

    /// How late the generator itself can have made a transaction, of which the latest was late by `most` milliseconds.
    pub(crate) fn own_ms(&self, most: f64) -> f64 {
        match self.by_generator() + self.connection {
            // What is not late has no cause.
            0 => most.min(LATE_LIMIT.as_millis_f64()),
            _ => most,
        }
    }

    /// Late by the generator's own fault.
    pub const fn by_generator(&self) -> u64 {
        self.schedule + self.source
    }
}

impl Displaced {
    /// One that left this much after its due time for `cause`, in its own step (`true`) or after it.
    pub(crate) fn sent(
        cause: Cause,
        lateness: Nanos,
        in_step: bool,
        length: Option<Nanos>,
    ) -> Self {
        let tolerance = length.map_or(MOST_DISPLACEMENT, |length| {
            let share = Nanos::from_nanos(length.as_nanos() / DISPLACED_PART);
            share.min(MOST_DISPLACEMENT)
        });
        let is_outside = !in_step && lateness > tolerance;
        match cause {
            Cause::Node => Self::of(cause, is_outside),
            _ => Self::of(cause, is_outside || lateness > MOST_DISPLACEMENT),
        }
    }

    /// One that was given up.
    pub(crate) fn unsent(reason: UnsentReason) -> Self {
        match reason {
            UnsentReason::CatchUp | UnsentReason::Source => Self::of(Cause::Schedule, true),
            UnsentReason::MaxInFlight | UnsentReason::Deadline | UnsentReason::Broken => {
                Self::of(Cause::Connection, true)
            }
            UnsentReason::Node => Self::of(Cause::Node, true),
            // Without a cause: the end of the run, and the consequence of a refusal. What a lost generator did is not known.
            UnsentReason::Interrupted
            | UnsentReason::Stopped
            | UnsentReason::SequenceBroken
            | UnsentReason::GeneratorLost => Self::default(),
        }
    }

    fn of(cause: Cause, is_displaced: bool) -> Self {
        let one = u64::from(is_displaced);
        let mut part = Self::default();
        match cause {
            Cause::OnTime => {}
            Cause::Schedule | Cause::Source => part.behind = one,
            Cause::Connection => part.crowded = one,
            Cause::Node => part.held_up = one,
        }
        part
    }

    /// By the generator, in any way.
    pub const fn by_generator(&self) -> u64 {
        self.behind + self.crowded
    }
}

impl CommittedAnyway {
    /// All three.
    pub const fn total(&self) -> u64 {
        self.rejected + self.errors + self.unanswered
    }
}

impl AddUp for u64 {
    fn add_up(&mut self, part: &Self) {
        *self += part;
    }
}

impl AddUp for i64 {
    fn add_up(&mut self, part: &Self) {
        *self += part;
    }
}

impl AddUp for f64 {
    fn add_up(&mut self, part: &Self) {
        *self += part;
    }
}

impl<T: AddUp, const N: usize> AddUp for [T; N] {
    fn add_up(&mut self, part: &Self) {
        for (value, part) in self.iter_mut().zip(part) {
            value.add_up(part);
        }
    }
}

/// Counts by name.
impl AddUp for BTreeMap<String, u64> {
    fn add_up(&mut self, part: &Self) {
        for (name, count) in part {
            *self.entry(name.clone()).or_default() += count;
        }
    }
}
