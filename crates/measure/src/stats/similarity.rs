//! How alike the mempools of several nodes are, by the transactions that were sampled. A polled node has one somewhere
//! within its resolution: what is not certain of every node at an instant does not count there.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::rows::SightRow;

/// How the load's transactions ended, by id: those in no block have nothing. Others show nothing of a mempool.
pub type Ends = BTreeMap<String, Option<Committed>>;

/// When a transaction's block was observed (nanoseconds since the origin), and its height.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// When its block was first observed.
    pub at_ns: u64,
    /// The block's height.
    pub height: u64,
}

/// The mempools at the beginning of a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alike {
    /// Since the origin.
    pub second: u64,
    /// Sampled transactions that wait for a block at one node at least.
    pub waiting: u64,
    /// Those of them that wait at every node.
    pub shared: u64,
}

impl Alike {
    /// Jaccard's index of the mempools: 1 when they hold the same.
    pub fn share(&self) -> f64 {
        self.shared as f64 / self.waiting as f64
    }
}

/// How much of the blocks was in the mempool of a node before the block was there.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// The node.
    pub node: String,
    /// Blocks with sampled transactions.
    pub blocks: u64,
    /// Their sampled transactions.
    pub txs: u64,
    /// Those that the node had before.
    pub known: u64,
    /// The height of the block of which it had the least, and the share.
    pub least: (u64, f64),
}

/// By node: when it showed a transaction, and since when it may have had it.
type Sights<'a> = BTreeMap<&'a str, BTreeMap<&'a str, (u64, u64)>>;

/// Each second in which a sampled transaction waited and is certain of all nodes; nothing of fewer than two nodes.
pub fn alike(sights: &[SightRow], ends: &Ends) -> Vec<Alike> {
    let (nodes, txs) = sampled(sights);
    if nodes.len() < 2 {
        return Vec::new();
    }
    let last = sights
        .iter()
        .map(|sight| sight.seen_ns)
        .max()
        .unwrap_or_default();
    let mut seconds: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for (tx, at) in &txs {
        let Some(end) = ends.get(*tx) else { continue };
        let since = at
            .values()
            .map(|(_, since)| *since)
            .min()
            .unwrap_or_default();
        let until = end.map_or(last, |end| end.at_ns.min(last));
        for second in since.div_ceil(NANOS_PER_SECOND)..until.div_ceil(NANOS_PER_SECOND) {
            let instant = second * NANOS_PER_SECOND;
            let has = |node: &&str| has(at.get(node), instant, instant);
            let Some(has) = nodes.iter().map(has).collect::<Option<Vec<bool>>>() else {
                continue;
            };
            if has.contains(&true) {
                let counted = seconds.entry(second).or_default();
                counted.0 += 1;
                counted.1 += u64::from(!has.contains(&false));
            }
        }
    }
    let row = |(second, (waiting, shared))| Alike {
        second,
        waiting,
        shared,
    };
    seconds.into_iter().map(row).collect()
}

/// Of each node, what its mempool had of the blocks that reached it; nothing of a node without such blocks.
pub fn known(sights: &[SightRow], ends: &Ends) -> Vec<Known> {
    let (nodes, txs) = sampled(sights);
    // Of competing blocks the last one at a height.
    let mut blocks: BTreeMap<(&str, u64), (u64, u64)> = BTreeMap::new();
    for sight in sights.iter().filter(|sight| sight.kind == SightRow::BLOCK) {
        let Some(height) = sight.height else { continue };
        let arrived = blocks.entry((&sight.node, height)).or_default();
        *arrived = (*arrived).max(interval(sight));
    }
    let of_node = |node: &&str| {
        let mut counts: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for (tx, at) in &txs {
            let Some(Some(Committed { height, .. })) = ends.get(*tx) else {
                continue;
            };
            let Some((arrived, since)) = blocks.get(&(*node, *height)) else {
                continue;
            };
            if let Some(had) = has(at.get(node), *since, *arrived) {
                let counted = counts.entry(*height).or_default();
                counted.0 += 1;
                counted.1 += u64::from(had);
            }
        }
        let share =
            |(height, (txs, known)): (&u64, &(u64, u64))| (*height, *known as f64 / *txs as f64);
        Some(Known {
            node: (*node).to_owned(),
            blocks: counts.len() as u64,
            txs: counts.values().map(|(txs, _)| txs).sum(),
            known: counts.values().map(|(_, known)| known).sum(),
            least: counts
                .iter()
                .map(share)
                .min_by(|one, other| one.1.total_cmp(&other.1))?,
        })
    };
    nodes.iter().filter_map(of_node).collect()
}

/// The nodes that showed sampled transactions, and the sights of each.
fn sampled(sights: &[SightRow]) -> (BTreeSet<&str>, Sights<'_>) {
    let mut txs = Sights::new();
    for sight in sights.iter().filter(|sight| sight.kind == SightRow::TX) {
        txs.entry(&sight.id)
            .or_default()
            .insert(&sight.node, interval(sight));
    }
    (
        txs.values().flat_map(|at| at.keys().copied()).collect(),
        txs,
    )
}

