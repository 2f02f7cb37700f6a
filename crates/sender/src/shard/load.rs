//! What a shard offers, how it sends, where its connections go and each transaction of a family with them, and the orders
//! from outside that it reads at every turn of its loop.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use base::text;
use clap::{Args, ValueEnum};
use measure::UnsentReason;
use pacing::{CatchUp, Nanos, Profile, Schedule};
use parking_lot::Mutex;
use rpc::{ConnectionOptions, Endpoint, Transport};
use serde::{Deserialize, Serialize};

use crate::protocol::Families;

base::named! {
    /// What becomes of what falls due past `--max-in-flight`.
    #[derive(Default, ValueEnum, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum AtMaxInFlight {
        /// It is given up, and counted.
        #[default]
        Drop => "drop",
        /// It waits for answers and leaves late: no line of a file is left out.
        Wait => "wait",
    }
}

base::settings! {
    /// How a load is sent: flags, keys of a file, and keys of a run's manifest.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Args, Serialize, Deserialize)]
    #[serde(default)]
    #[command(next_help_heading = "Sending")]
    pub struct Rules {
        /// What becomes of transactions that are late: full (all are sent), bounded:DURATION (later ones are
        /// dropped and counted) or none.
        #[arg(long, value_name = "POLICY", default_value_t, hide_short_help = true)]
        #[serde(with = "text::value")]
        pub catch_up: CatchUp = CatchUp::Full,

        /// Transactions due and not yet answered, at most; see --at-max-in-flight.
        #[arg(long, value_name = "N", default_value_t = Self::default().max_in_flight, hide_short_help = true)]
        pub max_in_flight: NonZeroU64 = DEFAULT_MAX_IN_FLIGHT,

        /// What becomes of transactions that fall due when --max-in-flight is reached: drop (they are counted as
        /// unsent) or wait (they leave late, in their order, as answers come).
        #[arg(long, value_enum, value_name = "drop|wait", default_value_t, hide_short_help = true)]
        pub at_max_in_flight: AtMaxInFlight = AtMaxInFlight::Drop,

        /// How long an answer may take before its transaction is given up; a connection that brought no answer for
        /// as long is opened anew.
        #[arg(long, value_name = "DURATION", default_value_t = Self::default().answer_timeout, hide_short_help = true)]
        #[serde(with = "text::value")]
        pub answer_timeout: Nanos = Nanos::from_secs(60),

        /// How long to wait for answers and commits after the last due time. The wait ends earlier when the mempools
        /// are empty and three more blocks had nothing of what is pending: it was lost.
        #[arg(long, value_name = "DURATION", default_value_t = Self::default().drain_timeout, hide_short_help = true)]
        #[serde(with = "text::value")]
        pub drain_timeout: Nanos = Nanos::from_secs(30),
    }
}

impl Rules {
    /// How many may be in flight, where what is due beyond waits for them.
    pub fn waits_at(&self) -> Option<u64> {
        (self.at_max_in_flight == AtMaxInFlight::Wait).then_some(self.max_in_flight.get())
    }
}

const DEFAULT_MAX_IN_FLIGHT: NonZeroU64 = NonZeroU64::new(100_000).expect("not zero");

/// What the shard offers.
pub enum ShardLoad {
    /// Its part of the schedule, up to (without) index `end`.
    Open {
        /// Its due times.
        offering: Box<Offering>,
        /// The first index that is not sent.
        end: u64,
        /// Whether connections are opened anew in the pauses of the profile.
        reconnect_in_pauses: bool,
    },
    /// Its part of a flood.
    Flood {
        /// The first index that is not sent.
        end: u64,
        /// Transactions under way at a time.
        slots: usize,
    },
}

/// A shard's due times, and what they belong to.
#[derive(Debug, Clone)]
pub struct Offering {
    /// The due times.
    pub dues: pacing::Shard,
    /// The profile that they follow.
    pub profile: Profile,
    /// When the last transaction is due at the latest; [`Nanos::MAX`] without an end.
    pub ends_at: Nanos,
}

/// When to stop offering, why, and whether to leave without draining.
#[derive(Debug)]
pub struct Orders {
    /// Nothing due at or after this instant is offered; in nanoseconds since the origin.
    stop_at: AtomicU64,
    /// Stopped by the run's own rules, not interrupted.
    by_rule: AtomicBool,
    abort: AtomicBool,
    /// The offering does not end with the schedule: it may be revised.
    held: AtomicBool,
    revisions: AtomicU32,
    revision: Mutex<Option<Revision>>,
}

/// A schedule that goes on otherwise than planned: a step is offered again.
#[derive(Debug, Clone)]
pub struct Revision {
    /// The schedule of all shards.
    pub schedule: Schedule,
    /// Up to here it is what it was; no shard has come this far.
    pub from: Nanos,
    /// Each shard's due times from there on.
    pub offerings: Vec<Offering>,
}

/// Why the offering ends before the profile does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The run found what it looked for, or cannot find it.
    Saturated,
    /// A condition of the user's was broken.
    Condition,
    /// The user, or a failure, ended it.
    Interrupted,
}

impl Default for Orders {
    fn default() -> Self {
        Self {
            stop_at: AtomicU64::new(u64::MAX),
            by_rule: AtomicBool::new(false),
            abort: AtomicBool::new(false),
            held: AtomicBool::new(false),
            revisions: AtomicU32::new(0),
            revision: Mutex::new(None),
        }
    }
}

