//! The traffic of an application as data.

use std::num::NonZeroU32;

use pacing::Nanos;

/// A kind of message, by its place in its mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KindId(usize);

/// The peers that the node that makes a message sends it to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fan {
    /// One peer, drawn at random.
    One,
    /// As a broadcast.
    All,
}

/// A kind of message.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    /// Its name, for people.
    pub name: String,
    /// The first byte of every message of this kind.
    pub tag: u8,
    /// The size of every message of this kind, in bytes, type included.
    pub size: usize,
    /// The peers that its maker sends it to.
    pub fan: Fan,
    /// Whether a node that sees one for the first time broadcasts it.
    pub relay: bool,
    /// What a node sends back to the peer that it came from, and how often (0 to 1).
    pub answer: Option<(KindId, f64)>,
    /// How many transactions a first sight counts for (TPS).
    pub transactions: u32,
    /// How many entries (EPS).
    pub entries: u32,
}

/// A transaction: the messages that its node makes at its due time.
#[derive(Debug, Clone, PartialEq)]
pub struct Transaction {
    /// Its name, for people.
    pub name: String,
    /// How often it is drawn, beside the others' weights.
    pub weight: f64,
    /// What it is made of, in this order.
    pub messages: Vec<KindId>,
}

/// What is sent again and again, whatever the load.
#[derive(Debug, Clone, PartialEq)]
pub struct Periodic {
    /// What is sent, in this order.
    pub messages: Vec<KindId>,
    /// The period.
    pub every: Nanos,
    /// How often in each period.
    pub senders: u32,
    /// Whether all of them send at the end of the period; else they are spread evenly over it.
    pub at_once: bool,
    /// In every so many periods these messages instead.
    pub instead: Option<(NonZeroU32, Vec<KindId>)>,
    /// How likely each of them is (0 to 1).
    pub probability: f64,
}

/// What the generator asks for when it first sees a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The kind that makes it ask.
    pub on: KindId,
    /// What it sends.
    pub message: KindId,
    /// How often (0 to 1).
    pub probability: f64,
}

/// The traffic of an application.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    name: String,
    kinds: Vec<Kind>,
    transactions: Vec<Transaction>,
    periodic: Vec<Periodic>,
    requests: Vec<Request>,
    by_tag: Vec<Option<KindId>>,
    weights: f64,
}

impl Periodic {
    /// The period in which it is sent for the `count`-th time, both from 1 on.
    pub(super) const fn period(&self, count: u64) -> u64 {
        let senders = if self.senders == 0 { 1 } else { self.senders };
        count.div_ceil(senders as u64)
    }

    /// What is sent for the `count`-th time.
    pub(super) fn messages(&self, count: u64) -> &[KindId] {
        let instead = self.instead.as_ref();
        let instead =
            instead.filter(|(every, _)| self.period(count).is_multiple_of(every.get().into()));
        instead.map_or(&self.messages, |(_, messages)| messages)
    }

    /// When, since the origin: never by adding up.
    pub(super) fn due(&self, count: u64) -> Nanos {
        let senders = u128::from(self.senders.max(1));
        let of_period = if self.at_once {
            u128::from(self.period(count)) * senders
        } else {
            u128::from(count)
        };
        let at = u128::from(self.every.as_nanos()) * of_period / senders;
        Nanos::new(u64::try_from(at).unwrap_or(u64::MAX))
    }
}

/// Why a mix cannot be used: there is nothing to offer, a part is out of range, two kinds have one type, or answers
/// would be answered without end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MixError(String);

impl Mix {
    /// A mix of checked parts.
    ///
    /// # Errors
    /// Where a part is out of range, or answers would never end.
    pub fn new(
        name: &str,
        kinds: Vec<Kind>,
        transactions: Vec<Transaction>,
        periodic: Vec<Periodic>,
        requests: Vec<Request>,
    ) -> Result<Self, MixError> {
        let by_tag = by_tag(&kinds)?;
        for kind in &kinds {
            check_kind(kind, &kinds)?;
        }
        check_transactions(&transactions)?;
        for periodic in &periodic {
            check_periodic(periodic)?;
        }
        for request in &requests {
            check_probability(|| "a request".into(), request.probability)?;
        }
        Ok(Self {
            name: name.into(),
            weights: transactions.iter().map(|it| it.weight).sum(),
            kinds,
            transactions,
            periodic,
            requests,
            by_tag,
        })
    }

    /// Its name, for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kinds of messages, in their order.
    pub fn kinds(&self) -> impl Iterator<Item = (KindId, &Kind)> {
        let kinds = self.kinds.iter().enumerate();
        kinds.map(|(place, kind)| (KindId(place), kind))
    }

    /// The tags of the kinds that are passed on.
    pub fn relayed(&self) -> Vec<u8> {
        let relayed = self.kinds.iter().filter(|kind| kind.relay);
        relayed.map(|kind| kind.tag).collect()
    }

