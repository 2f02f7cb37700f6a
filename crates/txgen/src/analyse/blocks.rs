//! When the observed nodes saw transactions and blocks first: how often blocks competed, and how long they took for each
//! MB.

use std::collections::HashMap;

use measure::{
    Alike, Ends, Forks, Known, Line, LineFit, Propagation, SightRow, alike, known, propagations,
    skews,
};

use super::range;
use crate::output::grouped;

/// How often blocks competed, where they are known by more than their heights.
pub(super) fn forks(sights: &[SightRow]) -> String {
    let forks = Forks::of(sights);
    if forks.stale() == 0 && forks.left == 0 {
        return String::new();
    }
    format!(
        "forks       {} of {} blocks are on no chain in the end ({:.1} %); {} times a block left a node's best chain\n",
        grouped(forks.stale()),
        grouped(forks.blocks),
        forks.stale() as f64 / forks.blocks.max(1) as f64 * 100.0,
        grouped(forks.left)
    )
}

/// τ = τ0 + z·Q, by both fits.
pub(super) fn propagation(sights: &[SightRow], seed: u64) -> String {
    let found = propagations(sights);
    if found.is_empty() {
        return String::new();
    }
    let points: Vec<(f64, f64)> = found
        .iter()
        .map(|block| (block.bytes as f64 / 1e6, block.delay_s))
        .collect();
    // The delays of one block are not independent of one another.
    let mut blocks: Vec<&str> = Vec::new();
    let mut groups = Vec::new();
    for delay in &found {
        if blocks.last() != Some(&&*delay.block) {
            blocks.push(&delay.block);
        }
        groups.push(blocks.len() - 1);
    }
    let Some(fit) = LineFit::of_groups(&points, &groups, seed) else {
        return format!(
            "propagation {} delays of blocks are too few for a line, or all blocks are of one size\n",
            points.len()
        );
    };
    let mut text = String::new();
    for (name, Line { intercept, slope }) in [
        ("least squares", fit.least_squares),
        ("median of slopes", fit.median_slope),
    ] {
        text.push_str(&format!(
            "propagation {name}: {} s + {} s for each MB\n",
            range(intercept, 1.0),
            range(slope, 1.0)
        ));
    }
    text.push_str(&fit_quality(&fit, &found, blocks.len()));
    text.push_str(&ceiling(&fit, sights));
    let unsure = found.iter().map(|it| it.unsure_s).fold(0.0, f64::max);
    if unsure > 0.0 {
        text.push_str(&format!(
            "            nodes that announced nothing were polled, up to {unsure:.3} s apart: a constant part below that is the \
             polls' (name their peers' ports: peer=bitcoin-p2p://HOST:PORT)\n"
        ));
    }
    text
}

/// At which size a block takes as long as the mean time between blocks. Miners that find the next one meanwhile work on
/// another chain, so no more than that is carried.
fn ceiling(fit: &LineFit, sights: &[SightRow]) -> String {
    let Some(between_s) = time_between(sights) else {
        return String::new();
    };
    let Line { intercept, slope } = fit.least_squares;
    let size = (between_s - intercept.value) / slope.value;
    let what = if intercept.low >= between_s {
        format!("blocks of any size take longer than the {between_s:.1} s between blocks")
    } else if slope.low <= 0.0 {
        "none follows: no rise with the size is shown".to_owned()
    } else if intercept.high >= between_s {
        format!(
            "none follows: small blocks may take longer than the {between_s:.1} s between blocks"
        )
    } else if fit.supports(size) {
        let rate = size / between_s;
        format!(
            "a block of {size:.3} MB takes as long as the {between_s:.1} s between blocks: {rate:.3} MB/s at most"
        )
    } else {
        let reach = fit.reach(size);
        format!(
            "not supported by these points: a block of {size:.3} MB, {reach:.1} times the largest, would take the \
             {between_s:.1} s between blocks"
        )
    };
    format!("ceiling     {what}\n")
}

/// The mean time from one block's first sight to the next one's, in seconds.
fn time_between(sights: &[SightRow]) -> Option<f64> {
    let mut first: HashMap<&str, u64> = HashMap::new();
    for sight in sights.iter().filter(|sight| sight.kind == SightRow::BLOCK) {
        let seen = first.entry(&sight.id).or_insert(sight.seen_ns);
        *seen = sight.seen_ns.min(*seen);
    }
    let (from, to) = (first.values().min()?, first.values().max()?);
    (first.len() > 1).then(|| (to - from) as f64 / 1e9 / (first.len() - 1) as f64)
}