/// When it was seen, and since when it may have been there.
fn interval(sight: &SightRow) -> (u64, u64) {
    let polled_ns = sight.resolution_ms.unwrap_or_default() * 1e6;
    (
        sight.seen_ns,
        sight.seen_ns.saturating_sub(polled_ns as u64),
    )
}

/// Whether a node had it at an instant that lies between `from` and `until`, if that is certain.
fn has(sight: Option<&(u64, u64)>, from: u64, until: u64) -> Option<bool> {
    match sight {
        Some((seen, _)) if *seen <= from => Some(true),
        Some((_, since)) if *since <= until => None,
        _ => Some(false),
    }
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(kind: &str, id: &str, node: &str, seen_ms: u64) -> SightRow {
        SightRow {
            kind: kind.into(),
            id: id.into(),
            node: node.into(),
            seen_ns: seen_ms * 1_000_000,
            height: (kind == SightRow::BLOCK).then_some(7),
            ..SightRow::default()
        }
    }

    fn ends(of: &[(&str, u64)]) -> Ends {
        let end = |(tx, at_ms): &(&str, u64)| {
            let end = Committed {
                at_ns: at_ms * 1_000_000,
                height: 7,
            };
            ((*tx).to_owned(), Some(end))
        };
        of.iter().map(end).collect()
    }

    fn shares(sights: &[SightRow], ends: &Ends) -> Vec<(u64, u64, u64)> {
        let row = |it: Alike| (it.second, it.waiting, it.shared);
        alike(sights, ends).into_iter().map(row).collect()
    }

    /// `x` reaches the second node three seconds after the first, `y` at once, `z` never; a block takes all at 5.5 s.
    fn world() -> Vec<SightRow> {
        vec![
            sight("tx", "x", "a", 500),
            sight("tx", "x", "b", 3_500),
            sight("tx", "y", "a", 1_500),
            sight("tx", "y", "b", 1_600),
            sight("tx", "z", "b", 2_500),
            sight("block", "7", "a", 5_500),
            sight("block", "7", "b", 5_600),
        ]
    }

    #[test]
    fn a_transaction_counts_from_the_first_node_that_has_it_to_its_block_and_is_shared_when_all_have_it()
     {
        let ends = ends(&[("x", 5_500), ("y", 5_500), ("z", 5_500)]);
        let seconds = [(1, 1, 0), (2, 2, 1), (3, 3, 1), (4, 3, 2), (5, 3, 2)];
        assert_eq!(shares(&world(), &ends), seconds);
        let mut longer = world();
        longer.push(sight("tx", "of another load", "a", 1_000));
        longer.push(sight("block", "8", "a", 9_000));
        assert_eq!(shares(&longer, &ends), seconds, "not after the block");
    }

    #[test]
    fn what_a_poll_leaves_open_counts_neither_as_shared_nor_as_missing() {
        let mut sights = world();
        for sight in sights
            .iter_mut()
            .filter(|sight| sight.id == "x" && sight.node == "b")
        {
            sight.resolution_ms = Some(1_800.0);
        }
        let told = shares(&sights, &ends(&[("x", 5_500), ("y", 5_500), ("z", 5_500)]));
        assert_eq!(
            told,
            [(1, 1, 0), (2, 1, 1), (3, 2, 1), (4, 3, 2), (5, 3, 2)]
        );
    }

    #[test]
    fn one_node_alone_is_alike_to_nothing() {
        let of_a: Vec<SightRow> = world()
            .into_iter()
            .filter(|sight| sight.node == "a")
            .collect();
        assert!(alike(&of_a, &ends(&[])).is_empty());
    }

    #[test]
    fn of_a_block_a_node_knew_what_it_had_before_the_block_reached_it() {
        let ends = ends(&[("x", 5_500), ("y", 5_500), ("z", 5_500)]);
        let told = known(&world(), &ends);
        let short: Vec<_> = told
            .iter()
            .map(|it| (&*it.node, it.blocks, it.txs, it.known))
            .collect();
        assert_eq!(short, [("a", 1, 3, 2), ("b", 1, 3, 3)]);
        assert_eq!(told[0].least, (7, 2.0 / 3.0));
        // Seen after the block, by a poll that may have come too late: nothing is known of it there.
        let mut polled = world();
        polled.push(SightRow {
            resolution_ms: Some(500.0),
            ..sight("tx", "z", "a", 5_700)
        });
        assert_eq!(
            (known(&polled, &ends)[0].txs, known(&polled, &ends)[0].known),
            (2, 2)
        );
        polled.pop();
        polled.push(sight("tx", "z", "a", 5_700));
        assert_eq!(
            (known(&polled, &ends)[0].txs, known(&polled, &ends)[0].known),
            (3, 2)
        );
        assert!(
            known(&world(), &Ends::new()).is_empty(),
            "no block took anything"
        );
    }
}
