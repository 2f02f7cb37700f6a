//! When a run requests blocks from nodes that mine only on request.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base::Random;
use pacing::Nanos;

/// When blocks are requested, and from which nodes: `5s` or `poisson:5s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mining {
    /// From a block to the next one, in the mean.
    pub every: Nanos,
    /// Blocks come at random, as those of miners who search independently do (exponential intervals: S. Nakamoto,
    /// *Bitcoin*, 11), each from any of the nodes; otherwise evenly, from the first node.
    pub is_random: bool,
}

impl fmt::Display for Mining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_random { RANDOM } else { "" };
        write!(f, "{kind}{}", self.every)
    }
}

impl FromStr for Mining {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (is_random, every) = match text.strip_prefix(RANDOM) {
            Some(every) => (true, every),
            None => (false, text),
        };
        let every: Nanos = every
            .parse()
            .map_err(|error| format!("{error}; write 5s, or poisson:5s for blocks at random"))?;
        if every == Nanos::ZERO {
            return Err(
                "a block needs some time after the one before; write for instance 5s".into(),
            );
        }
        Ok(Self { every, is_random })
    }
}

const RANDOM: &str = "poisson:";

impl Mining {
    /// How long after the last block the next one is due, and which of so many nodes finds it.
    pub(crate) fn next(self, random: &mut Random, nodes: usize) -> (Duration, usize) {
        if !self.is_random {
            return (self.every.as_duration(), 0);
        }
        let intervals = -(1.0 - random.unit()).ln();
        let node = (random.unit() * nodes as f64) as usize;
        (self.every.as_duration().mul_f64(intervals), node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_says_how_often_and_whether_at_random() {
        for text in ["5s", "poisson:0.5s"] {
            assert_eq!(text.parse::<Mining>().unwrap().to_string(), text);
        }
        for text in ["", "poisson", "poisson:", "even:5s", "0s", "poisson:0s"] {
            assert!(text.parse::<Mining>().is_err(), "{text}");
        }
    }

    #[test]
    fn blocks_at_random_have_the_mean_and_spread_of_a_poisson_process_and_all_nodes_find_some() {
        let mining: Mining = "poisson:10s".parse().unwrap();
        let mut random = Random::new(7);
        let mut found = [0_u32; 3];
        let mut seconds = Vec::new();
        for _ in 0..30_000 {
            let (interval, place) = mining.next(&mut random, found.len());
            found[place] += 1;
            seconds.push(interval.as_secs_f64());
        }
        let mean = seconds.iter().sum::<f64>() / 30_000.0;
        // Four standard errors; an exponential distribution's deviation is its mean, its median 0.69 of it.
        assert!((mean - 10.0).abs() < 0.24, "{mean}");
        let below = seconds.iter().filter(|it| **it < 10.0 * 2_f64.ln()).count();
        assert!(below.abs_diff(15_000) < 350, "{below}");
        assert!(
            found.iter().all(|count| count.abs_diff(10_000) < 330),
            "{found:?}"
        );
    }

    #[test]
    fn even_blocks_are_the_first_node_s() {
        let mining: Mining = "2s".parse().unwrap();
        let mut random = Random::new(7);
        for _ in 0..9 {
            assert_eq!(mining.next(&mut random, 3), (Duration::from_secs(2), 0));
        }
    }
}
