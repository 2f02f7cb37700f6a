//! Many runs of one file: cases, a matrix over any key, repeats, and their order.

use std::fmt;
use std::num::NonZeroU32;

use anyhow::bail;
use pacing::Nanos;
use serde::{Deserialize, Serialize};
use servers::leaves;
use toml::{Table, Value};

use super::prove::Change;
use chain::text;

base::settings! {
    /// How often, in which order, with which rests.
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct CampaignSection {
        /// How often each run is played.
        pub repeats: NonZeroU32 = NonZeroU32::MIN,
        /// The order of repeated runs.
        pub order: Order = Order::default(),
        /// A rest between two runs.
        #[serde(with = "text::value")]
        pub pause: Nanos = Nanos::ZERO,
        /// Beside the true rates, those of this many newest blocks at the end of each burst, as tm-bench
        /// computed them (21).
        pub window: Option<NonZeroU32> = None,
    }
}

/// The order of repeated runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// A B, B A, A B: every round once through, every second one backwards. What drifts evenly with
    /// time then favours neither.
    #[default]
    Abba,
    /// A B, A B, A B.
    Interleaved,
    /// A A A, B B B.
    Grouped,
}

impl Order {
    /// Which cell is played when, and for which time (from 1), given how often each is.
    pub(super) fn of(self, repeats: &[u32]) -> Vec<(usize, u32)> {
        let rounds = repeats.iter().copied().max().unwrap_or(0);
        if self == Self::Grouped {
            let cells = repeats.iter().enumerate();
            return cells
                .flat_map(|(cell, &times)| (1..=times).map(move |time| (cell, time)))
                .collect();
        }
        let mut order = Vec::new();
        for round in 1..=rounds {
            let mut cells: Vec<usize> = (0..repeats.len())
                .filter(|&cell| repeats[cell] >= round)
                .collect();
            if self == Self::Abba && round.is_multiple_of(2) {
                cells.reverse();
            }
            order.extend(cells.into_iter().map(|cell| (cell, round)));
        }
        order
    }
}

/// One swept parameter: a key, or several that take the same value, and its values.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Axis {
    /// What people call it; the last part of its key otherwise.
    name: Option<String>,
    /// A dotted key of this file.
    key: Option<String>,
    /// Dotted keys that all take the value.
    #[serde(default)]
    keys: Vec<String>,
    /// The values, one run each.
    values: Vec<Value>,
}

/// A run that differs from the file in several keys.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    /// What people call it.
    name: String,
    /// How often it is played; by default as often as the campaign sets.
    repeats: Option<NonZeroU32>,
    /// The keys and their values.
    #[serde(default)]
    set: Table,
}

/// A value of the matrix in one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// The axis.
    pub name: String,
    /// Its value.
    pub value: Value,
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::String(text) => write!(f, "{}={text}", self.name),
            value => write!(f, "{}={value}", self.name),
        }
    }
}

/// One combination of a case and a value of each axis.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) case: Option<String>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) assignments: Vec<(String, Value)>,
    pub(super) repeats: NonZeroU32,
    /// What is changed alone, where that is shown.
    pub(super) change: Option<Change>,
}

impl Cell {
    /// Case and parameters in one line.
    pub(super) fn label(&self) -> String {
        label(self.case.as_ref(), &self.parameters, self.change.as_ref())
    }
}

/// Case, parameters and change in one line.
pub(super) fn label(
    case: Option<&String>,
    parameters: &[Parameter],
    change: Option<&Change>,
) -> String {
    let parameters = parameters.iter().map(ToString::to_string);
    let parts = case.cloned().into_iter().chain(parameters);
    let parts: Vec<String> = parts.chain(change.map(ToString::to_string)).collect();
    parts.join(", ")
}

/// Every case with every combination of the axes' values; the last axis changes fastest.
pub(super) fn cells(
    cases: &[Case],
    axes: &[Axis],
    repeats: NonZeroU32,
) -> anyhow::Result<Vec<Cell>> {
    check_size(cases, axes, repeats)?;
    let names = axis_names(axes)?;
    let mut cells: Vec<Cell> = if cases.is_empty() {
        vec![Cell {
            case: None,
            parameters: Vec::new(),
            assignments: Vec::new(),
            repeats,
            change: None,
        }]
    } else {
        cases
            .iter()
            .map(|case| Cell {
                case: Some(case.name.clone()),
                parameters: Vec::new(),
                assignments: leaves(&case.set),
                repeats: case.repeats.unwrap_or(repeats),
                change: None,
            })
            .collect()
    };
    for (axis, name) in axes.iter().zip(&names) {
        cells = cells
            .iter()
            .flat_map(|cell| {
                axis.values
                    .iter()
                    .map(|value| with(cell, axis, name, value))
            })
            .collect();
    }
    match repeated(&cells) {
        Some(label) => {
            bail!("has two runs called {label:?}; give cases names of their own, and values once")
        }
        None => Ok(cells),
    }
}

