//! Which nodes dial which others.

use base::Random;

/// For each of `nodes` nodes, the nodes that it dials so that each pair has one link.
pub fn full(nodes: usize) -> Vec<Vec<usize>> {
    (0..nodes).map(|node| (0..node).collect()).collect()
}

/// For each of `nodes` nodes, `links` random others that it dials; no pair is linked twice.
///
/// A node dials one that came before it, so the graph is connected for `links` of 1 and more; the
/// first nodes have fewer to choose from. A node has about twice as many links as it dials.
pub fn random(nodes: usize, links: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut random = Random::new(seed);
    (0..nodes)
        .map(|node| {
            let mut others: Vec<usize> = (0..node).collect();
            shuffle(&mut others, &mut random);
            others.truncate(links);
            others
        })
        .collect()
}

/// Fisher and Yates.
pub(crate) fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for last in (1..items.len()).rev() {
        items.swap(last, below(last + 1, random));
    }
}

/// A number of 0 to `bound` − 1; 0 for a bound of 0.
pub(crate) fn below(bound: usize, random: &mut Random) -> usize {
    ((random.unit() * bound as f64) as usize).min(bound.saturating_sub(1))
}
