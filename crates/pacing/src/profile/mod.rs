//! Profiles: the rate as a function of time, and its integral.

mod shape;
mod smooth;
mod stairs;
mod trace;

use std::{fmt, num::NonZeroU32, ops::Range, sync::Arc};

use self::shape::Phase;
pub(crate) use self::shape::Piece;
pub use self::shape::ProfileError;
pub use self::shape::Step;
use self::shape::{MAX_DURATION_NANOS, MAX_STEPS, Shape, check_duration};
use self::smooth::{Exponential, Law, Linear, Sine, Smooth};
use self::stairs::Ramp;
use self::stairs::{Square, Staircase, Stairs};
use self::trace::{Point, Trace};
use crate::nanos::Nanos;
use crate::rate::{Rate, SignedRate};
use crate::size::Count;

/// The rate as a function of time, from the run's origin.
///
/// A profile is checked when it is made and cheap to clone. It consists of one shape or of several
/// in sequence ([`Profile::phases`]). Its integral, in units of 10⁻¹⁵ transactions, is computed
/// from the start of the shape in integers, so nothing adds up over time:
///
/// - constant, ramp, square and trace are exact;
/// - linear, exponential and sine are staircases of 1 ms: at each whole millisecond and at the end they are
///   exact (linear: rounded down to the unit; the others: less than one transaction from the true integral
///   up to 10^12 transactions), and within a millisecond the rate is the mean one.
#[derive(Debug, Clone)]
pub struct Profile {
    phases: Arc<[Phase]>,
}

/// Constructors.
impl Profile {
    /// The longest profile that has an end: 366 days.
    pub const MAX_DURATION: Nanos = Nanos::new(MAX_DURATION_NANOS);
    /// The greatest number of steps: 16,777,216.
    pub const MAX_STEPS: u32 = MAX_STEPS;

    /// One rate for `duration`, or until stopped.
    ///
    /// # Errors
    /// A rate of zero; a duration of zero or above [`Profile::MAX_DURATION`].
    pub fn constant(rate: Rate, duration: Option<Nanos>) -> Result<Self, ProfileError> {
        if rate.is_zero() {
            return Err(ProfileError::nothing_offered("the rate"));
        }
        let length = match duration {
            Some(duration) => {
                check_duration("the duration", duration)?;
                format!("for {duration}")
            }
            None => "until stopped".to_owned(),
        };
        let text = format!("constant {rate} {length}");
        Ok(Self::stairs(&text, rate, Trace::constant(rate, duration)))
    }

    /// Nothing for `duration`: for use between other phases, it offers nothing on its own.
    ///
    /// # Errors
    /// A duration of zero or above [`Profile::MAX_DURATION`].
    pub fn pause(duration: Nanos) -> Result<Self, ProfileError> {
        check_duration("the pause", duration)?;
        let pause = Trace::constant(Rate::ZERO, Some(duration));
        Ok(Self::stairs(
            &format!("pause for {duration}"),
            Rate::ZERO,
            pause,
        ))
    }

    /// A ramp in steps: `start + k · step` during the k-th interval of `every`.
    ///
    /// The last step is the one whose rate reaches `to` or would pass it, and has exactly that
    /// rate: from 1/s by 500/s to 2001/s the rates are 1, 501, 1001, 1501 and 2001. Without `to`
    /// the ramp runs until stopped, at the latest where the next step would exceed 10,000,000/s
    /// (or after [`Profile::MAX_STEPS`]); [`Profile::duration`] is then `None`.
    ///
    /// # Errors
    /// `every` of zero or more than [`Profile::MAX_DURATION`] in all; a step of zero, one that
    /// leads away from `to`, or a falling one without `to`; too many steps; nothing offered.
    pub fn steps(
        start: Rate,
        step: SignedRate,
        every: Nanos,
        to: Option<Rate>,
    ) -> Result<Self, ProfileError> {
        let ramp = Ramp::new(start, step, every, to)?;
        if ramp.peak().is_zero() {
            return Err(ProfileError::nothing_offered("the rate of every step"));
        }
        let end = to.map_or_else(|| "until stopped".to_owned(), |to| format!("to {to}"));
        let text = format!("ramp {start} {step} every {every} {end}");
        Ok(Self::stairs(&text, ramp.peak(), ramp))
    }

    /// A rate that changes evenly from `from` to `to` in `duration`. One of them may be zero.
    ///
    /// # Errors
    /// Both rates zero; a duration of zero or above [`Profile::MAX_DURATION`].
    pub fn linear(from: Rate, to: Rate, duration: Nanos) -> Result<Self, ProfileError> {
        let text = format!("linear {from} to {to} in {duration}");
        let law = Linear::new(from, to, duration)?;
        Ok(Self::smooth(&text, from.max(to), law))
    }

    /// A rate that changes by the same factor in equal times: `from · (to / from)^(t / duration)`.
    ///
    /// # Errors
    /// A rate of zero; a duration of zero or above [`Profile::MAX_DURATION`].
    pub fn exponential(from: Rate, to: Rate, duration: Nanos) -> Result<Self, ProfileError> {
        let text = format!("exponential {from} to {to} in {duration}");
        let law = Exponential::new(from, to, duration)?;
        Ok(Self::smooth(&text, from.max(to), law))
    }

