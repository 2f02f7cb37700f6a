//! Who may send how much.

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
pub(crate) const FLOOR: f64 = 0.01;
/// What a client asks for counts as so much more, as it may come unevenly.
const HEADROOM: f64 = 1.1;

/// What one member asks for in the name of one client.
#[derive(Clone, Copy)]
struct Ask {
    client: Client,
    member: usize,
    weight: f64,
    per_second: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Client {
    Hash(u64),
    /// All those of a member that its report does not list.
    Others(usize),
}

/// Writes a second that the member with this place may send, and its part of those clients that others have as well.
///
/// The limit is divided as one queue would: clients get what they ask for, those that ask for more than their weight's
/// part get that (max-min fairness), and a client's share is divided among its members in the same way. What nobody asks
/// for is divided equally. The rates of all members add up to the limit.
pub fn divide(limit: f64, reports: &[&Report], own: usize) -> (f64, Vec<Part>) {
    let members = reports.len().max(1) as f64;
    let floor = limit * FLOOR / members;
    let mut asks = asks(reports);
    asks.sort_unstable_by_key(|ask| (ask.client, ask.member));
    let clients: Vec<&[Ask]> = asks.chunk_by(|a, b| a.client == b.client).collect();
    let demands = clients.iter().map(|of_client| {
        let weights = of_client.iter().map(|ask| ask.weight);
        let demand: f64 = of_client.iter().map(|ask| ask.per_second).sum();
        (demand, weights.fold(0.0, f64::max))
    });
    let divided = fill(limit - floor * members, &demands.collect::<Vec<_>>());
    let mut rate = floor + divided.left / members;
    let mut parts = Vec::new();
    for (of_client, share) in clients.iter().zip(divided.shares) {
        let Some(place) = of_client.iter().position(|ask| ask.member == own) else {
            continue;
        };
        let asked = of_client.iter().map(|ask| (ask.per_second, 1.0));
        let within = fill(share, &asked.collect::<Vec<_>>());
        let part = within.shares[place];
        rate += part;
        if let (Client::Hash(client), true) = (of_client[place].client, share > 0.0 && part < share)
        {
            let of_share = part / share;
            parts.extend((of_share > 0.0).then_some(Part { client, of_share }));
        }
    }
    (rate, parts)
}

fn asks(reports: &[&Report]) -> Vec<Ask> {
    let mut asks = Vec::new();
    for (member, report) in reports.iter().enumerate() {
        asks.extend(report.demands.iter().map(|demand| Ask {
            client: Client::Hash(demand.client),
            member,
            weight: f64::from(demand.weight),
            per_second: f64::from(demand.per_second) * HEADROOM,
        }));
        let (per_second, count) = report.others;
        asks.extend((count > 0).then(|| Ask {
            client: Client::Others(member),
            member,
            weight: f64::from(count),
            per_second: f64::from(per_second) * HEADROOM,
        }));
    }
    asks
}

struct Filled {
    shares: Vec<f64>,
    /// What nobody asks for.
    left: f64,
}

/// Max-min shares of what is there, of demands with their weights: those that ask for less than their weight's part get
/// it, the others divide the rest by their weights (Bertsekas and Gallager, *Data Networks*, 6.5.2).
fn fill(mut left: f64, demands: &[(f64, f64)]) -> Filled {
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_unstable_by(|a, b| {
        let level = |place: &usize| demands[*place].0 / demands[*place].1;
        level(a).total_cmp(&level(b))
    });
    let mut weights: f64 = demands.iter().map(|(_, weight)| weight).sum();
    let mut shares = vec![0.0; demands.len()];
    for place in order {
        let (demand, weight) = demands[place];
        shares[place] = demand.min((left * weight / weights).max(0.0));
        left -= shares[place];
        weights -= weight;
    }
    Filled {
        shares,
        left: left.max(0.0),
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
