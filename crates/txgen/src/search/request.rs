//! What is asked for, whatever chooses the rates.

use std::path::PathBuf;

use anyhow::anyhow;
use measure::limits::MIN_TREND_BLOCKS;
use ops::command::{CommandError, usage};
use pacing::{Nanos, Rate};

use crate::chains::WorkloadKind;
use crate::cli::PointArgs;
use crate::fleet;
use crate::output;
use crate::plan::{Plan, Request, RequestedLoad};
use crate::settings::Settings;

/// What every point has in common.
pub(super) struct SearchRequest {
    pub(super) points: PointArgs,
    pub(super) settings: Settings,
    pub(super) seed: u64,
}

impl SearchRequest {
    /// `fresh_seed` serves where the settings name none.
    pub(super) fn new(points: PointArgs, settings: Settings, fresh_seed: u64) -> Self {
        Self {
            seed: settings.seed.unwrap_or(fresh_seed),
            points,
            settings,
        }
    }

    pub(super) fn is_dry(&self) -> bool {
        self.settings.dry_run
    }

    pub(super) fn preview(&self, rate: Rate, words: &str) -> Result<u8, CommandError> {
        let plan = self.plan(0, rate, self.points.duration, None)?;
        let text = format!("{words}\nthe first point:\n{}", output::preview(&plan));
        Ok(output::print(&text))
    }

    /// The plan of one point.
    pub(super) fn plan(
        &self,
        number: usize,
        rate: Rate,
        duration: Nanos,
        out: Option<PathBuf>,
    ) -> Result<Plan, CommandError> {
        let settings = Settings {
            out,
            ..self.settings(number, duration)?
        };
        let request = Request {
            command: "search".into(),
            load: RequestedLoad::constant(rate, duration).map_err(usage)?,
            builtin: devnode::Blueprint::default(),
        };
        Plan::resolve(request, settings, self.seed).map_err(usage)
    }

    /// How long a point takes that has this length, in parts of the usual one, on a chain whose blocks come at this
    /// interval (zero: unknown).
    pub(super) fn point_duration(&self, length: f64, block_interval: Nanos) -> Nanos {
        let (usual, warmup) = (self.points.duration, self.settings.warmup);
        point_duration(usual, warmup, length, block_interval)
    }

    /// What one point has for settings. Every point has a seed of its own, so that no transaction comes twice.
    pub(super) fn settings(
        &self,
        number: usize,
        duration: Nanos,
    ) -> Result<Settings, CommandError> {
        let settings = &self.settings;
        if matches!(settings.workload, Some(WorkloadKind::File(_))) {
            return Err(usage(anyhow!(
                "search needs new transactions for each point, and a file would repeat its own; use another --workload"
            )));
        }
        if !settings.threshold.is_empty() {
            return Err(usage(anyhow!(
                "search takes its conditions from --slo; write --slo instead of --threshold"
            )));
        }
        if settings.shard.is_some() || settings.start_at.is_some() {
            return Err(usage(anyhow!(
                "search decides each rate from the points before; --shard and --start-at are for single runs"
            )));
        }
        let quarter = Nanos::from_nanos(duration.as_nanos() / WARMUP_PART);
        fleet::divided(Settings {
            seed: Some(self.seed.wrapping_add(number as u64)),
            warmup: settings.warmup.or(Some(quarter)),
            threshold: self.points.slo.iter().map(|it| it.0.clone()).collect(),
            // Those of all points are the same: they were funded.
            accounts_seed: Some(self.seed),
            ..settings.clone()
        })
        .map_err(usage)
    }
}

/// The first of as many parts of a point is not judged.
const WARMUP_PART: u64 = 4;
const TENTH: Nanos = Nanos::from_millis(100);

/// A point is at least as long as the blocks that a trend needs take after the warm-up. A warm-up that the user has set
/// was set for the whole duration. In whole tenths of seconds.
fn point_duration(
    usual: Nanos,
    warmup: Option<Nanos>,
    length: f64,
    block_interval: Nanos,
) -> Nanos {
    let blocks = block_interval.saturating_mul(MIN_TREND_BLOCKS as u64);
    let (length, least) = match warmup {
        Some(warmup) => (length.max(1.0), warmup.saturating_add(blocks)),
        None => {
            let times = blocks.saturating_mul(WARMUP_PART);
            let nanos = times.as_nanos().div_ceil(WARMUP_PART - 1);
            (length, Nanos::from_nanos(nanos))
        }
    };
    let wanted = Nanos::from_nanos((usual.as_nanos() as f64 * length) as u64).max(least);
    TENTH.saturating_mul(wanted.as_nanos().div_ceil(TENTH.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_as_long_as_its_warm_up_and_the_blocks_of_a_trend() {
        let seconds = |text: &str| text.parse::<Nanos>().unwrap();
        for (usual, warmup, length, interval, expected) in [
            // Half of 5 s at blocks of 1 s: 5 of them in three quarters of it.
            ("5s", None, 0.5, "1s", "6.7s"),
            ("5s", None, 0.5, "0s", "2.5s"),
            ("20s", None, 0.5, "1s", "10s"),
            ("20s", None, 0.5, "600s", "4000s"),
            // The user's warm-up is left as it is.
            ("5s", Some("4s"), 0.5, "1s", "9s"),
            ("5s", Some("4s"), 2.0, "0.2s", "10s"),
            // What is left of a time is no odd number.
            ("20s", None, 1.187_291_7, "1s", "23.8s"),
        ] {
            let took = point_duration(
                seconds(usual),
                warmup.map(seconds),
                length,
                seconds(interval),
            );
            assert_eq!(took, seconds(expected), "{usual}, {warmup:?}, {interval}");
        }
    }
}