    /// `high` for `on`, then `low` for `off`, `cycles` times; ends with an off time.
    ///
    /// # Errors
    /// `high` zero or not above `low`; a time of zero; more than [`Profile::MAX_DURATION`] in all;
    /// too many steps (each cycle has two).
    pub fn square(
        high: Rate,
        low: Rate,
        on: Nanos,
        off: Nanos,
        cycles: NonZeroU32,
    ) -> Result<Self, ProfileError> {
        let text = format!("square {high} for {on}, {low} for {off}, {cycles} times");
        let square = Square::new(high, low, on, off, cycles)?;
        Ok(Self::stairs(&text, high, square))
    }

    /// `mean + amplitude · sin(2π · t / period)` for `duration`: begins at the mean, rising.
    ///
    /// # Errors
    /// A mean of zero; an amplitude above the mean; a crest above 10,000,000/s; a period or
    /// duration of zero or above [`Profile::MAX_DURATION`].
    pub fn sine(
        mean: Rate,
        amplitude: Rate,
        period: Nanos,
        duration: Nanos,
    ) -> Result<Self, ProfileError> {
        let sine = Sine::new(mean, amplitude, period, duration)?;
        // Also the peak of a sine that ends before its first crest.
        let crest = Rate::clamped(mean.as_micros() + amplitude.as_micros());
        let text = format!("sine {mean} ±{amplitude} with a period of {period} for {duration}");
        Ok(Self::smooth(&text, crest, sine))
    }

    /// A recorded rate: each point's rate holds until the next point. Times are since the origin,
    /// the first is 0, and they increase.
    ///
    /// The last point holds until `end`; without one, for as long as the point before it did (one
    /// second if it is the only point).
    ///
    /// # Errors
    /// No points; times as above not kept; all rates zero; `end` not after the last point; more
    /// than [`Profile::MAX_DURATION`] or [`Profile::MAX_STEPS`].
    pub fn trace(
        points: impl IntoIterator<Item = (Nanos, Rate)>,
        end: Option<Nanos>,
    ) -> Result<Self, ProfileError> {
        let points = (1..).zip(points);
        let points = points.map(|(number, (at, rate))| Point { at, rate, number });
        Trace::new(points, "point", end).map(Self::of_trace)
    }

    /// A trace from CSV text: `second,rate`, one row a line, as in [`Profile::trace`] without an
    /// end.
    ///
    /// Seconds are decimal numbers, rates are plain numbers or texts of [`Rate`]. A first line of
    /// column names, empty lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// As [`Profile::trace`], and for a line that is no such row; each names the line.
    pub fn parse_trace(text: &str) -> Result<Self, ProfileError> {
        trace::parse(text).map(Self::of_trace)
    }

    /// Several profiles one after the other, without a seam: a fraction of a transaction that one
    /// leaves is carried into the next. Only the last may run until stopped.
    ///
    /// # Errors
    /// No phases; nothing but pauses; one without an end before another; more than
    /// [`Profile::MAX_DURATION`] or [`Profile::MAX_STEPS`] in all.
    pub fn phases(phases: impl IntoIterator<Item = Self>) -> Result<Self, ProfileError> {
        let mut placed: Vec<Phase> = Vec::new();
        for phase in phases
            .into_iter()
            .flat_map(|profile| profile.phases.to_vec())
        {
            let next = match placed.last() {
                Some(before) => before.followed_by(&phase, placed.len())?,
                None => phase,
            };
            placed.push(next);
        }
        let Some(last) = placed.last() else {
            return Err(ProfileError::new(
                "the list of phases is empty: give at least one phase".to_owned(),
            ));
        };
        if last.area_end == 0 {
            return Err(ProfileError::nothing_offered("the rate of every phase"));
        }
        if !last.shape.endless() {
            check_duration("the sequence of phases", Nanos::new(last.end))?;
        }
        Ok(Self {
            phases: placed.into(),
        })
    }

    /// The same with step `again` offered a second time, from where step `before` begins; what follows moves
    /// back. Behind the last step (`before` is their number) a pause may come first.
    ///
    /// Everything before it is as it was: no due time changes.
    ///
    /// # Errors
    /// No such step, a profile without an end before it, or as [`Profile::phases`].
    pub fn with_again(
        &self,
        again: u32,
        before: u32,
        pause: Option<Nanos>,
    ) -> Result<Self, ProfileError> {
        let part = |steps: Range<u32>| {
            let phases = self.phases.iter().filter_map(|phase| phase.part(&steps));
            Self {
                phases: phases.collect(),
            }
        };
        let mut repeated = part(again..again.saturating_add(1)).phases.to_vec();
        if repeated.is_empty() {
            return Err(ProfileError::new(format!("there is no step {again}")));
        }
        repeated.iter_mut().for_each(|it| it.again_of = Some(again));
        let repeated = Self {
            phases: repeated.into(),
        };
        let pause = pause.map(Self::pause).transpose()?;
        let parts = [
            Some(part(0..before)),
            pause,
            Some(repeated),
            Some(part(before..u32::MAX)),
        ];
        Self::phases(parts.into_iter().flatten())
    }