impl Orders {
    /// Ends the offering at `at`, an instant that no shard has reached; what waits then is unsent for
    /// this reason. The first call counts.
    pub fn stop(&self, at: Nanos, reason: StopReason) {
        if reason != StopReason::Interrupted && self.stop_at() == Nanos::MAX {
            self.by_rule.store(true, Ordering::Relaxed);
        }
        let _ = self.stop_at.compare_exchange(
            u64::MAX,
            at.as_nanos(),
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
    }

    /// Ends the offering at `at`, if no earlier order did, and makes every shard leave then.
    pub fn abort(&self, at: Nanos) {
        self.stop(at, StopReason::Interrupted);
        self.abort.store(true, Ordering::Release);
    }

    /// When the offering ends by order; [`Nanos::MAX`] without an order.
    pub fn stop_at(&self) -> Nanos {
        Nanos::from_nanos(self.stop_at.load(Ordering::Acquire))
    }

    /// Whether the end of the schedule is not the end of the offering yet.
    pub fn hold(&self, held: bool) {
        self.held.store(held, Ordering::Release);
    }

    pub(super) fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    /// Goes on by another schedule, which is the old one up to an instant ahead.
    pub fn revise(&self, revision: Revision) {
        *self.revision.lock() = Some(revision);
        self.revisions.fetch_add(1, Ordering::Release);
    }

    /// How often the schedule was revised.
    pub fn revision(&self) -> u32 {
        self.revisions.load(Ordering::Acquire)
    }

    /// The schedule as it was revised last, if it was.
    pub fn schedule(&self) -> Option<Schedule> {
        let revision = self.revision.lock();
        revision.as_ref().map(|revision| revision.schedule.clone())
    }

    /// A shard's due times by it, and from when on they hold.
    pub(super) fn revised(&self, shard: u32) -> Option<(Nanos, Offering)> {
        let revision = self.revision.lock();
        let revision = revision.as_ref()?;
        let offering = revision.offerings.get(shard as usize)?;
        Some((revision.from, offering.clone()))
    }

    /// Whether to leave without draining.
    pub fn is_aborted(&self) -> bool {
        self.abort.load(Ordering::Acquire)
    }

    /// What becomes of transactions that wait when the offering ends by order.
    pub(super) fn unsent_reason(&self) -> UnsentReason {
        if self.by_rule.load(Ordering::Relaxed) {
            UnsentReason::Stopped
        } else {
            UnsentReason::Interrupted
        }
    }
}

/// The families of a load and the nodes that they are divided among.
#[derive(Debug)]
pub(super) struct Homes {
    families: Families,
    /// The nodes' places in the plan's list, each once.
    endpoints: Vec<u16>,
    /// Families that follow one another and go to one node.
    run: u64,
}

impl Homes {
    /// `run` consecutive families go to one node, so that requests can be filled: fewer where some node would get
    /// none. At least one connection is needed.
    pub(super) fn new(families: Families, connections: &[Address], run: u64) -> Self {
        let mut endpoints: Vec<u16> = connections.iter().map(|it| it.number).collect();
        endpoints.sort_unstable();
        endpoints.dedup();
        let most = families.count() / endpoints.len().max(1) as u64;
        Self {
            families,
            run: run.clamp(1, most.max(1)),
            endpoints,
        }
    }

    /// The nodes of a transaction's family: the first that can be reached is meant.
    pub(super) fn turn(&self, index: u64) -> impl Iterator<Item = u16> {
        let count = self.endpoints.len() as u64;
        let first = self.families.of(index) / self.run;
        (0..count).map(move |step| self.endpoints[((first + step) % count) as usize])
    }
}

/// A node's address, resolved once before the run.
#[derive(Debug, Clone)]
pub struct Address {
    /// Its place in the plan's list.
    pub number: u16,
    /// How the node is reached.
    pub endpoint: Endpoint,
    /// Its resolved address.
    pub socket: SocketAddr,
    /// How its connections are made.
    pub options: Arc<ConnectionOptions>,
}

impl Address {
    /// Whether the kernel stamps when an answer came, and each is the only one on its way.
    pub(super) fn is_stamped(&self) -> bool {
        let plain_http = self.endpoint.transport() == Transport::Http && !self.endpoint.is_tls();
        plain_http && self.options.arrival_stamps
    }

    /// The same node, reached from a local address.
    #[must_use]
    pub fn reached_from(mut self, source: Option<IpAddr>) -> Self {
        if source.is_some() {
            Arc::make_mut(&mut self.options).source = source;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn homes(families: u64, endpoints: u16, run: u64) -> Homes {
        let address = |number| Address {
            number,
            endpoint: "http://127.0.0.1:1".parse().unwrap(),
            socket: "127.0.0.1:1".parse().unwrap(),
            options: Default::default(),
        };
        // Two connections to each.
        let connections: Vec<Address> = (0..endpoints).chain(0..endpoints).map(address).collect();
        let of = move |index| index % families;
        Homes::new(Families::new(families, of), &connections, run)
    }

    fn firsts(homes: &Homes, indices: std::ops::Range<u64>) -> Vec<u16> {
        let first = |index| homes.turn(index).next().unwrap();
        indices.map(first).collect()
    }

    #[test]
    fn families_are_divided_in_runs_that_leave_no_node_without() {
        assert_eq!(firsts(&homes(4, 2, 1), 0..8), [0, 1, 0, 1, 0, 1, 0, 1]);
        assert_eq!(firsts(&homes(4, 2, 20), 0..8), [0, 0, 1, 1, 0, 0, 1, 1]);
        assert_eq!(firsts(&homes(9, 3, 2), 0..9), [0, 0, 1, 1, 2, 2, 0, 0, 1]);
        assert_eq!(firsts(&homes(1, 3, 5), 0..3), [0, 0, 0]);
    }

    #[test]
    fn every_node_is_in_a_turn_once() {
        let homes = homes(6, 3, 1);
        assert_eq!(homes.turn(4).collect::<Vec<_>>(), [1, 2, 0]);
    }
}
