//! Which numbers a summary has, by its schema, in which units they are measured, and how bounds on them are written.

use measure::{Code, Quantiles};
use report::text;
use serde_json::Value;

/// The unit of a metric; `None` when the schema of `summary.json` has no number, counts by name or
/// statistics at this path.
pub(super) fn unit(path: &[String]) -> Option<Unit> {
    let is_code = |key: &str| key == "other" || key.parse::<Code>().is_ok();
    let fits = |(known, key): (&String, &String)| known == key || (known == ANY && is_code(key));
    let is_at = |known: &Vec<String>| known.len() == path.len() && known.iter().zip(path).all(fits);
    let found = paths().into_iter().find(|(known, _)| is_at(known));
    found.map(|(_, unit)| unit)
}

/// Every metric by the name a person would write.
pub(super) fn names() -> Vec<String> {
    let short = SHORT
        .into_iter()
        .flat_map(|(short, _)| Quantiles::NAMES.map(|figure| format!("{short}.{figure}")));
    let paths = paths().into_iter().map(|(path, _)| path);
    let paths = paths.filter(|path| path.iter().all(|key| key != ANY));
    short
        .chain([super::metric::FAILED_SHARE[0].into()])
        .chain(paths.map(|path| path.join(".")))
        .collect()
}

/// The paths of all metrics, and their units; none has less than two keys.
fn paths() -> Vec<(Vec<String>, Unit)> {
    let mut paths = Vec::new();
    if let Ok(schema) = serde_json::from_str::<Value>(SCHEMA) {
        collect(&schema, &schema, &mut Vec::new(), &mut paths);
    }
    paths
}

/// The metrics that the user may have meant, nearest first, three at most.
pub(super) fn near(written: &str) -> Vec<String> {
    let written = written.to_ascii_lowercase();
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let first = written.split('.').next().unwrap_or_default();
    let mut near: Vec<(usize, bool, usize, String)> = names()
        .into_iter()
        .filter_map(|name| {
            // The right word in the wrong place is as likely as a slip of the finger.
            let distance = if last(&written) == last(&name) {
                let (head, other) = (
                    written.len() - last(&written).len(),
                    name.len() - last(&name).len(),
                );
                strsim::damerau_levenshtein(&written[..head], &name[..other]).min(MAX_TYPING_ERRORS)
            } else if written.contains('.') {
                typing_errors(&written, &name)
            } else {
                // Only the last word was written.
                typing_errors(&written, &last(&name))
            };
            let elsewhere = name.split('.').next() != Some(first);
            (distance <= MAX_TYPING_ERRORS).then_some((distance, elsewhere, name.len(), name))
        })
        .collect();
    near.sort_unstable();
    near.truncate(3);
    near.into_iter().map(|(_, _, _, name)| name).collect()
}

/// How far two words are apart; too far where half of what was written is something else.
fn typing_errors(written: &str, name: &str) -> usize {
    let distance = strsim::damerau_levenshtein(written, name);
    let is_near = 2 * distance <= written.len();
    if is_near { distance } else { usize::MAX }
}

/// Adds the paths of all metrics below a place.
fn collect(
    schema: &Value,
    place: &Value,
    path: &mut Vec<String>,
    paths: &mut Vec<(Vec<String>, Unit)>,
) {
    for place in alternatives(schema, place) {
        let fields = place.get("properties").and_then(Value::as_object);
        let fields = fields.into_iter().flatten();
        let any = place.get("additionalProperties");
        let any = any.filter(|any| any.is_object()).map(|any| (ANY, any));
        for (key, field) in fields.map(|(key, field)| (&**key, field)).chain(any) {
            path.push(key.to_owned());
            if path.len() > 1 && is_metric(schema, key, field) {
                paths.push((path.clone(), unit_of(schema, field)));
            }
            collect(schema, field, path, paths);
            path.pop();
        }
    }
}

/// The unit that the description of a number, or of the mean of statistics, names.
fn unit_of(schema: &Value, place: &Value) -> Unit {
    let described = std::iter::once(place).chain(alternatives(schema, place));
    let mut units = described.filter_map(|place| {
        let mean = place.pointer("/properties/mean").unwrap_or(place);
        match mean.get("description")?.as_str()? {
            text if text.contains("per second") => Some(Unit::Rate),
            text if text.contains("milliseconds") => Some(Unit::Duration(1)),
            text if text.contains("seconds") => Some(Unit::Duration(1_000)),
            _ => None,
        }
    });
    units.next().unwrap_or(Unit::Count)
}

/// A number, counts by name (they are added up) or statistics (their mean stands for them).
fn is_metric(schema: &Value, key: &str, place: &Value) -> bool {
    is_number(schema, place) || key.contains(super::metric::COUNTS_BY_NAME)
}

fn is_number(schema: &Value, place: &Value) -> bool {
    alternatives(schema, place).any(|place| {
        let is_plain = match place.get("type") {
            Some(Value::String(name)) => is_numeric(name),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(is_numeric),
            _ => false,
        };
        let fields = place.get("properties");
        let is_statistics = fields.is_some_and(|fields| fields.get("mean").is_some());
        let is_counts = place
            .get("additionalProperties")
            .is_some_and(|any| any.is_object() && is_number(schema, any));
        is_plain || is_statistics || is_counts
    })
}

