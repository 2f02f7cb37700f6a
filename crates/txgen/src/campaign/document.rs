//! `campaign.json`: what was planned and what has been played.

use std::collections::BTreeMap;

use measure::Host;
use serde::Serialize;
use serde_json::Value;

use super::figures::Figures;
use super::prove::Proof;
use crate::scenario::{Change, NodeKind, Order};

/// The version of `campaign.json`.
pub(super) const FORMAT: &str = "tidegate.campaign/1";

/// The whole of `campaign.json`.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    pub(super) format: &'static str,
    pub(super) name: String,
    pub(super) state: CampaignState,
    pub(super) scenario: String,
    pub(super) scenario_text: String,
    pub(super) scale: f64,
    pub(super) order: Order,
    pub(super) pause_s: f64,
    pub(super) version: &'static str,
    pub(super) command: Vec<String>,
    pub(super) host: Host,
    pub(super) started: String,
    pub(super) ended: Option<String>,
    /// What runs with one resource changed show.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) prove: Vec<Proof>,
    pub(super) runs: Vec<Run>,
}

/// How far a campaign has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CampaignState {
    Running,
    Done,
    Interrupted,
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RunState {
    Waiting,
    Running,
    Done,
    Failed,
    Interrupted,
}

/// One run of `campaign.json`.
#[derive(Debug, Serialize)]
pub(super) struct Run {
    pub(super) number: usize,
    /// Case and parameters; equal for repetitions.
    pub(super) cell: String,
    pub(super) label: String,
    pub(super) case: Option<String>,
    pub(super) parameters: BTreeMap<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) change: Option<Change>,
    /// Case and parameters without the change.
    #[serde(skip)]
    pub(super) unchanged: String,
    pub(super) repeat: u32,
    pub(super) repeats: u32,
    pub(super) node: NodeKind,
    pub(super) fresh_node: bool,
    pub(super) sentinel: bool,
    pub(super) seed: u64,
    pub(super) planned_s: Option<f64>,
    /// The run folder, inside the campaign's.
    pub(super) folder: String,
    pub(super) state: RunState,
    pub(super) started: Option<String>,
    pub(super) took_s: Option<f64>,
    pub(super) exit_code: Option<u8>,
    pub(super) problem: Option<String>,
    pub(super) figures: Option<Figures>,
}
