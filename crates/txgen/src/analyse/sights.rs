//! When the observed nodes saw what: first sights, and what their mempools held.

use measure::{Alike, Ends, Known, SightRow, alike, known, skews};

use crate::output::grouped;

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

    /// A median of those that a node showed would say 0.1 s of all of these nodes, and nothing of `none`.
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
