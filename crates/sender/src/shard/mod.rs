//! A sender shard: one thread, its connections, and every N-th due time of the global schedule.
//!
//! Nothing stands between the clock and the socket: the thread wakes at the due time, takes the
//! prepared request from its ring, writes it and stamps it. Answers are read by the same loop; the
//! kernel stamps them when they come (not through TLS), so that over HTTP they are read some at a time.
//!
//! `sender` is the loop. Its parts: `load` what is offered and how, `pace` when the next transaction is
//! due, `blockage` why one is late, `links` the connections, each a `link` with its `requests`,
//! `reporter` events to the recorder, `orders` stop and abort. The clock and the sockets are parameters
//! (`platform`): those of the `system` in a run, scripted ones in tests.

mod accounts;
mod address;
mod blockage;
mod homes;
mod link;
mod links;
mod orders;
mod pace;
mod reporter;
mod requests;
mod sender;
mod system;

use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;

use base::text;
use clap::{Args, ValueEnum};
use crossbeam_channel::{Receiver, TryRecvError};
use pacing::{CatchUp, Nanos, Profile};
use serde::{Deserialize, Serialize};

pub use self::address::Address;
pub use self::orders::{Orders, Revision, StopReason};
pub use self::reporter::{BATCHES_IN_FLIGHT, ShardBatch};
pub use self::requests::{QUEUED_FACTOR, SLOW_ANSWER};

use self::accounts::Accounts;
use self::homes::Homes;
use self::links::Links;
use self::pace::{Pace, Pauses};
use self::reporter::Reporter;
use self::requests::Resigner;
use self::sender::Sender;
use self::system::System;
use crate::clock::Origin;
use crate::protocol::Protocol;
use crate::sequences::Sequences;
use crate::source::Ring;
use crate::stream::Families;
use crate::stream::TxStream;

#[cfg(test)]
pub(crate) mod tests;

/// What a shard needs to know.
pub struct ShardConfig {
    /// The shard's number.
    pub shard: u32,
    /// How many there are.
    pub of: u32,
    /// One entry per connection.
    pub connections: Vec<Address>,
    /// How it sends.
    pub rules: Rules,
    /// What it offers.
    pub load: ShardLoad,
    /// Where an account's transactions have to arrive in their order.
    pub ordered: Option<Ordered>,
    /// Which transactions have to go to the same node, where there are several.
    pub families: Option<Families>,
}

/// The accounts whose order a shard keeps.
pub struct Ordered {
    /// Where the accounts go on.
    pub sequences: Arc<Sequences>,
    /// The shard's first index.
    pub first: u64,
    /// How far apart its indices are.
    pub stride: u64,
    /// Signs anew what was signed before its account's sequences broke.
    pub stream: Box<dyn TxStream>,
}

/// The two ways to and from a shard's recorder.
pub struct ShardChannels {
    /// Batches for the recorder.
    pub full: crossbeam_channel::Sender<ShardBatch>,
    /// Batches that the recorder has read.
    pub empty: Receiver<ShardBatch>,
    /// Says that every connection is up.
    pub opened: crossbeam_channel::Sender<u32>,
    /// Brings the origin when all shards are ready.
    pub start: Receiver<Origin>,
}

/// Runs one shard to its end.
///
/// # Errors
/// When the system refuses an epoll set, or no connection could be opened before the start.
pub(crate) fn run<T: Protocol>(
    target: T,
    config: ShardConfig,
    ring: Ring,
    channels: ShardChannels,
    orders: &Orders,
) -> io::Result<()> {
    let shard = config.shard;
    let reporter = Reporter::new(shard as u16, channels.full, channels.empty);
    let mut sender = assemble(target, config, System::new()?, ring, reporter, orders);
    sender.open_all()?;
    let _ = channels.opened.send(shard);
    let origin = loop {
        match channels.start.try_recv() {
            Ok(origin) => break origin,
            // The run was called off.
            Err(TryRecvError::Disconnected) => return Ok(()),
            Err(TryRecvError::Empty) => sender.keep_alive(START_POLL)?,
        }
    };
    sender.platform().start(origin);
    sender.run()
}

/// Puts the parts of a shard together.
fn assemble<T: Protocol, P: system::Platform>(
    target: T,
    config: ShardConfig,
    platform: P,
    ring: Ring,
    mut reporter: Reporter,
    orders: &Orders,
) -> Sender<'_, T, P> {
    let (pace, pauses) = match config.load {
        ShardLoad::Flood { end, slots } => {
            (Pace::closed(config.shard, config.of, end, slots), None)
        }
        ShardLoad::Open {
            offering,
            end,
            reconnect_in_pauses,
        } => {
            let pauses = reconnect_in_pauses.then(|| Pauses::new(offering.profile.clone()));
            (Pace::open(config.shard, *offering, end), pauses)
        }
    };
    let resigner = config.ordered.map(|ordered| {
        reporter.keep_order(Accounts::new(
            ordered.sequences,
            ordered.first,
            ordered.stride,
        ));
        Resigner::new(target.clone(), ordered.stream)
    });
    let run = u64::from(config.of) * u64::from(target.limits().batch.get());
    let homes = config
        .families
        .map(|families| Homes::new(families, &config.connections, run));
    let links = Links::new(
        platform,
        target,
        config.connections,
        config.rules.answer_timeout,
        pauses,
    );
    let links = links.with_homes(homes);
    let sender = Sender::new(links, ring, pace, reporter, orders, config.rules);
    sender.resigning(resigner)
}

const START_POLL: Nanos = Nanos::from_millis(1);

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

        /// How long to wait for answers and commits after the last due time.
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
