//! The generic cell rate algorithm: a rate and a burst, exact for ever.
//!
//! A limit with rate `r` hands out tokens 1/r apart and lets at most `burst` of them gather. The
//! state is one instant, the *theoretical arrival time* of the next token if all were taken evenly
//! (ITU-T I.371, annex A). It is kept in whole nanoseconds and a fraction with the denominator r,
//! so nothing is ever rounded: 3/s is 10,800 tokens in an hour, not 10,799.

use pacing::{Nanos, Rate};

/// A rate and a burst, shared by any number of [`GcraState`]s.
///
/// In any window of `w` seconds at most `rate × w + max(1, rate × burst)` tokens are taken. The
/// burst is given as time: 20 ms at 2,000/s are 40 tokens. Choose it as long as the pauses between
/// looks at the clock; a burst shorter than one token still lets one token pass at a time. A rate of
/// zero gives nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcraLimit {
    rate: Rate,
    burst: Nanos,
    /// Tokens that gather at most, in [`TOKEN`]ths.
    depth: u128,
}

/// One token in the unit of the arithmetic: millionths per second × nanoseconds.
const TOKEN: u128 = 1_000_000 * 1_000_000_000;

/// What a limit remembers about one client: 16 bytes. The default has its whole burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GcraState {
    /// The theoretical arrival time, whole nanoseconds.
    arrival_ns: u64,
    /// Its fraction: parts of a nanosecond with the rate as denominator.
    arrival_part: u64,
}

impl GcraLimit {
    /// `rate` tokens a second, `burst` worth of them at once.
    pub fn new(rate: Rate, burst: Nanos) -> Self {
        let micros = rate.as_micros();
        Self {
            rate,
            burst,
            depth: (u128::from(burst.as_nanos()) * u128::from(micros)).max(TOKEN),
        }
    }

    /// Tokens a second.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// The most tokens that can be taken at one instant, 1 at least.
    pub fn burst_tokens(&self) -> u64 {
        u64::try_from(self.depth / TOKEN).unwrap_or(u64::MAX)
    }

    /// Takes one token.
    ///
    /// A `now` before an earlier one is harmless: it gives nothing that the later one would not.
    ///
    /// # Errors
    /// The earliest instant at which there will be one; [`Nanos::MAX`] when the rate is zero.
    pub fn try_take(&self, state: &mut GcraState, now: Nanos) -> Result<(), Nanos> {
        self.try_take_many(state, now, 1)
    }

    /// Takes `count` tokens or none.
    ///
    /// # Errors
    /// The earliest instant at which there will be so many, [`Nanos::MAX`] when the rate is zero
    /// or `count` is more than [`GcraLimit::burst_tokens`].
    pub fn try_take_many(
        &self,
        state: &mut GcraState,
        now: Nanos,
        count: u32,
    ) -> Result<(), Nanos> {
        if self.ready(state, now) >= u64::from(count) {
            self.charge(state, now, count);
            return Ok(());
        }
        if u64::from(count) > self.burst_tokens() {
            return Err(Nanos::MAX);
        }
        Err(self.next_at(state, now, count))
    }

    /// Takes as many tokens as there are, at most `max`, and returns how many.
    pub fn take_up_to(&self, state: &mut GcraState, now: Nanos, max: u32) -> u32 {
        let ready = u32::try_from(self.ready(state, now)).unwrap_or(u32::MAX);
        let taken = ready.min(max);
        self.charge(state, now, taken);
        taken
    }

    /// How many tokens there are.
    pub fn ready(&self, state: &GcraState, now: Nanos) -> u64 {
        if self.rate.is_zero() {
            return 0;
        }
        let left = self.depth.saturating_sub(self.owed(state, now));
        u64::try_from(left / TOKEN).unwrap_or(u64::MAX)
    }

