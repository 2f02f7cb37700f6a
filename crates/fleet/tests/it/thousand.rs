//! A thousand workers on one bus: what it carries, and how soon all have begun, by the formulas of `docs/fleet.md`; and
//! that whatever is lost, all begin or nobody does.

use pacing::Nanos;

use crate::world::{LEAD, LOAD, PRINT_EVERY, SIGN_OF_LIFE, Size, World};

#[test]
fn a_thousand_workers_cost_the_bus_what_the_formulas_say() {
    let mut world = World::new(
        7,
        Size {
            workers: WORKERS,
            lost: 5_000,
        },
    );
    let at_start = world.run_until(Nanos::from_secs(24));
    let at_work = world.run_until(Nanos::from_secs(44));
    world.run_until(Nanos::from_secs(80));
    println!("{:?}\n{at_start:?}\nin 20 s: {at_work:?}", world.over);
    assert_run(&world);
    // A request a second, its answer, and two lines.
    for (kind, each, bytes) in [("requests", 1, REQUEST), ("answers", 3, ANSWER)] {
        let (messages, sum) = at_work[kind];
        assert_near(messages, each * WORKERS as u64 * 20);
        assert_near(sum, messages * bytes);
    }
    assert_eq!(at_work["rolls"].0, 20 / SIGN_OF_LIFE.as_secs());
}

fn assert_near(got: u64, expected: u64) {
    let error = got as f64 / expected as f64 - 1.0;
    assert!(error.abs() < 0.03, "{got} instead of {expected}");
}

/// All have begun once and in time, were heard to the end, and are free.
fn assert_run(world: &World) {
    for worker in &world.workers {
        assert_eq!((worker.started, worker.engagement.run()), (1, None));
    }
    let over: Vec<Nanos> = world.over.iter().map(|(_, at)| *at).collect();
    let [called, compared, played, watched] = over[..] else {
        panic!("{over:?}")
    };
    // Each asks again for what is lost, after 2 s.
    let again = Nanos::from_secs(4);
    assert!(called < again, "{called:?}");
    assert!(compared.saturating_sub(called) < again, "{compared:?}");
    assert!(played.saturating_sub(compared) < again, "{played:?}");
    let end = played.saturating_add(LEAD).saturating_add(LOAD);
    assert!(watched < end.saturating_add(again), "{watched:?}");
    assert!(world.endings.iter().all(|it| it.kept && !it.lost));
    // The last of two lines at the edge of a second may be all that is heard of them.
    let least = world.lines.iter().min().unwrap();
    assert!(*least >= PRINTED - 3, "{least}");
    // As far as the bus may take longer one way than the other, over 16 questions.
    assert!(
        world.clock_error_ns < 2_000_000,
        "{} ns",
        world.clock_error_ns
    );
}
/// One message in ten is lost: an order is, three times, or a clock is not known.
#[test]
fn whatever_is_lost_all_begin_or_nobody_does_and_afterwards_all_are_free() {
    let size = Size {
        workers: 20,
        lost: 10,
    };
    let (mut begun, mut refused) = (0, 0);
    for seed in 0..20 {
        let mut world = World::new(seed, size);
        world.run_until(Nanos::from_secs(120));
        let is_refused = world.refused.is_some();
        for worker in &world.workers {
            assert_eq!(worker.engagement.run(), None, "seed {seed}");
            let played = (worker.started, worker.printed);
            if is_refused {
                assert!(played.0 <= 1 && played.1 == 0, "seed {seed}: {played:?}");
            } else {
                assert_eq!(played, (1, PRINTED), "seed {seed}");
            }
        }
        assert!(world.endings.iter().all(|it| it.kept && !it.lost));
        *(if is_refused { &mut refused } else { &mut begun }) += 1;
    }
    assert!(begun > 5 && refused > 2, "{begun} begun, {refused} refused");
}

const WORKERS: usize = 1_000;
/// Lines of a program.
const PRINTED: u32 = (LOAD.as_millis() / PRINT_EVERY.as_millis()) as u32;
/// Bytes of a request, and of an answer with a line of figures.
const REQUEST: u64 = 137;
const ANSWER: u64 = 775;
