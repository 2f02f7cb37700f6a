//! What each client ought to get: weighted max-min, by filling with water.

/// Demand and weight of one client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand {
    pub(crate) rate: f64,
    pub(crate) weight: f64,
}

/// The max-min fair rates under a capacity: nobody gets more than it asks for, and who gets less has
/// at least as much per weight as anybody else.
pub(crate) fn max_min(demands: &[Demand], capacity: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..demands.len()).collect();
    let level = |demand: &Demand| demand.rate / demand.weight;
    order.sort_by(|&a, &b| level(&demands[a]).total_cmp(&level(&demands[b])));
    let mut left = capacity;
    let mut weights: f64 = demands.iter().map(|demand| demand.weight).sum();
    let mut rates = vec![0.0; demands.len()];
    for client in order {
        let Demand { rate, weight } = demands[client];
        rates[client] = rate.min(left * weight / weights);
        left -= rates[client];
        weights -= weight;
    }
    rates
}

#[test]
fn the_example_of_the_design() {
    let demands = [100_000.0, 1_000.0, 10.0].map(|rate| Demand { rate, weight: 1.0 });
    assert_eq!(max_min(&demands, 2_000.0), [995.0, 995.0, 10.0]);
}

#[test]
fn weights_count_only_where_it_is_tight() {
    let demand = |rate, weight| Demand { rate, weight };
    let demands = [
        demand(9_000.0, 3.0),
        demand(9_000.0, 1.0),
        demand(100.0, 7.0),
    ];
    assert_eq!(max_min(&demands, 900.0), [600.0, 200.0, 100.0]);
    assert_eq!(max_min(&demands, 90_000.0), [9_000.0, 9_000.0, 100.0]);
}