    /// The id of the kind at a place in the list that the mix was made of.
    pub const fn id(place: usize) -> KindId {
        KindId(place)
    }

    /// A kind of message.
    pub fn kind(&self, id: KindId) -> &Kind {
        &self.kinds[id.0]
    }

    /// The kind of a message, by its first byte.
    pub fn kind_of(&self, payload: &[u8]) -> Option<KindId> {
        self.by_tag[usize::from(*payload.first()?)]
    }

    /// The transaction at a place in `[0, 1)` on the line of all weights.
    pub fn transaction(&self, place: f64) -> &Transaction {
        let mut left = place * self.weights;
        let drawn = self.transactions.iter().find(|transaction| {
            left -= transaction.weight;
            left < 0.0
        });
        // Rounding may leave the last one's end open.
        drawn.unwrap_or(&self.transactions[self.transactions.len() - 1])
    }

    /// The transactions.
    pub fn transactions(&self) -> &[Transaction] {
        &self.transactions
    }

    /// What is sent periodically.
    pub fn periodic(&self) -> &[Periodic] {
        &self.periodic
    }

    /// What the generator sends when it first sees a message of this kind.
    pub fn requests(&self, on: KindId) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(move |request| request.on == on)
    }

    /// Entries per transaction, in the mean: EPS over the offered rate.
    pub fn entries_per_transaction(&self) -> f64 {
        let entries = |transaction: &Transaction| {
            let messages = transaction.messages.iter();
            let entries: u32 = messages.map(|id| self.kind(*id).entries).sum();
            f64::from(entries) * transaction.weight
        };
        self.transactions.iter().map(entries).sum::<f64>() / self.weights
    }
}

fn by_tag(kinds: &[Kind]) -> Result<Vec<Option<KindId>>, MixError> {
    if kinds.len() > 256 {
        return refuse(format!(
            "the mix has {} messages, and a type byte tells at most 256 apart",
            kinds.len()
        ));
    }
    let mut by_tag: Vec<Option<KindId>> = vec![None; 256];
    for (place, kind) in kinds.iter().enumerate() {
        let slot = &mut by_tag[usize::from(kind.tag)];
        if let Some(other) = slot.replace(KindId(place)) {
            let (one, other, tag) = (&kinds[other.0].name, &kind.name, kind.tag);
            return refuse(format!(
                "the messages {one:?} and {other:?} both have type {tag}"
            ));
        }
    }
    Ok(by_tag)
}

fn check_kind(kind: &Kind, kinds: &[Kind]) -> Result<(), MixError> {
    let (name, size) = (&kind.name, kind.size);
    if !(1..=MAX_SIZE).contains(&size) {
        return refuse(format!(
            "message {name:?}: size {size} is not between 1 and {MAX_SIZE} bytes"
        ));
    }
    if let Some((answer, probability)) = kind.answer {
        check_probability(|| format!("the answer to {name:?}"), probability)?;
        let answer = &kinds[answer.0];
        if answer.answer.is_some() || answer.relay {
            return refuse(format!(
                "the answer to {name:?} is answered or relayed itself; answers would never end"
            ));
        }
    }
    Ok(())
}

fn check_transactions(transactions: &[Transaction]) -> Result<(), MixError> {
    if transactions.is_empty() {
        return refuse("the mix has no transactions".into());
    }
    for Transaction {
        name,
        weight,
        messages,
    } in transactions
    {
        if !(*weight > 0.0 && weight.is_finite()) {
            return refuse(format!(
                "transaction {name:?}: the weight is not a positive number"
            ));
        }
        if messages.is_empty() {
            return refuse(format!("transaction {name:?} has no messages"));
        }
    }
    Ok(())
}

fn check_periodic(periodic: &Periodic) -> Result<(), MixError> {
    let instead = periodic
        .instead
        .as_ref()
        .is_some_and(|(_, messages)| messages.is_empty());
    if periodic.messages.is_empty() || instead {
        return refuse("a periodic message has no messages".into());
    }
    if periodic.every.is_zero() {
        return refuse("a periodic message has a period of zero".into());
    }
    check_probability(|| "a periodic message".into(), periodic.probability)
}

fn check_probability(of: impl FnOnce() -> String, probability: f64) -> Result<(), MixError> {
    if (0.0..=1.0).contains(&probability) {
        return Ok(());
    }
    let of = of();
    refuse(format!(
        "{of}: probability {probability} is not between 0 and 1"
    ))
}

fn refuse<T>(problem: String) -> Result<T, MixError> {
    Err(MixError(problem))
}

/// Factom's messages stay below it by far; a queue of 10,000 of them is then below 640 MiB in the worst
/// case.
const MAX_SIZE: usize = 65_536;