/// How well the line fits, and which block and which delay weigh most in it.
fn fit_quality(fit: &LineFit, found: &[Propagation], blocks: usize) -> String {
    let squares: f64 = fit
        .residuals
        .iter()
        .map(|residual| residual * residual)
        .sum();
    let scatter = (squares / (found.len() - 2) as f64).sqrt();
    let (most, leverage) =
        fit.leverages
            .iter()
            .enumerate()
            .fold((0, 0.0), |most, (place, leverage)| {
                if *leverage > most.1 {
                    (place, *leverage)
                } else {
                    most
                }
            });
    let worst = fit
        .residuals
        .iter()
        .enumerate()
        .max_by(|one, other| one.1.abs().total_cmp(&other.1.abs()));
    let mut text = format!(
        "            {} delays of {} blocks of {:.3} to {:.3} MB; residuals of {scatter:.3} s; block {} has the most leverage, {leverage:.2}\n",
        found.len(),
        blocks,
        fit.range.0,
        fit.range.1,
        found[most].block
    );
    if let Some((place, residual)) = worst {
        text.push_str(&format!(
            "            farthest from the line: block {} at {}, {residual:+.3} s\n",
            found[place].block, found[place].node
        ));
    }
    text
}

/// When each node first saw blocks and sampled transactions, beside the first node.
pub(super) fn first_sights(sights: &[SightRow]) -> String {
    let mut text = String::new();
    for ((kind, node), skew) in skews(sights) {
        let what = if kind == SightRow::BLOCK {
            "blocks"
        } else {
            "sampled transactions"
        };
        let median = if skew.median_s.is_finite() {
            format!(
                "{:.3} s after the first node in the median of all",
                skew.median_s
            )
        } else {
            "never in the median of all".to_owned()
        };
        let most = match skew.seen {
            0 => String::new(),
            seen if seen < skew.of => {
                format!("; {:.3} s at most of what it showed", skew.largest_s)
            }
            _ => format!("; {:.3} s at most", skew.largest_s),
        };
        text.push_str(&format!(
            "first sight {node}: {} of {} {what}, {median}{most}\n",
            grouped(skew.seen),
            grouped(skew.of)
        ));
    }
    text
}

/// How alike the mempools were, and what each had of a block before the block.
pub(super) fn mempools(sights: &[SightRow], ends: &Ends) -> String {
    let seconds = alike(sights, ends);
    let shares = || seconds.iter().map(Alike::share);
    let waiting: u64 = seconds.iter().map(|it| it.waiting).sum();
    let shared: u64 = seconds.iter().map(|it| it.shared).sum();
    if waiting == 0 {
        return String::new();
    }
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let mut text = format!(
        "mempools    {} of the sampled transactions that waited were at every node, as a mean of {} seconds; {} to {} in \
         one second\n",
        percent(shared as f64 / waiting as f64),
        grouped(seconds.len() as u64),
        percent(shares().fold(1.0, f64::min)),
        percent(shares().fold(0.0, f64::max)),
    );
    for Known {
        node,
        blocks,
        txs,
        known,
        least,
    } in known(sights, ends)
    {
        text.push_str(&format!(
            "            {node}: it had {} of the {} sampled transactions of {} blocks before the block, {} of those of \
             block {}\n",
            percent(known as f64 / txs as f64),
            grouped(txs),
            grouped(blocks),
            percent(least.1),
            grouped(least.0)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A median of those that a node showed would be 0.1 s for all of these nodes, and missing for `none`.
    #[test]
    fn what_a_node_did_not_show_is_in_the_median_as_never() {
        let mut sights = Vec::new();
        let mut saw = |kind: &str, id: u64, node: &str, delay_ms: u64| {
            sights.push(SightRow {
                kind: kind.into(),
                id: id.to_string(),
                node: node.into(),
                seen_ns: (id * 1_000 + delay_ms) * 1_000_000,
                ..SightRow::default()
            });
        };
        for id in 0..20 {
            saw(SightRow::TX, id, "all", 0);
            for (node, shows) in [("more", 11), ("half", 10), ("few", 1)] {
                if id < shows {
                    saw(SightRow::TX, id, node, 100);
                }
            }
        }
        for node in ["all", "none"] {
            saw(SightRow::BLOCK, 3, node, 0);
        }
        let text = first_sights(&sights);
        let never = "sampled transactions, never in the median of all";
        let most = "; 0.100 s at most of what it showed";
        for line in [
            "all: 20 of 20 sampled transactions, 0.000 s after the first node in the median of all; 0.000 s at most".to_owned(),
            format!("more: 11 of 20 sampled transactions, 0.100 s after the first node in the median of all{most}"),
            format!("half: 10 of 20 {never}{most}"),
            format!("few: 1 of 20 {never}{most}"),
            format!("none: 0 of 20 {never}"),
        ] {
            assert!(text.contains(&format!("first sight {line}\n")), "{line}: {text}");
        }
        assert!(text.contains("few: 0 of 1 blocks, never"), "{text}");
    }
}
