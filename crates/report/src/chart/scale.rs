//! Axes: from values to places, and where to write which value.

use crate::text;

/// How values are spread along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithm. Values must be positive; others are drawn at the low end.
    Log,
    /// Shares from 0 to below 1 by log(1 ÷ (1 − share)): 0, 90 %, 99 % and 99.9 % are equally far
    /// apart, as in HdrHistogram's plots.
    Percentile,
}

/// What an axis counts, and so how its values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Number,
    /// Things a second.
    PerSecond,
    /// Milliseconds, written in the unit that fits.
    Millis,
    /// Seconds of a duration, written in the unit that fits.
    Seconds,
    /// Seconds since the origin, written as on a clock.
    Time,
    /// Shares of one, written in per cent.
    Share,
}

/// One axis of a chart. Its range is that of the data unless it is set.
#[derive(Debug, Clone)]
pub struct Axis {
    pub(super) label: String,
    pub(super) scale: Scale,
    pub(super) unit: Unit,
    pub(super) from: Option<f64>,
    pub(super) to: Option<f64>,
}

impl Axis {
    /// An axis of `unit` with equal steps, from 0.
    pub fn linear(label: &str, unit: Unit) -> Self {
        Self {
            label: label.to_owned(),
            scale: Scale::Linear,
            unit,
            from: Some(0.0),
            to: None,
        }
    }

    /// An axis of `unit` with equal factors.
    pub fn log(label: &str, unit: Unit) -> Self {
        Self {
            scale: Scale::Log,
            from: None,
            ..Self::linear(label, unit)
        }
    }

    /// Seconds since the origin.
    pub fn time() -> Self {
        Self::linear("time since the origin", Unit::Time)
    }

    /// Percentiles by the number of their nines.
    pub fn percentile() -> Self {
        Self {
            scale: Scale::Percentile,
            ..Self::linear("percentile", Unit::Share)
        }
    }

    /// Begins at `from`; `None` for where the data begin.
    #[must_use]
    pub const fn from(mut self, from: Option<f64>) -> Self {
        self.from = from;
        self
    }

    /// Reaches at least to `to`.
    #[must_use]
    pub const fn to(mut self, to: f64) -> Self {
        self.to = Some(to);
        self
    }
}

/// A logarithmic axis is not wider: a value of nothing would add decades without end.
const WIDEST: f64 = 1e7;
/// Larger values are drawn at the edge; nothing that is measured comes near it.
const LARGEST: f64 = 1e15;

/// Where a value is written, and whether it is left out where room is scarce.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    /// 0 to 1 along the axis.
    pub(super) at: f64,
    pub(super) text: String,
    pub(super) minor: bool,
}

/// An axis with a range.
#[derive(Debug, Clone)]
pub(super) struct Ruler {
    scale: Scale,
    unit: Unit,
    low: f64,
    high: f64,
}

impl Ruler {
    /// Of an axis over data from `low` to `high`.
    pub(super) fn new(axis: &Axis, low: f64, high: f64) -> Self {
        let (low, high) = if low <= high {
            (low.max(-LARGEST), high.min(LARGEST))
        } else {
            (0.0, 1.0)
        };
        let mut ruler = Self {
            scale: axis.scale,
            unit: axis.unit,
            low: axis.from.unwrap_or(low),
            high: match (axis.to, axis.unit) {
                // A run's last second and last column reach beyond its end.
                (Some(to), Unit::Time) if to > 0.0 => to,
                (to, _) => to.map_or(high, |to| to.max(high)),
            },
        };
        match axis.scale {
            Scale::Linear => ruler.widen(),
            Scale::Log => ruler.span_decades(low),
            Scale::Percentile => {
                ruler.low = 0.0;
                ruler.high = high.clamp(0.9, 0.999_999_99);
            }
        }
        ruler
    }

