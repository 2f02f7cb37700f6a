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
    /// Whole nanoseconds of 1/rate.
    gap_ns: u64,
    /// The rest of 1/rate, in parts of a nanosecond: the denominator is the rate.
    gap_part: u64,
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
        let token = u64::try_from(TOKEN).expect("a token is 10^15");
        Self {
            rate,
            burst,
            gap_ns: token.checked_div(micros).unwrap_or(0),
            gap_part: token.checked_rem(micros).unwrap_or(0),
            depth: (u128::from(burst.as_nanos()) * u128::from(micros)).max(TOKEN),
        }
    }

    /// Tokens a second.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// The burst as it was given.
    pub const fn burst(&self) -> Nanos {
        self.burst
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
        if self.rate.is_zero() {
            return Err(Nanos::MAX);
        }
        let start = state.from(now);
        let next = self.one_later(start);
        if u128::from(next.arrival_ns.saturating_sub(now.as_nanos())) * self.denominator()
            + u128::from(next.arrival_part)
            > self.depth
        {
            return Err(self.next_at(state, now, 1));
        }
        *state = next;
        Ok(())
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

    /// Takes as many tokens as there are, at most `max`, and says how many.
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

    /// Whether the whole burst is there, as in a new state.
    pub fn is_full(&self, state: &GcraState, now: Nanos) -> bool {
        self.owed(state, now) == 0
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

    /// The arrival time one token later, without a division.
    fn one_later(&self, state: GcraState) -> GcraState {
        let part = state.arrival_part + self.gap_part;
        let carry = part >= self.rate.as_micros();
        GcraState {
            arrival_ns: state
                .arrival_ns
                .saturating_add(self.gap_ns)
                .saturating_add(u64::from(carry)),
            arrival_part: if carry {
                part - self.rate.as_micros()
            } else {
                part
            },
        }
    }

    fn denominator(&self) -> u128 {
        u128::from(self.rate.as_micros())
    }
}

impl GcraState {
    /// The arrival time, not before `now`: what was not taken in time is gone.
    fn from(self, now: Nanos) -> Self {
        if self.arrival_ns < now.as_nanos() {
            return Self {
                arrival_ns: now.as_nanos(),
                arrival_part: 0,
            };
        }
        self
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

    /// Its rate and burst.
    pub const fn limit(&self) -> &GcraLimit {
        &self.limit
    }

    /// Takes one token.
    ///
    /// # Errors
    /// As [`GcraLimit::try_take`].
    pub fn try_take(&mut self, now: Nanos) -> Result<(), Nanos> {
        self.limit.try_take(&mut self.state, now)
    }

    /// Takes as many tokens as there are, at most `max`, and says how many.
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
        self.set_limit(now, GcraLimit::new(rate, self.limit.burst));
    }

    /// Changes rate and burst, with the same promise.
    pub fn set_limit(&mut self, now: Nanos, limit: GcraLimit) {
        if limit != self.limit {
            self.limit.change(&mut self.state, now, &limit);
            self.limit = limit;
        }
    }

    /// Takes away what has gathered: the next token comes 1/rate from now.
    pub fn drain(&mut self, now: Nanos) {
        let empty = self.limit.depth;
        if !self.limit.rate.is_zero() && self.limit.owed(&self.state, now) < empty {
            self.limit.owe(&mut self.state, now, empty);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: Nanos = Nanos::from_secs(3_600);

    fn rate(text: &str) -> Rate {
        text.parse().unwrap()
    }

    /// Takes whatever it can get until `end`, at the instants it is told.
    fn greedy(gcra: &mut Gcra, end: Nanos) -> Vec<Nanos> {
        let mut now = Nanos::ZERO;
        let mut taken = Vec::new();
        while now < end {
            match gcra.try_take(now) {
                Ok(()) => taken.push(now),
                Err(at) => {
                    assert!(at > now);
                    now = at;
                }
            }
        }
        taken
    }

    #[test]
    fn an_hour_is_exact() {
        // 7/m and 2/h are a little more as a `Rate`, and so are 421 and 3 of them before the hour.
        for (text, expected) in [("3/s", 10_800), ("7/m", 421), ("2/h", 3), ("0.3/s", 1_080)] {
            let mut gcra = Gcra::new(rate(text), Nanos::ZERO);
            assert_eq!(greedy(&mut gcra, HOUR).len(), expected, "{text}");
        }
        let mut gcra = Gcra::new(rate("2000/s"), Nanos::from_millis(1));
        assert_eq!(greedy(&mut gcra, HOUR).len(), 7_200_001);
    }

    #[test]
    fn the_next_token_comes_at_the_exact_instant() {
        let mut gcra = Gcra::new(rate("3/s"), Nanos::ZERO);
        assert_eq!(gcra.try_take(Nanos::ZERO), Ok(()));
        assert_eq!(gcra.try_take(Nanos::ZERO), Err(Nanos::new(333_333_334)));
        assert_eq!(gcra.try_take(Nanos::new(333_333_334)), Ok(()));
        // Late by two thirds of a nanosecond is late: an emitter without burst forgets it.
        assert_eq!(
            gcra.next_at(Nanos::new(333_333_334), 1),
            Nanos::new(666_666_668)
        );
        let mut gcra = Gcra::new(rate("3/s"), Nanos::from_secs(1));
        let taken = greedy(&mut gcra, Nanos::from_secs(2));
        let shown: Vec<u64> = taken.iter().map(|at| at.as_nanos()).collect();
        assert_eq!(
            shown,
            [
                0,
                0,
                0,
                333_333_334,
                666_666_667,
                1_000_000_000,
                1_333_333_334,
                1_666_666_667
            ]
        );
    }

    #[test]
    fn the_burst_is_what_gathers() {
        let mut gcra = Gcra::new(rate("2000/s"), Nanos::from_millis(20));
        assert_eq!(gcra.limit().burst_tokens(), 40);
        assert_eq!(gcra.take_up_to(Nanos::ZERO, 100), 40);
        assert_eq!(gcra.take_up_to(Nanos::from_micros(499), 100), 0);
        assert_eq!(gcra.take_up_to(Nanos::from_micros(500), 100), 1);
        assert_eq!(gcra.take_up_to(Nanos::from_millis(5), 4), 4);
        assert_eq!(gcra.take_up_to(Nanos::from_millis(5), 100), 5);
        // A suspend of an hour gives the burst, not an hour's worth.
        assert_eq!(gcra.take_up_to(HOUR, 1_000_000), 40);
    }

    #[test]
    fn when_so_many_will_be_there() {
        let mut gcra = Gcra::new(rate("1000/s"), Nanos::from_millis(10));
        assert_eq!(gcra.next_at(Nanos::ZERO, 10), Nanos::ZERO);
        assert_eq!(gcra.take_up_to(Nanos::ZERO, 10), 10);
        assert_eq!(gcra.next_at(Nanos::ZERO, 1), Nanos::from_millis(1));
        assert_eq!(gcra.next_at(Nanos::ZERO, 10), Nanos::from_millis(10));
        // More than the burst never gathers.
        assert_eq!(gcra.next_at(Nanos::ZERO, 50), Nanos::from_millis(10));
        assert_eq!(gcra.ready(Nanos::from_millis(3)), 3);
    }

    #[test]
    fn many_or_none() {
        let limit = GcraLimit::new(rate("10/s"), Nanos::from_secs(1));
        let mut state = GcraState::default();
        assert_eq!(
            limit.try_take_many(&mut state, Nanos::ZERO, 11),
            Err(Nanos::MAX)
        );
        assert_eq!(limit.try_take_many(&mut state, Nanos::ZERO, 8), Ok(()));
        assert!(!limit.is_full(&state, Nanos::from_millis(799)));
        assert!(limit.is_full(&state, Nanos::from_millis(800)));
        assert_eq!(
            limit.try_take_many(&mut state, Nanos::ZERO, 4),
            Err(Nanos::from_millis(200))
        );
        assert_eq!(limit.try_take_many(&mut state, Nanos::ZERO, 2), Ok(()));
    }

    #[test]
    fn a_new_rate_gives_no_credit() {
        let now = Nanos::from_secs(5);
        let mut gcra = Gcra::new(rate("1000/s"), Nanos::from_millis(10));
        assert_eq!(gcra.take_up_to(now, 7), 7);
        gcra.set_rate(now, rate("10000/s"));
        assert_eq!(gcra.ready(now), 3);
        gcra.set_rate(now, rate("100/s"));
        assert_eq!(gcra.ready(now), 1);
        gcra.set_rate(now, rate("1000/s"));
        assert_eq!(gcra.ready(now), 1);
        assert_eq!(
            gcra.next_at(now, 2),
            now.saturating_add(Nanos::from_millis(1))
        );
    }

    #[test]
    fn zero_gives_nothing_and_leaves_nothing() {
        let now = Nanos::from_secs(5);
        let mut gcra = Gcra::new(rate("1000/s"), Nanos::from_millis(10));
        gcra.set_rate(now, Rate::ZERO);
        assert_eq!(gcra.try_take(HOUR), Err(Nanos::MAX));
        assert_eq!((gcra.take_up_to(HOUR, 9), gcra.ready(HOUR)), (0, 0));
        gcra.set_rate(HOUR, rate("1000/s"));
        assert_eq!(gcra.ready(HOUR), 0);
        assert_eq!(
            gcra.try_take(HOUR),
            Err(HOUR.saturating_add(Nanos::from_millis(1)))
        );
    }

    #[test]
    fn drained_it_starts_from_nothing() {
        let mut gcra = Gcra::new(rate("1000/s"), Nanos::from_millis(10));
        gcra.drain(HOUR);
        assert_eq!(gcra.ready(HOUR), 0);
        assert_eq!(
            gcra.next_at(HOUR, 1),
            HOUR.saturating_add(Nanos::from_millis(1))
        );
    }

    #[test]
    fn a_clock_that_goes_back_gives_nothing() {
        let mut gcra = Gcra::new(rate("1000/s"), Nanos::from_millis(2));
        assert_eq!(gcra.take_up_to(HOUR, 9), 2);
        let before = HOUR.saturating_sub(Nanos::from_secs(1));
        assert_eq!(gcra.take_up_to(before, 9), 0);
        assert_eq!(
            gcra.next_at(before, 1),
            HOUR.saturating_add(Nanos::from_millis(1))
        );
        assert_eq!(gcra.take_up_to(HOUR, 9), 0);
    }

    #[test]
    fn the_end_of_time_is_no_trap() {
        let mut gcra = Gcra::new(Rate::from_micros(1).unwrap(), Nanos::MAX);
        for _ in 0..9 {
            let _ = gcra.try_take(Nanos::MAX);
        }
        gcra.set_rate(Nanos::MAX, Rate::MAX);
        assert!(gcra.take_up_to(Nanos::MAX, u32::MAX) > 0 || gcra.try_take(Nanos::MAX).is_err());
    }

    #[test]
    fn a_state_is_16_bytes() {
        assert_eq!(size_of::<GcraState>(), 16);
    }

    fn steps() -> impl Strategy<Value = Vec<(u64, u32)>> {
        prop::collection::vec((0_u64..3_000_000_000, 1_u32..50), 1..200)
    }

    proptest! {
        /// Never more than rate × window + burst, whatever the window and the order of calls.
        #[test]
        fn no_window_gets_more(
            micros in 1_u64..5_000_000_000,
            burst in 0_u64..2_000_000_000,
            steps in steps(),
        ) {
            let limit = GcraLimit::new(Rate::from_micros(micros).unwrap(), Nanos::new(burst));
            let mut state = GcraState::default();
            let mut now = 0_u64;
            let mut taken: Vec<(u64, u32)> = Vec::new();
            for (step, max) in steps {
                now += step;
                let got = if max % 3 == 0 {
                    u32::from(limit.try_take(&mut state, Nanos::new(now)).is_ok())
                } else {
                    limit.take_up_to(&mut state, Nanos::new(now), max)
                };
                taken.push((now, got));
            }
            for from in 0..taken.len() {
                let mut sum = 0_u128;
                for &(at, got) in &taken[from..] {
                    sum += u128::from(got);
                    let window = u128::from(at - taken[from].0);
                    prop_assert!(sum * TOKEN <= window * u128::from(micros) + limit.depth);
                }
            }
        }

        /// Who takes all it can gets the exact count: rate × time, and the burst once.
        #[test]
        fn the_long_run_is_exact(micros in 1_000_000_u64..500_000_000, burst_ms in 1_u64..100) {
            // A burst of a token and a nanosecond at least, so that rounding a wake-up to the next
            // nanosecond loses nothing.
            let token_ns = 1_000_000_000_000_000 / micros + 2;
            let burst = Nanos::new(token_ns + burst_ms * 1_000_000);
            let mut gcra = Gcra::new(Rate::from_micros(micros).unwrap(), burst);
            let end = Nanos::from_secs(20);
            let count = greedy(&mut gcra, end).len() as u128;
            let last = u128::from(end.as_nanos()) - 1;
            let expected = (last * u128::from(micros) + gcra.limit.depth) / TOKEN;
            prop_assert_eq!(count, expected);
        }

        /// The instant it names is the first at which it gives.
        #[test]
        fn the_instant_named_is_the_first(
            micros in 1_u64..5_000_000_000,
            burst in 0_u64..2_000_000_000,
            steps in steps(),
            count in 1_u32..50,
        ) {
            let limit = GcraLimit::new(Rate::from_micros(micros).unwrap(), Nanos::new(burst));
            let mut state = GcraState::default();
            let mut now = 0;
            for (step, max) in steps {
                now += step;
                limit.take_up_to(&mut state, Nanos::new(now), max);
            }
            let now = Nanos::new(now);
            let count = count.min(u32::try_from(limit.burst_tokens()).unwrap_or(u32::MAX));
            let at = limit.next_at(&state, now, count);
            prop_assert!(limit.ready(&state, at) >= u64::from(count));
            if at > now {
                let before = Nanos::new(at.as_nanos() - 1);
                prop_assert!(limit.ready(&state, before) < u64::from(count));
            }
        }

        /// One by one or together, the same.
        #[test]
        fn one_by_one_is_the_same(micros in 1_u64..5_000_000_000, burst in 0_u64..100_000_000) {
            let limit = GcraLimit::new(Rate::from_micros(micros).unwrap(), Nanos::new(burst));
            let (mut single, mut many) = (GcraState::default(), GcraState::default());
            for step in 0..20 {
                let now = Nanos::new(step * 777_777_777);
                let mut count = 0;
                while count < 30 && limit.try_take(&mut single, now).is_ok() {
                    count += 1;
                }
                prop_assert_eq!(limit.take_up_to(&mut many, now, 30), count);
                prop_assert_eq!(single, many);
            }
        }

        /// A change of rate and back never gives a token.
        #[test]
        fn changing_gives_no_token(
            first in 1_u64..5_000_000_000,
            second in 0_u64..5_000_000_000,
            taken in 0_u32..100,
        ) {
            let now = Nanos::from_secs(3);
            let mut gcra = Gcra::new(Rate::from_micros(first).unwrap(), Nanos::from_millis(50));
            gcra.take_up_to(now, taken);
            let before = gcra.ready(now);
            gcra.set_rate(now, Rate::from_micros(second).unwrap());
            let between = gcra.ready(now);
            prop_assert!(between <= before);
            gcra.set_rate(now, Rate::from_micros(first).unwrap());
            prop_assert!(gcra.ready(now) <= between);
        }
    }
}