fn is_numeric(name: &str) -> bool {
    matches!(name, "number" | "integer")
}

/// A place of the schema, with references followed and alternatives side by side.
fn alternatives<'a>(schema: &'a Value, place: &'a Value) -> impl Iterator<Item = &'a Value> {
    let follow = move |place: &'a Value| {
        let target = place.get("$ref").and_then(Value::as_str);
        target
            .and_then(|target| schema.pointer(target.trim_start_matches('#')))
            .unwrap_or(place)
    };
    let place = follow(place);
    let either = ["anyOf", "oneOf"]
        .into_iter()
        .filter_map(move |key| place.get(key)?.as_array())
        .flatten();
    std::iter::once(place).chain(either.map(follow))
}

/// Stands for any name in a path.
const ANY: &str = "*";
/// Short names of latencies and their keys in `latency_ms`.
pub(super) const SHORT: [(&str, &str); 4] = [
    ("lateness", "lateness"),
    ("accept", "accept_response"),
    ("service", "accept_service"),
    ("commit", "commit_from_due"),
];
/// Further apart than this two names are different words.
const MAX_TYPING_ERRORS: usize = 4;
const SCHEMA: &str = include_str!("../../../../docs/summary.schema.json");

/// The unit of a metric in `summary.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// A duration, in units of so many milliseconds.
    Duration(u32),
    /// Per second.
    Rate,
    /// A share of a whole.
    Share,
    /// A number of things.
    Count,
}

impl Unit {
    /// Reads a bound, in the unit of the summary; 0 needs no unit.
    ///
    /// # Errors
    /// The kind of bound that is wanted.
    pub(super) fn parse(self, bound: &str) -> Result<f64, &'static str> {
        let (units, divisor): (&[(&str, f64)], f64) = match self {
            Self::Duration(millis) => (&DURATIONS, f64::from(millis)),
            Self::Rate => (&[("/s", 1.0)], 1.0),
            Self::Share => (&[("%", 1.0)], 100.0),
            Self::Count => (&[("", 1.0)], 1.0),
        };
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
        let in_unit = |(unit, factor): &(&str, f64)| {
            let limit = number(bound.strip_suffix(unit)?.trim_end())? * factor / divisor;
            Some(limit).filter(|limit| limit.is_finite())
        };
        let zero = || number(bound).filter(|number| *number == 0.0);
        let found = units.iter().find_map(in_unit).or_else(zero);
        found.ok_or_else(|| self.wanted())
    }

    /// The lowest and the highest value that a metric of this unit can have.
    pub(super) const fn range(self) -> (f64, f64) {
        match self {
            Self::Share => (0.0, 1.0),
            Self::Duration(_) | Self::Rate | Self::Count => (0.0, f64::INFINITY),
        }
    }

    /// The range in words.
    pub(super) const fn range_text(self) -> &'static str {
        match self {
            Self::Share => "from 0 % to 100 %",
            Self::Duration(_) | Self::Rate | Self::Count => "never below 0",
        }
    }

    const fn wanted(self) -> &'static str {
        match self {
            Self::Duration(_) => "a duration with its unit (5s, 250ms, 80us)",
            Self::Rate => "a rate (500/s)",
            Self::Share => "a percentage (0.5%)",
            Self::Count => "a count, a number without a unit (10)",
        }
    }

    /// A value with its unit.
    pub(super) fn text(self, value: f64) -> String {
        match self {
            Self::Duration(millis) => text::millis(value * f64::from(millis)),
            Self::Rate => text::rate(value),
            Self::Share => text::percent(value),
            Self::Count => text::number(value),
        }
    }
}

/// In milliseconds.
const DURATIONS: [(&str, f64); 5] = [
    ("ns", 1e-6),
    ("us", 1e-3),
    ("ms", 1.0),
    ("s", 1e3),
    ("m", 60e3),
];

/// How a value is compared with a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

impl Comparison {
    /// Whether it holds for every value from the lowest to the highest.
    pub(super) fn holds(self, (low, high): (f64, f64), limit: f64) -> bool {
        let is = |value: f64| (value - limit).abs() < f64::EPSILON;
        match self {
            Self::Less => high < limit,
            Self::LessOrEqual => high <= limit,
            Self::Greater => low > limit,
            Self::GreaterOrEqual => low >= limit,
            Self::Equal => is(low) && is(high),
            Self::NotEqual => (high < limit || low > limit) && !is(low) && !is(high),
        }
    }

    /// Whether it holds for every value of a range (`true`) or for none (`false`); nothing where it depends.
    pub(super) fn is_settled(self, range: (f64, f64), limit: f64) -> Option<bool> {
        let always = self.holds(range, limit);
        (always || self.opposite().holds(range, limit)).then_some(always)
    }

    pub(super) const fn opposite(self) -> Self {
        match self {
            Self::Less => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::Greater,
            Self::Greater => Self::LessOrEqual,
            Self::GreaterOrEqual => Self::Less,
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
        }
    }

    /// Two-character signs first, so that `<=` is not read as `<`.
    pub(super) const ALL: [(&'static str, Self); 6] = [
        ("<=", Self::LessOrEqual),
        (">=", Self::GreaterOrEqual),
        ("==", Self::Equal),
        ("!=", Self::NotEqual),
        ("<", Self::Less),
        (">", Self::Greater),
    ];
}
