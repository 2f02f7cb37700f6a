//! The exact instants, and the laws of every limit.

use proptest::prelude::*;

use super::*;

const HOUR: Nanos = Nanos::from_secs(3_600);

fn rate(text: &str) -> Rate {
    text.parse().unwrap()
}

/// How many tokens there are.
fn ready(gcra: &Gcra, now: Nanos) -> u64 {
    gcra.limit.ready(&gcra.state, now)
}

/// Takes whatever it can get until `end`, at the instants given.
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
    assert_eq!(gcra.limit.burst_tokens(), 40);
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
    assert_eq!(ready(&gcra, Nanos::from_millis(3)), 3);
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
    let is_full = |at| limit.ready(&state, Nanos::from_millis(at)) == limit.burst_tokens();
    assert!(!is_full(799) && is_full(800));
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
    assert_eq!(ready(&gcra, now), 3);
    gcra.set_rate(now, rate("100/s"));
    assert_eq!(ready(&gcra, now), 1);
    gcra.set_rate(now, rate("1000/s"));
    assert_eq!(ready(&gcra, now), 1);
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
    assert_eq!((gcra.take_up_to(HOUR, 9), ready(&gcra, HOUR)), (0, 0));
    gcra.set_rate(HOUR, rate("1000/s"));
    assert_eq!(ready(&gcra, HOUR), 0);
    assert_eq!(
        gcra.try_take(HOUR),
        Err(HOUR.saturating_add(Nanos::from_millis(1)))
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

    /// A client that takes all it can gets the exact count: rate × time, and the burst once.
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
        let before = ready(&gcra, now);
        gcra.set_rate(now, Rate::from_micros(second).unwrap());
        let between = ready(&gcra, now);
        prop_assert!(between <= before);
        gcra.set_rate(now, Rate::from_micros(first).unwrap());
        prop_assert!(ready(&gcra, now) <= between);
    }
}
