//! A sender shard: one thread, its connections, and every N-th due time of the global schedule.
//!
//! Nothing stands between the clock and the socket: the thread wakes at the due time, takes the
//! prepared request from its ring, writes it and stamps it. Answers are read by the same loop; the
//! kernel stamps them when they come (not through TLS), so that over HTTP they are read some at a time.
//!
//! `sender` is the loop. Its parts: `load` what is offered and how, and orders to stop and abort, `pace` when the next
//! transaction is due, `blockage` why one is late, `links` the connections, each a `link` with its `requests`,
//! `reporter` events to the recorder. The clock and the sockets are parameters (`Platform`): those of the `system` in a
//! run, scripted ones in tests.

mod accounts;
mod link;
mod links;
mod load;
mod pace;
mod reporter;
mod requests;
mod sender;
mod system;
#[cfg(test)]
pub(crate) mod tests;

use std::io;
use std::sync::Arc;

use crossbeam_channel::{Receiver, TryRecvError};
use pacing::Nanos;

use self::accounts::Accounts;
use self::links::Links;
pub use self::load::Address;
use self::load::Homes;
pub use self::load::{AtMaxInFlight, Offering, Orders, Revision, Rules, ShardLoad, StopReason};
use self::pace::{Pace, Pauses};
use self::reporter::Reporter;
pub use self::reporter::{BATCHES_IN_FLIGHT, ShardBatch};
use self::requests::Resigner;
pub use self::requests::{QUEUED_FACTOR, SLOW_ANSWER};
use self::sender::Sender;
use self::system::System;
use crate::clock::Origin;
use crate::protocol::{Families, Protocol, TxStream};
use crate::sequences::Sequences;
use crate::source::Ring;

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
    /// Reports that every connection is up.
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
