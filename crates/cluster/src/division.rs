//! The rate that each member of a cluster may send at.

use crate::report::Report;

/// What one member has of a client's share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// The client's hash.
    pub client: u64,
    /// Above 0 and below 1.
    pub of_share: f64,
}

/// Part of the limit that is divided equally, whatever is asked for, so that a member whose first client comes need not
/// wait for the next reports.
const FLOOR: f64 = 0.01;
/// What a client asks for counts as so much more, as it may come unevenly.
const HEADROOM: f64 = 1.1;

/// What one member asks for in the name of one client. 16 bytes: there are thousands, to be sorted.
struct Ask {
    client: u64,
    per_second: f32,
    weight: u16,
    member: u16,
}

#[derive(Clone, Copy)]
struct Demanded {
    per_second: f64,
    weight: f64,
}

/// Writes a second that the member with this place may send, and its part of those clients that others have as well.
///
/// The limit is divided as one queue would: clients get what they ask for, those that ask for more than their weight's
/// part get that (max-min fairness), and a client's share is divided among its members in the same way. The rest of the
/// limit, which no client asks for, is divided equally. The rates of all members add up to the limit.
pub fn divide(limit: f64, reports: &[&Report], own: usize) -> (f64, Vec<Part>) {
    let members = reports.len().max(1) as f64;
    let floor = limit * FLOOR / members;
    let asks = asks(reports);
    let clients = || asks.chunk_by(|a, b| a.client == b.client);
    let others = |report: &Report| {
        let (per_second, count) = report.others;
        let per_second = if count > 0 { per_second } else { 0.0 };
        Demanded::new(per_second, count.into())
    };
    let mut demands = Vec::with_capacity(asks.len() + reports.len());
    demands.extend(clients().map(together));
    demands.extend(reports.iter().map(|report| others(report)));
    let level = Level::of(limit - floor * members, &demands);
    let mut rate = floor + level.left / members + level.share(others(reports[own]));
    let mut parts = Vec::with_capacity(reports[own].demands.len());
    let mut of_members = Vec::with_capacity(reports.len());
    for (asks, demand) in clients().zip(demands) {
        let share = level.share(demand);
        let Some(place) = asks.iter().position(|ask| usize::from(ask.member) == own) else {
            continue;
        };
        if asks.len() == 1 {
            rate += share;
            continue;
        }
        of_members.clear();
        // The members of one client are equal.
        of_members.extend((asks.iter()).map(|ask| Demanded::new(ask.per_second, 1.0)));
        let part = Level::of(share, &of_members).share(of_members[place]);
        rate += part;
        let of_share = part / share;
        if of_share > 0.0 && of_share < 1.0 {
            let client = asks[place].client;
            parts.push(Part { client, of_share });
        }
    }
    (rate, parts)
}

/// All that is asked for, by client and then by member: reports list their clients in order, so that sorting is joining.
fn asks(reports: &[&Report]) -> Vec<Ask> {
    let mut asks = Vec::with_capacity(reports.iter().map(|it| it.demands.len()).sum());
    for (member, report) in (0..).zip(reports) {
        asks.extend(report.demands.iter().map(|demand| Ask {
            client: demand.client,
            per_second: demand.per_second,
            weight: demand.weight,
            member,
        }));
    }
    asks.sort_by_key(|ask| ask.client);
    asks
}

impl Demanded {
    fn new(per_second: f32, weight: f64) -> Self {
        let per_second = f64::from(per_second) * HEADROOM;
        Self { per_second, weight }
    }
}

/// What one client asks for of all its members.
fn together(asks: &[Ask]) -> Demanded {
    let per_second = asks.iter().map(|ask| ask.per_second).sum();
    let weight = asks.iter().map(|ask| ask.weight).max();
    Demanded::new(per_second, weight.unwrap_or_default().into())
}

/// What a weight of one may have at most, of what is there.
struct Level {
    of_weight: f64,
    /// The part of the limit that no client asks for.
    left: f64,
}

impl Level {
    /// The level at which those that ask for less than their weight's part get it, and the others divide the rest by their
    /// weights (max-min fairness: Bertsekas and Gallager, *Data Networks*, 6.5.2). It rises as long as more are found that
    /// ask for less, each time over all of them, which is a few times.
    fn of(there: f64, demands: &[Demanded]) -> Self {
        let weights: f64 = demands.iter().map(|it| it.weight).sum();
        let mut of_weight = there / weights;
        loop {
            let (mut given, mut weights) = (0.0, 0.0);
            for demand in demands {
                if demand.per_second <= of_weight * demand.weight {
                    given += demand.per_second;
                } else {
                    weights += demand.weight;
                }
            }
            let left = (there - given).max(0.0);
            if weights == 0.0 {
                return Self {
                    of_weight: f64::INFINITY,
                    left,
                };
            }
            if left / weights <= of_weight {
                return Self {
                    of_weight,
                    left: 0.0,
                };
            }
            of_weight = left / weights;
        }
    }

