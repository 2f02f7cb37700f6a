//! How many transactions a second a node commits, and how that sinks under load.

use std::time::Duration;

use serde::Deserialize;

use crate::duration;

base::settings! {
    /// A capacity that sinks with committed transactions and partly recovers while the node is idle.
    ///
    /// The decline of a real node comes from its transaction index: every committed transaction wears
    /// it a little for good (a larger database), and leaves work (compaction) that an idle node
    /// catches up with. So, with `N` transactions committed in all and a backlog `b` between 0 and 1,
    ///
    /// capacity = `initial` · (`floor` + (1 − `floor`)·e^(−N/`wear_txs`)) · (1 − `backlog_share`·b)
    ///
    /// where n transactions leave of what was still free of backlog (1 − b) the share
    /// e^(−n/`backlog_txs`).
    /// While blocks are empty `b` decays with the time constant `recovery`. The age of a connection
    /// plays no part. A block of n transactions keeps the next one away for n / capacity.
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct CapacityModel {
        /// Transactions per second of a fresh node, above 0. Default 4,600.
        pub initial: f64 = 4_600.0,
        /// Share of it that wear leaves in the end, 0 to 1. Default 0.35.
        pub floor: f64 = 0.35,
        /// Transactions after which wear has done 63 % of its work, above 0. Default 1,000,000.
        pub wear_txs: f64 = 1_000_000.0,
        /// Share that the backlog takes at most, 0 to below 1. Default 0.15.
        pub backlog_share: f64 = 0.15,
        /// Transactions after which it has 63 % of its effect, above 0. Default 60,000.
        pub backlog_txs: f64 = 60_000.0,
        /// Time in which an idle node catches up with 63 % of it, above 0. Default `10s`.
        #[serde(with = "duration")]
        pub recovery: Duration = Duration::from_secs(10),
    }
}

impl CapacityModel {
    /// A capacity that stays what it is.
    pub fn constant(txs_per_second: f64) -> Self {
        Self {
            initial: txs_per_second,
            floor: 1.0,
            backlog_share: 0.0,
            ..Self::default()
        }
    }

    pub(crate) fn validate(&self) -> Result<(), &'static str> {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        if !positive(self.initial) {
            return Err("initial must be above 0");
        }
        if !(0.0..=1.0).contains(&self.floor) {
            return Err("floor must be from 0 to 1");
        }
        if !positive(self.wear_txs) || !positive(self.backlog_txs) {
            return Err("wear_txs and backlog_txs must be above 0");
        }
        if !(0.0..1.0).contains(&self.backlog_share) {
            return Err("backlog_share must be from 0 to below 1");
        }
        if self.recovery.is_zero() {
            return Err("recovery must be above 0");
        }
        Ok(())
    }
}

/// A node's capacity over time. It takes what happened; it reads no clock.
#[derive(Debug, Clone)]
pub(crate) struct Capacity {
    model: CapacityModel,
    committed: f64,
    /// Work left over, 0 to 1.
    backlog: f64,
}

impl Capacity {
    pub(crate) fn new(model: CapacityModel) -> Self {
        Self {
            model,
            committed: 0.0,
            backlog: 0.0,
        }
    }

    /// Transactions per second now.
    pub(crate) fn per_second(&self) -> f64 {
        let model = &self.model;
        let wear = model.floor + (1.0 - model.floor) * (-self.committed / model.wear_txs).exp();
        let backlog = 1.0 - model.backlog_share * self.backlog;
        model.initial * wear * backlog
    }

    /// A block of so many transactions was committed, `since` the one before. Returns how long
    /// the next block has to stay away.
    pub(crate) fn commit(&mut self, txs: usize, since: Duration) -> Duration {
        if txs == 0 {
            self.backlog *= (-since.as_secs_f64() / self.model.recovery.as_secs_f64()).exp();
            return Duration::ZERO;
        }
        #[allow(clippy::cast_precision_loss)]
        let txs = txs as f64;
        let busy = txs / self.per_second();
        self.committed += txs;
        self.backlog = 1.0 - (1.0 - self.backlog) * (-txs / self.model.backlog_txs).exp();
        Duration::try_from_secs_f64(busy).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commits at capacity in blocks of one second; the mean rate of each span of 30 s.
    fn saturate(capacity: &mut Capacity, spans: usize) -> Vec<f64> {
        (0..spans)
            .map(|_| {
                let mut txs = 0.0;
                for _ in 0..30 {
                    let block = capacity.per_second();
                    capacity.commit(block as usize, Duration::from_secs(1));
                    txs += block;
                }
                txs / 30.0
            })
            .collect()
    }

    #[test]
    fn the_defaults_follow_the_measured_decline() {
        // CometBFT 0.38.17 with its index, saturated for 300 s: committed per second in spans of 30 s.
        let measured = [
            4167.0, 3333.0, 3500.0, 3324.0, 2831.0, 2833.0, 2764.0, 2629.0, 2478.0, 2438.0,
        ];
        let model = saturate(&mut Capacity::new(CapacityModel::default()), measured.len());
        let errors: Vec<f64> = model
            .iter()
            .zip(measured)
            .map(|(model, measured)| (model - measured) / measured)
            .collect();
        let mean = errors.iter().map(|error| error.abs()).sum::<f64>() / 10.0;
        assert!(mean < 0.05, "{model:?}");
        assert!(errors.iter().all(|error| error.abs() < 0.08), "{model:?}");
    }

    #[test]
    fn a_pause_recovers_a_part_and_only_a_part() {
        let mut capacity = Capacity::new(CapacityModel::default());
        saturate(&mut capacity, 5);
        let tired = capacity.per_second();
        for _ in 0..20 {
            capacity.commit(0, Duration::from_secs(1));
        }
        let rested = capacity.per_second();
        assert!(rested > tired * 1.1, "{tired} {rested}");
        assert!(rested < 4_600.0 * 0.8, "{rested}");
    }

    #[test]
    fn a_constant_capacity_does_not_sink() {
        let mut capacity = Capacity::new(CapacityModel::constant(100.0));
        assert_eq!(
            capacity.commit(250, Duration::from_secs(1)),
            Duration::from_millis(2500)
        );
        assert_eq!(
            capacity.commit(250, Duration::from_secs(1)),
            Duration::from_millis(2500)
        );
    }
}
