//! Whole runs through [`measure::Recorder`], with files in memory.

mod account;
mod conservation;
mod cost;
mod hlog;
mod schema;
mod series;
mod support;
mod trouble;
