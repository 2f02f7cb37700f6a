//! `plan` of `manifest.json`: the resolved plan of a run, under the names of the flags.

use std::fmt;
use std::str::FromStr;

use pacing::Nanos;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::manifest::Host;
use super::rows::KeptRows;
use super::summary::LoadModel;

/// The resolved plan. Every key may be missing in a folder of an earlier version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanDocument {
    /// The load command.
    pub command: String,
    /// The kind of target.
    pub target: String,
    /// How transactions are broadcast.
    pub method: String,
    /// Connections to each endpoint.
    pub connections: u32,
    /// Addresses that connections begin at.
    pub source_address: Vec<String>,
    /// What is sent.
    pub workload: String,
    /// What happens before this is left out of rates and latencies.
    #[serde(with = "text")]
    pub warmup: Nanos,
    /// Transactions in flight at most.
    pub max_in_flight: u64,
    /// What becomes of what is due beyond: `drop` or `wait`.
    pub at_max_in_flight: String,
    /// Sender threads.
    pub threads: u32,
    /// Threads that sign.
    pub signing_threads: u32,
    /// Transactions signed ahead.
    pub signed_ahead: u64,
    /// Nodes that are observed.
    pub observe: Vec<String>,
    /// Whether blocks are watched.
    pub follow: bool,
    /// Which transactions have a row.
    #[serde(with = "text")]
    pub rows: KeptRows,
    /// Whether an answer shows that the node has checked the transaction.
    pub checked: bool,
    /// Whether the schedule counts as kept only to the millisecond.
    pub strict: bool,
    /// Which part of the load this generator sends.
    #[serde(with = "text")]
    pub shard: ShardName,
    /// The start that was agreed on.
    pub start_at: Option<String>,
    /// Transactions that all generators plan together.
    pub planned_by_all: Option<u64>,
    /// Conditions that end the run.
    pub abort_on: Vec<String>,
    /// What is sampled.
    pub profile: Option<String>,
    /// Conditions on the summary.
    pub thresholds: Vec<String>,
    /// A hash of the schedule; `None` in a closed loop, as the three below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// How due times are drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<String>,
    /// Whether saturation ends the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_when_saturated: Option<bool>,
    /// Whether connections are opened anew in pauses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconnect_in_pauses: Option<bool>,
    /// The parts of a merged folder.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<MergedPart>,
    /// The parts of a merged load whose generators were lost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<LostPart>,
    /// Which generator's condition ended a merged load early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Keys that nothing here reads: of the target's kind, the workload, the rules of sending.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Default for PlanDocument {
    fn default() -> Self {
        Self {
            command: String::new(),
            target: String::new(),
            method: String::new(),
            connections: 0,
            source_address: Vec::new(),
            workload: String::new(),
            warmup: Nanos::ZERO,
            max_in_flight: 0,
            at_max_in_flight: String::new(),
            threads: 0,
            signing_threads: 0,
            signed_ahead: 0,
            observe: Vec::new(),
            // Folders without it are of before there was a choice.
            follow: true,
            rows: KeptRows::All,
            checked: true,
            strict: false,
            shard: ShardName::WHOLE,
            start_at: None,
            planned_by_all: None,
            abort_on: Vec::new(),
            profile: None,
            thresholds: Vec::new(),
            schedule: None,
            arrivals: None,
            stop_when_saturated: None,
            reconnect_in_pauses: None,
            merged: Vec::new(),
            lost: Vec::new(),
            stopped: None,
            other: Map::new(),
        }
    }
}

impl PlanDocument {
    /// A closed loop has no arrivals.
    pub const fn model(&self) -> LoadModel {
        if self.arrivals.is_some() {
            LoadModel::Open
        } else {
            LoadModel::Closed
        }
    }

    /// How many may be in flight, where what is due beyond waits for them.
    pub fn waits_at(&self) -> Option<u64> {
        (self.at_max_in_flight == "wait").then_some(self.max_in_flight)
    }
}

/// One generator of a merged load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MergedPart {
    /// Its folder, as it was named.
    pub folder: String,
    /// Which part of the load it sent.
    #[serde(with = "text")]
    pub shard: ShardName,
    /// Transactions that it planned.
    pub planned: Option<u64>,
    /// Its sender threads.
    pub threads: u32,
    /// Its connections to each endpoint.
    pub connections: u32,
    /// Where it sent to.
    pub endpoints: Vec<String>,
    /// Its machine.
    pub host: Host,
    /// How far its clock is ahead of that of the first generator; `None` of the first, and where no height
    /// was seen by both.
    #[serde(default)]
    pub clock: Option<ClockOffset>,
    /// What the coordinator of a fleet measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet_clock: Option<FleetClock>,
    /// What its record lacks, as it reported itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A part of a load whose generator was lost: what it sent is not known, so all of it counts as unsent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostPart {
    /// Which part.
    #[serde(with = "text")]
    pub shard: ShardName,
    /// Transactions that it planned.
    pub planned: u64,
    /// What happened, for people.
    pub reason: String,
}

/// A generator's clock against that of the machine that started all of them, by questions and answers through the
/// run. Its part began by the corrected clock.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FleetClock {
    /// By how much it was ahead before the run, in milliseconds; its part began that much later by it.
    pub offset_ms: f64,
    /// The offset may be wrong by this much, either way.
    pub error_ms: f64,
    /// By how much it went faster, in parts per million: at least and at most; at least above at most when it was set
    /// meanwhile.
    pub drift_ppm: Option<(f64, f64)>,
}

/// How far a generator's clock is ahead of that of the first one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// Heights that both saw.
    pub heights: u64,
    /// The median difference of their stamps, in milliseconds; below 0 when the clock is behind.
    pub offset_ms: f64,
    /// Half of the range that nine of ten differences lie in, and the resolution of polled blocks. A
    /// constant difference of the ways from the nodes is not in it.
    pub uncertainty_ms: f64,
}

/// A part's position among its fellows: I of N, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardName {
    /// I.
    pub number: u32,
    /// N.
    pub of: u32,
}

impl ShardName {
    /// The whole load.
    pub const WHOLE: Self = Self { number: 1, of: 1 };
}

impl fmt::Display for ShardName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for ShardName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers = text.split_once('/').and_then(|(number, of)| {
            let (number, of) = (number.parse().ok()?, of.parse().ok()?);
            Some(Self { number, of })
        });
        numbers.ok_or_else(|| format!("{text:?} is no part of a load, as 1/4 is"))
    }
}

/// Values that are written as texts.
mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        value: &impl Display,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_comes_back_as_it_was_written_and_old_ones_lack_keys() {
        let text = r#"{"warmup": "5s", "arrivals": "even", "shard": "2/4", "max_in_flight": 50,
                       "at_max_in_flight": "wait", "batch": 25}"#;
        let plan: PlanDocument = serde_json::from_str(text).unwrap();
        assert_eq!(
            (plan.warmup, plan.waits_at()),
            (Nanos::from_secs(5), Some(50))
        );
        assert_eq!(plan.shard, ShardName { number: 2, of: 4 });
        assert!(plan.follow && plan.checked && plan.model() == LoadModel::Open);
        assert_eq!(plan.other["batch"], 25);
        let again = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<PlanDocument>(&again).unwrap(), plan);
        assert!(serde_json::from_str::<PlanDocument>(r#"{"rows": "most"}"#).is_err());
    }
}
