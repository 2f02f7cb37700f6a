//! Shards are the whole schedule, and as exact as asking for single due times.

use std::num::NonZeroU32;

use pacing::{Arrivals, Due, Nanos, Profile, Schedule};
use proptest::prelude::*;

use crate::samples::{micros, sequences};

fn arrivals() -> impl Strategy<Value = Arrivals> {
    prop_oneof![
        Just(Arrivals::Even),
        any::<u64>().prop_map(|seed| Arrivals::Poisson { seed }),
        (1_u32..300).prop_map(|size| Arrivals::Burst {
            size: NonZeroU32::new(size).unwrap()
        }),
    ]
}

fn number(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

/// How much of a schedule a test walks.
const WALKED: usize = 2_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn together_they_are_the_schedule(
        (_, profile) in sequences(Nanos::from_micros(1), Nanos::from_secs(60)),
        arrivals in arrivals(),
        of in prop_oneof![1_u32..9, 1_u32..400],
    ) {
        let schedule = Schedule::new(profile, arrivals);
        let whole: Vec<Due> = schedule.iter().take(WALKED).collect();
        let mut merged: Vec<Due> = Vec::new();
        for shard in 0..of {
            let share = schedule.shard(shard, number(of));
            let mut at = Nanos::ZERO;
            for due in share.take_while(|due| due.index < WALKED as u64) {
                prop_assert_eq!(due.index % u64::from(of), u64::from(shard));
                prop_assert!(due.at >= at);
                at = due.at;
                merged.push(due);
            }
        }
        merged.sort_by_key(|due| due.index);
        prop_assert_eq!(&merged, &whole);
        for (index, due) in whole.iter().enumerate() {
            prop_assert_eq!(due.index, index as u64);
        }
        if whole.len() < WALKED {
            prop_assert_eq!(schedule.planned(), Some(whole.len() as u64));
        }
        for due in whole.iter().step_by(97) {
            prop_assert_eq!(schedule.due(due.index), Some(due.at));
        }
    }

    #[test]
    fn walking_is_asking(
        (_, profile) in sequences(Nanos::from_millis(1), Nanos::from_secs(86_400)),
        burst in prop_oneof![2 => Just(1_u32), 1 => 1_u32..100_000],
        of in prop_oneof![1_u32..9, 1_u32..100_000],
        part in 0.0_f64..1.0,
    ) {
        let arrivals = match burst {
            1 => Arrivals::Even,
            size => Arrivals::Burst { size: number(size) },
        };
        let schedule = Schedule::new(profile, arrivals);
        let mut shard = schedule.shard(of - 1, number(of));
        let share = schedule.planned().unwrap() / u64::from(of);
        let skipped = (share as f64 * part) as usize;
        let mut index = u64::from(of - 1) + skipped as u64 * u64::from(of);
        let mut next = shard.nth(skipped);
        for _ in 0..300 {
            prop_assert_eq!(next.map(|due| due.at), schedule.due(index));
            let Some(due) = next else { break };
            prop_assert_eq!(due.index, index);
            index += u64::from(of);
            prop_assert_eq!(shard.peek().map(|due| due.at), schedule.due(index));
            next = shard.next();
        }
    }

    #[test]
    fn jumping_is_walking(
        (_, profile) in sequences(Nanos::from_millis(1), Nanos::from_secs(60)),
        arrivals in arrivals(),
        of in 1_u32..9,
        jump in 0_usize..200,
    ) {
        let schedule = Schedule::new(profile, arrivals);
        let (mut jumping, mut walking) = (schedule.shard(0, number(of)), schedule.shard(0, number(of)));
        for _ in 0..5 {
            for _ in 0..jump {
                let _ = walking.next();
            }
            let walked = walking.next();
            prop_assert_eq!(jumping.nth(jump), walked);
        }
    }
}

#[test]
fn ends_meet_at_the_fastest_and_slowest() {
    let whole = [1, 10_000_000_000_000];
    for (from, to) in [(whole[0], whole[1]), (whole[1], whole[0])] {
        let (from, to) = (micros(from), micros(to));
        let span = Profile::MAX_DURATION;
        for profile in [
            Profile::linear(from, to, span),
            Profile::exponential(from, to, span),
        ] {
            let schedule = Schedule::new(profile.unwrap(), Arrivals::Even);
            let planned = schedule.planned().unwrap();
            let mut shard = schedule.iter();
            let last = shard.nth(usize::try_from(planned - 500).unwrap()).unwrap();
            let walked = 1 + shard
                .inspect(|due| assert_eq!(schedule.due(due.index), Some(due.at)))
                .count();
            assert_eq!(last.index + walked as u64, planned);
        }
    }
}

#[test]
#[should_panic(expected = "there is no shard 3 of 3")]
fn a_shard_beyond_the_last_is_refused() {
    let profile = Profile::constant(micros(1_000_000), None).unwrap();
    let _ = Schedule::new(profile, Arrivals::Even).shard(3, number(3));
}

#[test]
fn shards_can_be_sent_to_threads() {
    fn assert_send<T: Send + Clone + 'static>(_: &T) {}
    let profile = Profile::constant(micros(1_000_000), None).unwrap();
    assert_send(&Schedule::new(profile, Arrivals::Even).iter());
}
