//! Whole runs through [`measure::Recorder`], with files in memory.

#![expect(
    clippy::unwrap_used,
    reason = "all of this binary is tests, its helpers too"
)]

mod account;
mod accuracy;
mod agreement;
mod calibration;
mod censored;
mod conservation;
mod cost;
mod hlog;
mod judgement;
mod merged;
mod models;
mod reading;
mod series;
mod support;
mod trouble;
mod worlds;
mod worlds_budgets;