    /// 0 at the axis's begin, 1 at its end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let (low, high) = (self.stretch(self.low), self.stretch(self.high));
        ((self.stretch(value) - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// Ticks for about `wanted` values.
    pub(super) fn ticks(&self, wanted: usize) -> Vec<Tick> {
        let values = match self.scale {
            Scale::Linear => self.even(wanted),
            Scale::Log => self.decades(wanted),
            Scale::Percentile => self.nines(),
        };
        let texts: Vec<String> = values
            .iter()
            .map(|(value, _)| self.write_tick(*value))
            .collect();
        // Heights of a long chain differ in digits that a short form leaves out.
        let are_alike = texts.windows(2).any(|pair| pair[0] == pair[1]);
        let texts = texts.into_iter().zip(values);
        texts
            .map(|(text, (value, minor))| Tick {
                at: self.place(value),
                text: if are_alike { self.write(value) } else { text },
                minor,
            })
            .collect()
    }

    /// The range of an axis with equal steps, and whether it is of time, for the page's script.
    pub(super) fn range(&self) -> Option<String> {
        let time = if self.unit == Unit::Time { " t" } else { "" };
        (self.scale == Scale::Linear).then(|| format!("{} {}{time}", self.low, self.high))
    }

    /// A value as it is read at one point of the chart.
    pub(super) fn write(&self, value: f64) -> String {
        match self.unit {
            Unit::Number => text::number(value),
            Unit::PerSecond => text::rate(value),
            Unit::Millis => text::millis(value),
            Unit::Seconds => text::seconds(value),
            Unit::Time => clock(value, self.high),
            Unit::Share if self.scale == Scale::Percentile => percentile(value),
            Unit::Share => text::percent(value),
        }
    }

    fn write_tick(&self, value: f64) -> String {
        match self.unit {
            Unit::Number | Unit::PerSecond => text::short(value),
            Unit::Millis => text::tick_millis(value),
            Unit::Seconds => text::tick_millis(value * 1e3),
            Unit::Time => clock(value, self.high),
            Unit::Share => percentile(value),
        }
    }

    fn stretch(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).log10(),
            Scale::Percentile => -(1.0 - value.clamp(0.0, 0.999_999_999)).log10(),
        }
    }

    /// An axis needs a length, and times end where the run ends.
    fn widen(&mut self) {
        if self.high <= self.low {
            self.high = self.low + if self.low == 0.0 { 1.0 } else { self.low.abs() };
        }
        if self.unit != Unit::Time {
            // A margin above the highest value.
            self.high += (self.high - self.low) * 0.04;
        }
    }

    fn span_decades(&mut self, low: f64) {
        let low = self.low.max(low).max(self.high / WIDEST).max(1e-9);
        let high = self.high.max(low * 2.0);
        // To the next 1, 2 or 5.
        self.low = nice_floor(low);
        self.high = nice_floor(high) * 2.0;
        while self.high < high {
            self.high *= 1.25;
        }
    }

    /// Every other one is minor.
    fn even(&self, wanted: usize) -> Vec<(f64, bool)> {
        let span = self.high - self.low;
        let step = match self.unit {
            Unit::Time => clock_step(span / wanted as f64),
            _ => round_up(span / wanted as f64, &[1.0, 2.0, 5.0]),
        };
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        let last = last.min(first + 4 * wanted as i64);
        (first..=last)
            .map(|n| (n as f64 * step, n.rem_euclid(2) == 1))
            .collect()
    }

    fn decades(&self, wanted: usize) -> Vec<(f64, bool)> {
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let factors: &[f64] = if ((last - first) as usize) * 2 > wanted {
            &[1.0]
        } else {
            &[1.0, 2.0, 5.0]
        };
        let mut values = Vec::new();
        for exponent in first..=last {
            for &factor in factors {
                let value = factor * 10_f64.powi(exponent);
                if (self.low * 0.999..=self.high * 1.001).contains(&value) {
                    values.push((value, factor != 1.0));
                }
            }
        }
        values
    }

    fn nines(&self) -> Vec<(f64, bool)> {
        let mut values = vec![(0.0, true), (0.5, false)];
        let mut rest = 0.1;
        while 1.0 - rest <= self.high {
            values.push((1.0 - rest, false));
            rest /= 10.0;
        }
        values
    }
}

/// The largest 1, 2 or 5 times a power of ten that is not above `value`.
fn nice_floor(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let factor = [5.0, 2.0, 1.0]
        .into_iter()
        .find(|factor| factor * power <= value * 1.000_001);
    factor.unwrap_or(1.0) * power
}

/// The smallest of `factors`, ascending from 1 to below 10, times a power of ten that is not below
/// `value`; 1 where the value is not above 0.
pub fn round_up(value: f64, factors: &[f64]) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    let factor = factors
        .iter()
        .find(|factor| **factor * power >= value * 0.999_999);
    factor.copied().unwrap_or(10.0) * power
}

fn clock_step(value: f64) -> f64 {
    CLOCK_STEPS
        .into_iter()
        .find(|step| *step >= value)
        .unwrap_or_else(|| (value / 86_400.0).ceil() * 86_400.0)
}

/// Seconds as on a clock, as finely as the longest of the axis needs.
fn clock(seconds: f64, longest: f64) -> String {
    if longest < 120.0 {
        return format!("{} s", text::without_zeros((seconds * 10.0).round() / 10.0));
    }
    text::clock(seconds.round(), longest)
}

