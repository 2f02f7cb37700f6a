//! How one value is split into many coins, level by level.

use crate::workload::size;

/// The values of the outputs of each transaction, level by level from the root on: transaction `i` of a
/// level spends output `i` of the level before it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) levels: Vec<Vec<Vec<u64>>>,
}

impl Tree {
    /// So many coins of one value, with so many satoshi of fee for each byte.
    pub(crate) fn new(coins: usize, value: u64, fee_rate: u64) -> Self {
        let mut levels: Vec<Vec<Vec<u64>>> = Vec::new();
        let mut values = vec![value; coins.max(1)];
        loop {
            let level: Vec<Vec<u64>> = values.chunks(FAN_OUT).map(<[u64]>::to_vec).collect();
            let needs = |outputs: &Vec<u64>| {
                let fee = fee_rate * size(1, outputs.len()) as u64;
                outputs.iter().sum::<u64>() + fee
            };
            values = level.iter().map(needs).collect();
            levels.push(level);
            if values.len() == 1 {
                levels.reverse();
                return Self { levels };
            }
        }
    }

    /// Satoshi of the root's outputs.
    pub(crate) fn root(&self) -> u64 {
        self.levels[0].iter().flatten().sum()
    }
}

/// Outputs of a transaction: 17 kB, of the 100 kB that are standard.
const FAN_OUT: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_pays_for_the_next_one() {
        for coins in [1, 499, 500, 501, 250_000, 300_001] {
            let tree = Tree::new(coins, 10_000, 2);
            let leaves: usize = tree.levels[tree.levels.len() - 1]
                .iter()
                .map(Vec::len)
                .sum();
            assert_eq!(leaves, coins);
            assert_eq!(tree.levels[0].len(), 1, "one root");
            for pair in tree.levels.windows(2) {
                let funds: Vec<u64> = pair[0].iter().flatten().copied().collect();
                assert_eq!(
                    funds.len(),
                    pair[1].len(),
                    "each output is spent by one transaction"
                );
                for (fund, outputs) in funds.iter().zip(&pair[1]) {
                    assert!(outputs.len() <= FAN_OUT);
                    let fee = fund - outputs.iter().sum::<u64>();
                    assert_eq!(fee, 2 * size(1, outputs.len()) as u64);
                }
            }
        }
    }
}
