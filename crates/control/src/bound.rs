//! What keeps the next write back, what may leave, and why the node did not take what left.

use std::time::Duration;

use pacing::{Nanos, Rate};
use strum::{IntoStaticStr, VariantNames};

use crate::breaks::BreakState;
use crate::load::Unit;

/// The bound that holds at a moment, with its numbers. The pacer names its own; those of one client
/// ([`Share`](Self::Share)) and of the node ([`Held`](Self::Held), [`Break`](Self::Break),
/// [`NodeSilent`](Self::NodeSilent), [`NodeDown`](Self::NodeDown)) are named by the queue and the lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Bound {
    /// Nothing: what comes leaves at once.
    #[default]
    Nothing,
    /// One client's part of the rate, while others wait too.
    Share {
        /// Writes a second that it gets.
        per_second: f64,
        /// Clients that wait.
        clients: usize,
    },
    /// The configured rate (`fair.max_req`).
    Ceiling(Rate),
    /// The room that the last block left is spread over the time until the next.
    Pace(Rate),
    /// Own transactions sent and in no block yet are as many as about two blocks take.
    Window {
        /// How many they are.
        own: usize,
        /// How many they may be.
        limit: usize,
        /// In which unit.
        unit: Unit,
    },
    /// As many writes wait for the node's answers as keep it busy.
    InFlightCap {
        /// Writes sent and not answered.
        under_way: usize,
        /// How many may be.
        limit: usize,
        /// What answers take now.
        answers_take: Duration,
        /// What they take when nothing else is under way.
        unloaded: Duration,
    },
    /// The node's mempool is as full as it may be.
    Mempool {
        /// Own transactions in it.
        own: usize,
        /// Those of others in it.
        others: usize,
        /// How many it may hold.
        limit: usize,
    },
    /// Nothing is sent until something else is done.
    Held(Hold),
    /// The node is given a break, and where that stands.
    Break(BreakState),
    /// The node answers nothing, although writes are under way and its connections are open.
    NodeSilent {
        /// Since then.
        since: Nanos,
        /// Writes sent and not answered.
        under_way: usize,
    },
    /// No node takes writes since then; the program's start if none ever did.
    NodeDown(Nanos),
}

base::named! {
    /// Why nothing is sent although a node is there, with the text for people.
    pub enum Hold {
        /// The node refused a write because its mempool is full or being rechecked.
        Refused => "a refusal: the node's mempool is full or being rechecked",
        /// A connection broke, and it is not known yet which writes the node has.
        Recovery => "a broken connection: it is not known yet which writes the node has",
        /// No write connection is up.
        Connecting => "the connections: none to the node is up",
    }
}

impl Bound {
    /// The names of every kind of bound, as in metrics.
    pub const NAMES: &[&str] = Self::VARIANTS;

    /// The name in metrics.
    pub fn name(&self) -> &'static str {
        self.into()
    }

    /// Whether nothing is sent, however little waits, until something happens at the node.
    pub const fn is_closed(&self) -> bool {
        matches!(
            self,
            Self::Held(_) | Self::Break(_) | Self::NodeSilent { .. } | Self::NodeDown(_)
        )
    }

    /// The bound with its numbers, for people, as of `now`.
    pub fn text(self, now: Nanos) -> String {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        let for_seconds = |since| now.saturating_sub(since).as_secs_f64();
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::Share {
                per_second,
                clients,
            } => format!("its share: {per_second:.1} writes/s while {clients} clients wait"),
            Self::Ceiling(rate) => {
                format!("the ceiling: {:.1} writes/s (fair.max_req)", rate.as_f64())
            }
            Self::Pace(rate) => format!(
                "the pace: {:.1} writes/s, the free room spread over the block interval",
                rate.as_f64()
            ),
            Self::Window { own, limit, unit } => {
                let unit = unit.name();
                format!("the window: {own} of {limit} own {unit} are in no block yet")
            }
            Self::InFlightCap {
                under_way,
                limit,
                answers_take,
                unloaded,
            } => format!(
                "the in-flight cap: {under_way} of {limit} writes wait for the node's answers, which take {:.1} ms \
                 ({:.1} ms without load)",
                millis(answers_take),
                millis(unloaded)
            ),
            Self::Mempool { own, others, limit } => format!(
                "the mempool: it may hold {limit} and holds {own} own transactions and {others} of others"
            ),
            Self::Held(cause) => cause.name().to_owned(),
            Self::Break(state) => format!("a break of the node ({})", state.name()),
            Self::NodeSilent { since, under_way } => format!(
                "the node: it has answered nothing for {:.1} s, {under_way} writes are under way \
                 (upstream.timeout)",
                for_seconds(since)
            ),
            Self::NodeDown(since) => format!(
                "a node: no node takes writes for {:.1} s; they are held until their deadline \
                 (fair.queue_timeout)",
                for_seconds(since)
            ),
        }
    }
}

