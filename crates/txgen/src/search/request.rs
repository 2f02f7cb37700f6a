//! What is asked for, whatever chooses the rates.

use std::path::PathBuf;

use anyhow::anyhow;
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