    fn share(&self, demand: Demanded) -> f64 {
        demand.per_second.min(self.of_weight * demand.weight)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::report::Demand;

    const ALL: f32 = f32::INFINITY;

    fn report(demands: &[(u64, u16, f32)]) -> Report {
        let demands = demands.iter().map(|&(client, weight, per_second)| Demand {
            client,
            weight,
            per_second,
        });
        Report {
            member: 0,
            number: 0,
            limit: 1_000.0,
            period: 1,
            is_last: false,
            demands: demands.collect(),
            others: (0.0, 0),
        }
    }

    fn rates(reports: &[&Report]) -> Vec<f64> {
        (0..reports.len())
            .map(|own| divide(1_000.0, reports, own).0)
            .collect()
    }

    #[test]
    fn a_client_of_three_members_has_the_share_of_one() {
        // Client 1 is everywhere, 2 and 3 at one member each; all take what they can get: a third each.
        let (a, b, c) = (
            report(&[(1, 1, ALL), (2, 1, ALL)]),
            report(&[(1, 1, ALL), (3, 1, ALL)]),
            report(&[(1, 1, ALL)]),
        );
        let rates = rates(&[&a, &b, &c]);
        let whole = 990.0 / 3.0;
        for (rate, expected) in
            rates
                .iter()
                .zip([whole * 4.0 / 3.0, whole * 4.0 / 3.0, whole / 3.0])
        {
            assert!(
                (rate - expected - 10.0 / 3.0).abs() < 1e-6,
                "{rate} instead of {expected}"
            );
        }
        let (_, parts) = divide(1_000.0, &[&a, &b, &c], 0);
        assert_eq!(parts.len(), 1);
        assert!((parts[0].of_share - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn who_asks_for_little_gets_it_and_the_rest_is_divided_by_weights() {
        let (a, b) = (
            report(&[(1, 1, 100.0), (2, 3, ALL)]),
            report(&[(3, 1, ALL)]),
        );
        let rates = rates(&[&a, &b]);
        let rest = 990.0 - 110.0;
        assert!(
            (rates[0] - (5.0 + 110.0 + rest * 0.75)).abs() < 1e-3,
            "{rates:?}"
        );
        assert!((rates[1] - (5.0 + rest * 0.25)).abs() < 1e-3, "{rates:?}");
    }

    #[test]
    fn a_share_that_is_asked_for_unevenly_is_divided_as_it_is_asked_for() {
        // Client 1 asks one member for 10/s and the other for all that it can get.
        let (a, b) = (report(&[(1, 1, 10.0)]), report(&[(1, 1, ALL), (2, 1, ALL)]));
        let rates = rates(&[&a, &b]);
        assert!((rates[0] - (5.0 + 11.0)).abs() < 1e-3, "{rates:?}");
    }

    #[test]
    fn clients_that_are_not_listed_have_their_weight() {
        let mut a = report(&[]);
        a.others = (ALL, 3);
        let b = report(&[(7, 1, ALL)]);
        let rates = rates(&[&a, &b]);
        assert!((rates[0] - (5.0 + 990.0 * 0.75)).abs() < 1e-3, "{rates:?}");
    }

    fn reports() -> impl Strategy<Value = Vec<Report>> {
        let rate = prop_oneof![Just(ALL), Just(0.0), 0.0..2_000.0_f32];
        let demands = prop::collection::btree_map(0..12_u64, (1..=1_000_u16, rate), 0..8);
        let report = demands.prop_map(|demands| {
            let demands: Vec<_> = demands
                .into_iter()
                .map(|(client, (weight, rate))| (client, weight, rate))
                .collect();
            report(&demands)
        });
        prop::collection::vec(report, 1..6)
    }

    proptest! {
        #[test]
        fn the_rates_of_all_members_are_the_limit_and_nobody_has_nothing(reports in reports()) {
            let reports: Vec<&Report> = reports.iter().collect();
            let rates = rates(&reports);
            prop_assert!((rates.iter().sum::<f64>() - 1_000.0).abs() < 1e-3, "{rates:?}");
            for rate in rates {
                prop_assert!(rate >= 10.0 / reports.len() as f64 - 1e-6);
            }
        }

        #[test]
        fn parts_of_a_share_are_one(reports in reports()) {
            let reports: Vec<&Report> = reports.iter().collect();
            let mut sums = std::collections::BTreeMap::<u64, f64>::new();
            for own in 0..reports.len() {
                for part in divide(1_000.0, &reports, own).1 {
                    prop_assert!(part.of_share > 0.0 && part.of_share < 1.0);
                    *sums.entry(part.client).or_default() += part.of_share;
                }
            }
            for (client, sum) in sums {
                prop_assert!((sum - 1.0).abs() < 1e-6, "client {client}: {sum}");
            }
        }
    }
}