/// A permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// So many writes may leave now; they count as sent.
    pub now: usize,
    /// No more than this in the window's unit ([`takes`](Self::takes)).
    pub amount: u64,
    /// One may leave that is larger than that.
    pub whole: bool,
    /// How many more writes of clients that ask for little may leave; report each to
    /// [`Pacer::sent_for_light`](crate::Pacer::sent_for_light).
    pub light: usize,
    /// All of these together no more than this; a write begun below it leaves whole.
    pub light_amount: u64,
    /// When to ask again, if time alone decides; else ask when something has happened: an answer, a
    /// block, a depth, the end of a break.
    pub next: Option<Nanos>,
}

impl Grant {
    /// Whether a write of so much may leave when `left` of the amount is left. What is larger would take what is kept for
    /// clients that ask for little, so it waits until a block has made room: then one of any size leaves.
    pub const fn takes(&self, left: u64, size: u64) -> bool {
        size <= left || self.whole && left == self.amount
    }
}

/// Why the node did not take a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its mempool is full; `max` is how many it holds, if the error contains it.
    Full {
        /// Transactions the mempool holds.
        max: Option<usize>,
    },
    /// Its mempool is being rechecked after a block and counts as full for a moment.
    Rechecking,
    /// It did not answer in time.
    TimedOut,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_says_its_name_and_its_numbers() {
        let all = [
            Bound::Nothing,
            Bound::Share {
                per_second: 1.0,
                clients: 2,
            },
            Bound::Ceiling(Rate::per_second(2_000).unwrap()),
            Bound::Pace(Rate::per_second(5_000).unwrap()),
            Bound::Window {
                own: 990,
                limit: 1_000,
                unit: Unit::Transactions,
            },
            Bound::InFlightCap {
                under_way: 8,
                limit: 8,
                answers_take: Duration::from_millis(400),
                unloaded: Duration::from_micros(1_500),
            },
            Bound::Mempool {
                own: 4_000,
                others: 950,
                limit: 4_950,
            },
            Bound::Held(Hold::Refused),
            Bound::Break(BreakState::Paused),
            Bound::NodeSilent {
                since: Nanos::from_millis(1_500),
                under_way: 8,
            },
            Bound::NodeDown(Nanos::from_millis(1_500)),
        ];
        let names = all.map(|bound| bound.name());
        assert_eq!(names[..], *Bound::NAMES);
        let told = all.map(|bound| bound.text(Nanos::from_secs(13)));
        assert!(told[4].contains("990 of 1000"));
        assert!(told[5].contains("take 400.0 ms (1.5 ms without load)"));
        assert!(told[6].contains("950 of others"));
        assert!(told[9].contains("nothing for 11.5 s, 8 writes"));
        assert!(told[10].contains("no node takes writes for 11.5 s"));
        let closed = all.map(|bound| bound.is_closed());
        assert_eq!(closed, std::array::from_fn(|place| place >= 7));
    }
}
