//! Interventions: one number of the file changed at a time, down and up, each beside unchanged runs.

use std::fmt;
use std::num::NonZeroU32;

use anyhow::bail;
use serde::{Deserialize, Serialize};
use servers::{assign, leaves};
use toml::{Table, Value};

use super::NodeKind;
use super::grid::Cell;
use chain::{Share, text};

/// A number that is changed alone.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Intervention {
    /// What people call it; its key otherwise.
    name: Option<String>,
    /// A dotted key of this file, which has a number there, or a text that begins with one.
    key: String,
    /// By how much it is lowered and raised.
    #[serde(with = "text", default)]
    by: Option<Share>,
    /// Whether it is only lowered or only raised; both without.
    only: Option<Only>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Only {
    Down,
    Up,
}

/// A number that is changed, or left, in a run that shows what it does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// What is changed.
    pub resource: String,
    /// What it is multiplied by: 1 in the runs beside.
    pub factor: f64,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.factor {
            1.0 => write!(f, "{} unchanged", self.resource),
            factor => write!(f, "{} x {factor:.3}", self.resource),
        }
    }
}

/// One for each number that the file gives to its node of this kind.
///
/// # Errors
/// When there is none.
pub(super) fn all_of(table: &Table, kind: NodeKind) -> anyhow::Result<Vec<Intervention>> {
    let found = leaves(table).into_iter().filter_map(|(key, value)| {
        let is_possible = |factor| match scaled(&value, factor) {
            Some((Value::String(share), _)) if key == PROCESSOR => share.parse::<Share>().is_ok(),
            made => made.is_some(),
        };
        let only = match [1.0 - USUAL_CHANGE, 1.0 + USUAL_CHANGE].map(is_possible) {
            [true, true] => None,
            [true, false] => Some(Only::Down),
            [false, true] => Some(Only::Up),
            [false, false] => return None,
        };
        is_resource(kind, &key).then_some(Intervention {
            name: None,
            key,
            by: None,
            only,
        })
    });
    let found: Vec<Intervention> = found.collect();
    if found.is_empty() {
        bail!(
            "gives its node no number that --prove could change; give it some, for instance --set \
             node.processor=60% of a cometbft, simd or btcd, or --set node.builtin.block_interval=1s"
        );
    }
    Ok(found)
}

/// Whether a key is a resource of nodes of this kind.
fn is_resource(kind: NodeKind, key: &str) -> bool {
    let of_processes = [PROCESSOR, "node.link"];
    let tables: &[&str] = match kind {
        NodeKind::Endpoints => return false,
        NodeKind::Builtin => &["node.builtin.", "builtin."],
        NodeKind::Cometbft => &["node.cometbft.", "node.genesis."],
        NodeKind::Simd => &["node.cometbft.", "node.genesis.", "node.simd."],
        NodeKind::Btcd => &[],
    };
    tables.iter().any(|table| key.starts_with(table))
        || kind.is_process() && of_processes.contains(&key)
}

/// A share of the time: not above all of it.
const PROCESSOR: &str = "node.processor";

/// How often each run is played by default: fewer rounds than three have intervals without an end.
pub(super) const ROUNDS: NonZeroU32 = NonZeroU32::new(3).expect("not zero");