    fn of_trace(trace: Trace) -> Self {
        let (rows, length, peak) = (trace.count(), Nanos::new(trace.end), trace.peak());
        let text = format!("trace of {rows} rows for {length}, up to {peak}");
        Self::stairs(&text, peak, trace)
    }

    fn stairs(text: &str, peak: Rate, stairs: impl Stairs + 'static) -> Self {
        Self::single(text, peak, Staircase(stairs))
    }

    fn smooth(text: &str, peak: Rate, law: impl Law + 'static) -> Self {
        Self::single(text, peak, Smooth(law))
    }

    /// `text` begins with the shape's name.
    fn single(text: &str, peak: Rate, shape: impl Shape + 'static) -> Self {
        Self {
            phases: Arc::new([Phase::first(text, peak, Arc::new(shape))]),
        }
    }
}

/// The figures of a profile.
impl Profile {
    /// How long it lasts; nothing when it runs until stopped.
    pub fn duration(&self) -> Option<Nanos> {
        let last = self.last();
        (!last.shape.endless()).then_some(Nanos::new(last.end))
    }

    /// The rate at `t`; zero after the end.
    pub fn rate_at(&self, t: Nanos) -> Rate {
        match self.phase_at(t.as_nanos()) {
            Some(phase) => phase.shape.rate_at(t.as_nanos() - phase.start),
            None => Rate::ZERO,
        }
    }

    /// The highest rate it reaches.
    pub fn peak(&self) -> Rate {
        let peaks = self.phases.iter().map(|phase| phase.peak);
        peaks.max().unwrap_or(Rate::ZERO)
    }

    /// Transactions planned before `t`, fractions included: the integral of the rate over `[0, t)`.
    pub fn integral(&self, t: Nanos) -> Count {
        Count::from_area(match self.phase_at(t.as_nanos()) {
            Some(phase) => phase.area_start + phase.shape.area(t.as_nanos() - phase.start),
            None => self.area(),
        })
    }

    /// Transactions planned in all, fractions included; nothing when it runs until stopped.
    pub fn total(&self) -> Option<Count> {
        self.duration().map(|_| Count::from_area(self.area()))
    }

    /// The step that contains `t`; after the end, the last one.
    ///
    /// A constant, linear, exponential or sine profile is one step; a ramp has one each interval, a
    /// square wave one each half, a trace one each row; phases have those of each phase.
    pub fn step_at(&self, t: Nanos) -> Step {
        match self.phase_at(t.as_nanos()) {
            Some(phase) => phase.step(phase.shape.step_at(t.as_nanos() - phase.start)),
            None => self.last().step(self.last().shape.steps() - 1),
        }
    }

    /// The step of that index, if there is one.
    pub fn step(&self, index: u32) -> Option<Step> {
        let after = self
            .phases
            .partition_point(|phase| phase.first_step <= index);
        let phase = &self.phases[after - 1];
        let local = index - phase.first_step;
        (local < phase.shape.steps()).then(|| phase.step(local))
    }

    /// How many steps there are.
    pub fn step_count(&self) -> u32 {
        self.last().first_step + self.last().shape.steps()
    }

    /// All steps in order.
    pub fn iter_steps(&self) -> impl Iterator<Item = Step> {
        (0..self.step_count()).map_while(|index| self.step(index))
    }

    /// The word for this kind of profile: `constant`, `pause`, `ramp`, `linear`, `exponential`,
    /// `square`, `sine`, `trace` or `phases`.
    pub fn name(&self) -> &str {
        match &*self.phases {
            [phase] => phase.name(),
            _ => "phases",
        }
    }
}

/// For the cursor.
impl Profile {
    /// The whole area.
    pub(crate) fn area(&self) -> u128 {
        self.last().area_end
    }

    /// The piece on which the area passes `area`, if it does; `near` is where to look first.
    pub(crate) fn piece(&self, area: u128, near: Option<u64>) -> Option<Piece> {
        let index = self.phases.partition_point(|phase| phase.area_end <= area);
        let phase = self.phases.get(index)?;
        let near = near.map(|near| near.saturating_sub(phase.start));
        let piece = phase.shape.piece(area - phase.area_start, near);
        Some(Piece {
            start: phase.start + piece.start,
            end: phase.start + piece.end,
            area_start: phase.area_start + piece.area_start,
            area_end: phase.area_start + piece.area_end,
            rate: piece.rate,
        })
    }

    fn phase_at(&self, t: u64) -> Option<&Phase> {
        let index = self.phases.partition_point(|phase| phase.end <= t);
        self.phases.get(index)
    }

    fn last(&self) -> &Phase {
        &self.phases[self.phases.len() - 1]
    }
}

/// One line that a person reads: `ramp 1/s +500/s every 30s to 7000/s`.
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, phase) in self.phases.iter().enumerate() {
            if index > 0 {
                f.write_str(", then ")?;
            }
            f.write_str(&phase.text)?;
        }
        Ok(())
    }
}
