//! What a client asks for that leaves, moves, slows down or sends in bursts.

use super::*;

/// Three proxies with a client each, of which the first offers so much and the others take what they get.
fn beside_two_that_take_all(seed: u64, offered: f64) -> World {
    let mut world = World::new(3, seed);
    world.offer(1, 0, offered);
    (2..=3).for_each(|client| world.offer(client, client as usize - 1, 2_000.0));
    world.run(4.0);
    world
}

impl World {
    /// Milliseconds until the proxies may send so much together for both others.
    fn until_others_have(&mut self, part: f64) -> u128 {
        let began = self.now;
        while self.proxies[1].per_second + self.proxies[2].per_second < part * LIMIT {
            self.run(0.01);
        }
        u128::from(self.now.saturating_sub(began).as_millis())
    }
}

#[test]
fn what_a_client_had_that_leaves_is_the_others_within_a_second() {
    for seed in 0..5 {
        for offered in [2_000.0, 300.0] {
            let mut world = beside_two_that_take_all(seed, offered);
            world.run(0.05 * seed as f64);
            world.leave(1, 0);
            let span_ms = world.until_others_have(0.95);
            assert!(span_ms <= 1_000, "{offered}/s: {span_ms} ms");
            world.run(2.0);
            assert!(world.most_in_a_second() as f64 <= 1.05 * LIMIT);
        }
    }
}

#[test]
fn what_a_client_gives_up_that_halves_its_rate_is_the_others_within_two_seconds() {
    let mut world = beside_two_that_take_all(1, 300.0);
    world.offer(1, 0, 150.0);
    let span_ms = world.until_others_have(0.95 * 0.835);
    assert!(span_ms <= 2_000, "{span_ms} ms");
    world.run(2.0);
    assert_near(&world.rates(world.now.as_secs_f64() - 1.0), &[(1, 150.0)]);
    assert!(world.most_in_a_second() as f64 <= 1.05 * LIMIT);
}

#[test]
fn a_client_that_moves_to_another_proxy_has_its_share_there_within_a_second() {
    for seed in 0..5 {
        let mut world = beside_two_that_take_all(seed, 2_000.0);
        world.leave(1, 0);
        world.offer(1, 1, 2_000.0);
        world.run(2.0);
        let third = LIMIT / 3.0;
        let rates = world.rates(world.now.as_secs_f64() - 1.0);
        assert_near(&rates, &[(1, third), (2, third), (3, third)]);
        assert!(world.most_in_a_second() as f64 <= 1.05 * LIMIT);
    }
}

/// Between bursts it asks for as much as in them, so that what it has does not follow them, which would be too late.
#[test]
fn a_client_that_sends_in_bursts_keeps_its_share() {
    for period in [0.3, 0.45, 0.5, 0.55] {
        for mean in [50.0, 150.0, 280.0] {
            let mut world = beside_two_that_take_all(1, 0.0);
            let bursts = |world: &mut World, seconds: f64| {
                for _ in 0..(seconds / period) as u32 {
                    world.offer(1, 0, mean * period / 0.1);
                    world.run(0.1);
                    world.offer(1, 0, 0.0);
                    world.run(period - 0.1);
                }
            };
            bursts(&mut world, 2.0);
            let began = world.now.as_secs_f64();
            bursts(&mut world, 8.0);
            let rates = world.rates(began);
            let (part, all) = (rates[&1] / mean, rates.values().sum::<f64>());
            assert!(part >= 0.95, "{mean}/s every {period} s: {part}");
            assert!(
                all >= 0.84 * LIMIT,
                "{mean}/s every {period} s: all {all}/s"
            );
            assert!(world.most_in_a_second() as f64 <= 1.05 * LIMIT);
        }
    }
}