/// Each cell as it is, with less and with more of each resource: the unchanged run stands beside the two that it is
/// compared with.
pub(super) fn changed(
    cells: Vec<Cell>,
    interventions: &[Intervention],
    table: &Table,
) -> anyhow::Result<Vec<Cell>> {
    if interventions.is_empty() {
        return Ok(cells);
    }
    let mut all = Vec::new();
    for cell in cells {
        if cell.repeats.get() < FEWEST_ROUNDS {
            bail!(
                "changes resources with [[prove]] in {} round; an interval needs {FEWEST_ROUNDS} at least, so set \
                 campaign.repeats",
                cell.repeats
            );
        }
        let mut table = table.clone();
        for (key, value) in &cell.assignments {
            assign(&mut table, key, value.clone())?;
        }
        let known = leaves(&table);
        for intervention in interventions {
            let value = known.iter().find(|(key, _)| *key == intervention.key);
            let Some((_, value)) = value else {
                bail!(
                    "changes {} with [[prove]] and has no value for it; give it one",
                    intervention.key
                );
            };
            let by = intervention.by.map_or(USUAL_CHANGE, Share::as_f64);
            let factors = match intervention.only {
                None => &[1.0, 1.0 - by, 1.0 + by][..],
                Some(Only::Down) => &[1.0, 1.0 - by],
                Some(Only::Up) => &[1.0, 1.0 + by],
            };
            for factor in factors {
                all.push(intervention.applied(&cell, value, *factor)?);
            }
        }
    }
    Ok(all)
}

impl Intervention {
    fn applied(&self, cell: &Cell, value: &Value, factor: f64) -> anyhow::Result<Cell> {
        let Some((value, factor)) = scaled(value, factor) else {
            bail!(
                "changes {} with [[prove]], and {value} is no number that can be multiplied by {factor}",
                self.key
            );
        };
        let mut cell = cell.clone();
        cell.assignments.push((self.key.clone(), value));
        cell.change = Some(Change {
            resource: self.name.clone().unwrap_or_else(|| self.key.clone()),
            factor,
        });
        Ok(cell)
    }
}

/// A value and what it was multiplied by: whole numbers stay whole. None for what is no number above 0, or is too small
/// a whole one to be changed.
fn scaled(value: &Value, factor: f64) -> Option<(Value, f64)> {
    if factor == 1.0 {
        return Some((value.clone(), 1.0));
    }
    let real = |number: f64| (number > 0.0).then_some(number * factor);
    match value {
        Value::Integer(number) => {
            let made = (*number as f64 * factor).round();
            let is_changed = *number > 0 && made > 0.0 && made as i64 != *number;
            is_changed.then(|| (Value::Integer(made as i64), made / *number as f64))
        }
        Value::Float(number) => Some((Value::Float(real(*number)?), factor)),
        Value::String(text) => {
            let digits = text.find(|it: char| !it.is_ascii_digit() && it != '.');
            let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
            let made = real(number.parse().ok()?)?;
            // Six digits: what times, rates and shares are written with.
            let places = (5.0 - made.log10().floor()).clamp(0.0, 9.0) as usize;
            let made = format!("{made:.places$}");
            let made = if made.contains('.') {
                made.trim_end_matches('0').trim_end_matches('.')
            } else {
                &made
            };
            Some((Value::String(format!("{made}{unit}")), factor))
        }
        _ => None,
    }
}

/// Large enough to show, small enough not to reach what limits next.
const USUAL_CHANGE: f64 = 0.15;
const FEWEST_ROUNDS: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_multiplied_and_keep_their_unit_and_their_kind() {
        let of = |value: Value, factor| scaled(&value, factor);
        let text = |value: &str| Value::String(value.into());
        assert_eq!(of(text("1s"), 0.85), Some((text("0.85s"), 0.85)));
        assert_eq!(of(text("4000/s"), 1.15), Some((text("4600/s"), 1.15)));
        assert_eq!(of(text("60%"), 0.85), Some((text("51%"), 0.85)));
        assert_eq!(
            of(Value::Integer(5_000), 0.85),
            Some((Value::Integer(4_250), 0.85))
        );
        assert_eq!(of(Value::Integer(3), 1.15), None, "it would be 3 again");
        assert_eq!(of(Value::Integer(4), 1.15), Some((Value::Integer(5), 1.25)));
        assert_eq!(of(Value::Float(0.5), 1.5), Some((Value::Float(0.75), 1.5)));
        for none in [Value::Boolean(true), text("fast"), Value::Float(0.0)] {
            assert_eq!(of(none, 1.15), None);
        }
        assert_eq!(
            of(text("fast"), 1.0),
            Some((text("fast"), 1.0)),
            "unchanged"
        );
    }
}
