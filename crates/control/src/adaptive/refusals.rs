//! Refusals of the node, and the size of its mempool derived from them.

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

/// What is known about how much the mempool holds, and the refusals since the last block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusals {
    /// As configured, or as stated in a refusal.
    size: Option<usize>,
    /// What it held when it refused without saying its size, raised since.
    soft: Option<f64>,
    fulls: u64,
    rechecks: u64,
    /// The rate has been lowered already, or need not be.
    settled: bool,
}

/// What a refusal means for the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consequence {
    None,
    /// It is to be lowered.
    Lower,
    /// The mempool's size was not known before.
    Learnt,
}

/// Shares of the writes of an interval that may be refused because the mempool is full (it is meant
/// to be nearly full, and others fill it too) or being rechecked, without being a sign of overload,
/// and the writes that count as sent at least.
const FULLS: f64 = 0.02;
const RECHECKS: f64 = 0.1;
const LEAST_SENT: u64 = 16;
/// A bound learnt without a number is raised by this factor each block,
const RELAX: f64 = 1.02;
/// and is not below this.
const SOFTEST: f64 = 256.0;

impl Refusals {
    pub(super) const fn new(size: Option<usize>) -> Self {
        Self {
            size,
            soft: None,
            fulls: 0,
            rechecks: 0,
            settled: false,
        }
    }

    /// The node refused one; `sent` were sent since the last block and it held `occupancy`.
    pub(super) fn add(&mut self, why: Refused, sent: u64, occupancy: f64) -> Consequence {
        let sent = sent.max(LEAST_SENT) as f64;
        let lower = match why {
            Refused::Full { max: Some(max) } => {
                if self.size.replace(max) != Some(max) {
                    // Writes under way may be refused as well; that is no further sign of overload.
                    self.settled = true;
                    return Consequence::Learnt;
                }
                self.fulls += 1;
                self.fulls as f64 > FULLS * sent
            }
            Refused::Full { max: None } => {
                self.soft = Some(occupancy.max(SOFTEST));
                true
            }
            Refused::Rechecking => {
                self.rechecks += 1;
                self.rechecks as f64 > RECHECKS * sent
            }
            Refused::TimedOut => true,
        };
        if lower && !self.settled {
            self.settled = true;
            return Consequence::Lower;
        }
        Consequence::None
    }

    /// Whether refusals have settled the rate of this interval.
    pub(super) const fn settled(&self) -> bool {
        self.settled
    }

    /// A block, or a step without blocks.
    pub(super) fn begin_interval(&mut self) {
        if !self.settled {
            self.soft = self.soft.map(|soft| soft * RELAX);
        }
        *self = Self {
            size: self.size,
            soft: self.soft,
            ..Self::new(None)
        };
    }

    /// The size as configured or learnt.
    pub(super) const fn size(&self) -> Option<usize> {
        self.size
    }

    /// What the mempool holds at most; infinite if unknown.
    pub(super) fn bound(&self) -> f64 {
        let size = self.size.map_or(f64::INFINITY, |known| known as f64);
        size.min(self.soft.unwrap_or(f64::INFINITY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_size_is_learnt_and_many_refusals_after_it_lower_once() {
        let full = Refused::Full { max: Some(100) };
        let mut refusals = Refusals::new(None);
        assert_eq!(refusals.add(full, 50, 0.0), Consequence::Learnt);
        assert_eq!(refusals.add(full, 50, 0.0), Consequence::None);
        refusals.begin_interval();
        assert_eq!(refusals.bound(), 100.0);
        // Up to 2 % of what was sent does not count as overload.
        assert_eq!(refusals.add(full, 100, 0.0), Consequence::None);
        assert_eq!(refusals.add(full, 100, 0.0), Consequence::None);
        assert_eq!(refusals.add(full, 100, 0.0), Consequence::Lower);
        assert_eq!(refusals.add(full, 100, 0.0), Consequence::None);
        assert_eq!(refusals.add(Refused::TimedOut, 100, 0.0), Consequence::None);
        refusals.begin_interval();
        assert_eq!(
            refusals.add(Refused::TimedOut, 100, 0.0),
            Consequence::Lower
        );
    }

    #[test]
    fn without_a_number_the_bound_is_soft() {
        let mut refusals = Refusals::new(None);
        let full = Refused::Full { max: None };
        assert_eq!(refusals.add(full, 100, 5_000.0), Consequence::Lower);
        assert_eq!(refusals.bound(), 5_000.0);
        refusals.begin_interval();
        assert_eq!(refusals.bound(), 5_000.0);
        for _ in 0..40 {
            refusals.begin_interval();
        }
        assert!(refusals.bound() > 10_000.0);
        assert_eq!(refusals.size(), None);
    }
}