    /// The earliest instant, not before `now`, at which `count` tokens are there, or the whole burst
    /// when `count` is more; [`Nanos::MAX`] when the rate is zero.
    pub fn next_at(&self, state: &GcraState, now: Nanos, count: u32) -> Nanos {
        if self.rate.is_zero() {
            return Nanos::MAX;
        }
        let wanted = u64::from(count).min(self.burst_tokens());
        let needed = self.owed(state, now) + u128::from(wanted) * TOKEN;
        let wait = needed
            .saturating_sub(self.depth)
            .div_ceil(self.denominator());
        now.saturating_add(Nanos::new(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    /// Moves a state from this limit to another without giving credit: it holds as many tokens as
    /// before, or the new burst when that is less. Under a rate of zero a state loses its tokens.
    pub fn change(&self, state: &mut GcraState, now: Nanos, to: &Self) {
        let tokens = if self.rate.is_zero() {
            0
        } else {
            self.depth.saturating_sub(self.owed(state, now))
        };
        *state = GcraState::default();
        if !to.rate.is_zero() {
            to.owe(state, now, to.depth - tokens.min(to.depth));
        }
    }

    /// How far the arrival time lies ahead of `now`, in [`TOKEN`]ths.
    fn owed(&self, state: &GcraState, now: Nanos) -> u128 {
        match state.arrival_ns.checked_sub(now.as_nanos()) {
            Some(ahead) => u128::from(ahead) * self.denominator() + u128::from(state.arrival_part),
            None => 0,
        }
    }

    /// Puts the arrival time so far ahead of `now`.
    fn owe(&self, state: &mut GcraState, now: Nanos, owed: u128) {
        let ahead = u64::try_from(owed / self.denominator()).unwrap_or(u64::MAX);
        state.arrival_ns = now.as_nanos().saturating_add(ahead);
        state.arrival_part =
            u64::try_from(owed % self.denominator()).expect("a remainder is below its divisor");
    }

    fn charge(&self, state: &mut GcraState, now: Nanos, count: u32) {
        if count > 0 {
            let owed = self.owed(state, now) + u128::from(count) * TOKEN;
            self.owe(state, now, owed);
        }
    }

    fn denominator(&self) -> u128 {
        u128::from(self.rate.as_micros())
    }
}

/// A limit with its one state: an emitter whose rate may be steered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gcra {
    limit: GcraLimit,
    state: GcraState,
}

impl Gcra {
    /// `rate` tokens a second, `burst` worth of them at once, the first burst being there already.
    pub fn new(rate: Rate, burst: Nanos) -> Self {
        Self {
            limit: GcraLimit::new(rate, burst),
            state: GcraState::default(),
        }
    }

    /// Tokens a second.
    pub const fn rate(&self) -> Rate {
        self.limit.rate
    }

    /// Takes one token.
    ///
    /// # Errors
    /// As [`GcraLimit::try_take`].
    pub fn try_take(&mut self, now: Nanos) -> Result<(), Nanos> {
        self.limit.try_take(&mut self.state, now)
    }

    /// Takes as many tokens as there are, at most `max`, and returns how many.
    pub fn take_up_to(&mut self, now: Nanos, max: u32) -> u32 {
        self.limit.take_up_to(&mut self.state, now, max)
    }

    /// How many tokens there are.
    pub fn ready(&self, now: Nanos) -> u64 {
        self.limit.ready(&self.state, now)
    }

    /// As [`GcraLimit::next_at`].
    pub fn next_at(&self, now: Nanos, count: u32) -> Nanos {
        self.limit.next_at(&self.state, now, count)
    }

    /// Changes the rate, the burst staying as long, without giving credit: it holds as many tokens
    /// as before, or the new burst when that is less. After a rate of zero it holds none.
    pub fn set_rate(&mut self, now: Nanos, rate: Rate) {
        let limit = GcraLimit::new(rate, self.limit.burst);
        if limit != self.limit {
            self.limit.change(&mut self.state, now, &limit);
            self.limit = limit;
        }
    }
}

#[cfg(test)]
mod tests;