/// A share in per cent, with as many digits as it has nines.
fn percentile(share: f64) -> String {
    let nines = -(1.0 - share).max(1e-12).log10();
    let decimals = (nines.floor() as usize).saturating_sub(1).min(9);
    let text = format!("{:.*}", decimals + 1, share * 100.0);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} %")
}

const CLOCK_STEPS: [f64; 20] = [
    0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0,
    3_600.0, 7_200.0, 14_400.0, 43_200.0, 86_400.0,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(ruler: &Ruler, wanted: usize) -> Vec<String> {
        ruler
            .ticks(wanted)
            .into_iter()
            .map(|tick| tick.text)
            .collect()
    }

    #[test]
    fn ticks_of_a_long_chain_differ() {
        let axis = Axis::linear("block", Unit::Number).from(None);
        let ticks = texts(&Ruler::new(&axis, 25_123_400.0, 25_123_460.0), 6);
        assert!(ticks.contains(&"25,123,420".to_owned()), "{ticks:?}");
    }

    #[test]
    fn linear_axes_have_round_steps() {
        let ruler = Ruler::new(&Axis::linear("", Unit::PerSecond), 3.0, 1_900.0);
        assert_eq!(texts(&ruler, 5), ["0", "500", "1,000", "1,500"]);
        assert_eq!(ruler.place(0.0), 0.0);
        assert!((ruler.place(1_900.0) - 1.0 / 1.04).abs() < 1e-9);
    }

    #[test]
    fn a_share_is_read_with_three_digits_and_a_percentile_with_all_its_nines() {
        let share = Ruler::new(&Axis::linear("", Unit::Share), 0.0, 1.2);
        let read = [0.0, 0.423_333, 0.999_987, 1.158_411_614_005];
        assert_eq!(
            read.map(|value| share.write(value)),
            ["0 %", "42.3 %", "100 %", "116 %"]
        );
        let percentile = Ruler::new(&Axis::percentile(), 0.0, 0.999_9);
        assert_eq!(percentile.write(0.999_9), "99.99 %");
    }

    #[test]
    fn logarithmic_axes_have_decades() {
        let ruler = Ruler::new(&Axis::log("", Unit::Millis), 0.3, 12_000.0);
        assert_eq!(texts(&ruler, 6), ["1 ms", "10 ms", "100 ms", "1 s", "10 s"]);
        let narrow = Ruler::new(&Axis::log("", Unit::Millis), 20.0, 90.0);
        assert_eq!(texts(&narrow, 6), ["20 ms", "50 ms", "100 ms"]);
        assert!(narrow.place(0.0) == 0.0);
        let zero = Ruler::new(&Axis::log("", Unit::Millis), 0.0, 5_000.0);
        assert!(zero.ticks(6).len() < 10 && zero.place(0.5) > 0.3);
    }

    #[test]
    fn times_are_those_of_a_clock() {
        let ruler = Ruler::new(&Axis::time(), 0.0, 60.0);
        assert_eq!(texts(&ruler, 6)[..3], ["0 s", "10 s", "20 s"]);
        let ruler = Ruler::new(&Axis::time(), 0.0, 3_354.0);
        assert_eq!(texts(&ruler, 8)[..3], ["0:00", "10:00", "20:00"]);
        let ruler = Ruler::new(&Axis::time(), 0.0, 7_300.0);
        assert_eq!(texts(&ruler, 8)[..2], ["0:00:00", "0:30:00"]);
    }

    #[test]
    fn nines_are_equally_far_apart() {
        let ruler = Ruler::new(&Axis::percentile(), 0.0, 0.999_9);
        assert_eq!(
            texts(&ruler, 0),
            ["0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %"]
        );
        let gap = |a: f64, b: f64| ruler.place(b) - ruler.place(a);
        assert!((gap(0.9, 0.99) - gap(0.99, 0.999)).abs() < 1e-9);
    }

    #[test]
    fn nothing_at_all_still_has_an_axis() {
        for axis in [
            Axis::linear("", Unit::Number),
            Axis::log("", Unit::Millis),
            Axis::time(),
            Axis::percentile(),
        ] {
            let ruler = Ruler::new(&axis, f64::INFINITY, f64::NEG_INFINITY);
            assert!(ruler.place(0.5).is_finite());
            assert!(ruler.ticks(6).len() < 30);
            let flat = Ruler::new(&axis, 5.0, 5.0);
            assert!(flat.place(5.0).is_finite());
        }
    }
}