fn with(cell: &Cell, axis: &Axis, name: &str, value: &Value) -> Cell {
    let mut cell = cell.clone();
    cell.parameters.push(Parameter {
        name: name.into(),
        value: value.clone(),
    });
    let keys = axis.keys.iter().chain(&axis.key);
    cell.assignments
        .extend(keys.map(|key| (key.clone(), value.clone())));
    cell
}

fn check_size(cases: &[Case], axes: &[Axis], repeats: NonZeroU32) -> anyhow::Result<()> {
    for axis in axes {
        let key = axis.keys.iter().chain(&axis.key).next();
        let Some(key) = key else {
            bail!("has a [[matrix]] without key; give it key = \"settings.connections\"");
        };
        if axis.values.is_empty() {
            bail!("sweeps {key} over no values; give values = [...]");
        }
    }
    let combinations = axes
        .iter()
        .map(|axis| axis.values.len() as u64)
        .try_fold(1_u64, u64::checked_mul);
    let each = cases
        .iter()
        .map(|case| u64::from(case.repeats.unwrap_or(repeats).get()))
        .sum::<u64>()
        .max(u64::from(repeats.get()).min(if cases.is_empty() { u64::MAX } else { 0 }));
    let runs = combinations.and_then(|combinations| combinations.checked_mul(each));
    match runs {
        Some(runs) if runs <= MAX_RUNS => Ok(()),
        _ => bail!("asks for more than {MAX_RUNS} runs; sweep fewer values"),
    }
}

/// The axes' names; where the last part of a key is not enough, the whole key.
fn axis_names(axes: &[Axis]) -> anyhow::Result<Vec<String>> {
    let key = |axis: &Axis| axis.keys.iter().chain(&axis.key).next().cloned();
    let short: Vec<String> = axes
        .iter()
        .map(|axis| {
            let key = key(axis).unwrap_or_default();
            let last = key.rsplit('.').next().unwrap_or_default().to_owned();
            axis.name.clone().unwrap_or(last)
        })
        .collect();
    let names: Vec<String> = axes
        .iter()
        .zip(&short)
        .map(|(axis, name)| {
            let alone = short.iter().filter(|other| *other == name).count() == 1;
            match key(axis) {
                Some(key) if !alone && axis.name.is_none() => key,
                _ => name.clone(),
            }
        })
        .collect();
    let twice = names
        .iter()
        .enumerate()
        .find(|(position, name)| names[..*position].contains(name));
    match twice {
        Some((_, name)) => bail!("sweeps {name} twice; make it one [[matrix]]"),
        None => Ok(names),
    }
}

fn repeated(cells: &[Cell]) -> Option<String> {
    let mut labels: Vec<String> = cells.iter().map(Cell::label).collect();
    labels.sort_unstable();
    labels
        .windows(2)
        .find(|pair| pair[0] == pair[1])
        .map(|pair| pair[0].clone())
}

/// Each run has a folder and a row of the table.
const MAX_RUNS: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_go_forth_and_back() {
        let order = |order: Order| {
            let order = order.of(&[2, 3, 1]).into_iter();
            order
                .map(|(cell, time)| format!("{}{time}", ["A", "B", "C"][cell]))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(order(Order::Abba), "A1 B1 C1 B2 A2 B3");
        assert_eq!(order(Order::Interleaved), "A1 B1 C1 A2 B2 B3");
        assert_eq!(order(Order::Grouped), "A1 A2 B1 B2 B3 C1");
    }

    #[test]
    fn a_sweep_beyond_every_patience_is_refused() {
        let axis = |count: i64| Axis {
            name: None,
            key: Some("settings.size".into()),
            keys: Vec::new(),
            values: (0..count).map(Value::Integer).collect(),
        };
        let repeats = NonZeroU32::new(101).unwrap();
        let error = cells(&[], &[axis(100)], repeats).unwrap_err().to_string();
        assert!(error.contains("more than 10000 runs"), "{error}");
        let error = cells(&[], &[axis(2), axis(2)], NonZeroU32::MIN)
            .unwrap_err()
            .to_string();
        assert!(error.contains("twice"), "{error}");
        assert_eq!(cells(&[], &[], repeats).unwrap().len(), 1);
    }
}
