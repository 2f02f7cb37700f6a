//! What the observed nodes of a run show: knees, what a transaction costs, what was busy.

use std::collections::{BTreeMap, HashMap};

use measure::{
    Attribution, BreakpointFound, Ends, Line, LineFit, Load, NodeRow, SightRow, admitted,
    breakpoint,
};

use super::blocks::{first_sights, forks, mempools, propagation};
use super::{extrapolated, line, range};
use crate::output::grouped;

/// The rows of a folder with observed nodes, and what was offered meanwhile.
pub(super) struct Nodes {
    pub(super) rows: Vec<NodeRow>,
    pub(super) sights: Vec<SightRow>,
    /// How the load's transactions ended.
    pub(super) ends: Ends,
    /// Notes about the clocks of the machines that observed them.
    pub(super) clocks: Vec<String>,
    /// By second: transactions offered, and cores that the generator used.
    pub(super) offered: Vec<(u64, f64, f64)>,
    /// By node: the cores of its machine, where those are known.
    pub(super) cores: BTreeMap<String, f64>,
    /// Share of what was sent that left late by the generator's fault.
    pub(super) own_late: f64,
    /// What each node's link carries in a direction by the operator's settings, in bits a second.
    pub(super) link_rate: Option<f64>,
    pub(super) seed: u64,
}

impl Nodes {
    /// All conclusions.
    pub(super) fn text(&self) -> String {
        let mut text: String = self
            .clocks
            .iter()
            .map(|clock| format!("machines    {clock}\n"))
            .collect();
        for name in self.names() {
            text.push_str(&self.node(&name));
        }
        text.push_str(&first_sights(&self.sights));
        text.push_str(&mempools(&self.sights, &self.ends));
        text.push_str(&forks(&self.sights));
        text.push_str(&propagation(&self.sights, self.seed));
        text
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for row in &self.rows {
            if !names.contains(&row.node) {
                names.push(row.node.clone());
            }
        }
        names.sort();
        names
    }

    fn of(&self, name: &str) -> Vec<&NodeRow> {
        self.rows.iter().filter(|row| row.node == name).collect()
    }

    fn offered_in(&self, second: u64) -> Option<f64> {
        let at = self.offered.binary_search_by_key(&second, |(at, ..)| *at);
        Some(self.offered[at.ok()?].1)
    }

    /// The knee of one node's admission, what held it back there, and what a transaction costs below.
    fn node(&self, name: &str) -> String {
        let rows = self.of(name);
        let admitted = admitted(&rows);
        let point = |(second, rate): &(u64, f64)| Some((self.offered_in(*second)?, *rate));
        let points: Vec<(f64, f64)> = admitted.iter().filter_map(point).collect();
        let found = breakpoint(&points, self.seed);
        let mut text = line(&format!("admitted by {name}"), &points, found);
        let mut up_to = f64::INFINITY;
        if let BreakpointFound::Breakpoint(found) = found {
            up_to = found.at;
            for (kind, why) in self.load(name, &rows, found.low).attribution() {
                text.push_str(&format!("            - {}: {why}\n", word(kind)));
            }
        }
        text.push_str(&self.resources(&rows, &admitted, up_to));
        text
    }

    /// What was busy in the seconds in which at least `from` a second was offered.
    fn load(&self, name: &str, rows: &[&NodeRow], from: f64) -> Load {
        let over = |second: u64| self.offered_in(second).is_some_and(|rate| rate >= from);
        let over: Vec<&&NodeRow> = rows.iter().filter(|row| over(row.second)).collect();
        let mean = |of: &dyn Fn(&NodeRow) -> Option<f64>| {
            let values: Vec<f64> = over.iter().filter_map(|row| of(row)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let bits = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 * 8.0);
        let disk = |row: &NodeRow| Some((row.disk_read_bytes? + row.disk_written_bytes?) as f64);
        let depth = |row: &NodeRow| row.mempool_txs.map(|txs| txs as f64);
        let grown = over
            .first()
            .and_then(|row| depth(row))
            .zip(over.last().and_then(|row| depth(row)));
        let seconds = over.len().max(1) as f64;
        let seen = |second: u64| over.iter().any(|row| row.second == second);
        let generator = self.offered.iter().filter(|(second, ..)| seen(*second));
        Load {
            cores: self.cores.get(name).copied(),
            machine: mean(&|row| row.machine_cpu),
            node: mean(&|row| row.cpu),
            busiest_thread: mean(&|row| row.busiest_thread),
            generator: generator.map(|(.., cores)| cores).sum::<f64>() / seconds,
            queue_growth: grown.map_or(0.0, |(first, last)| (last - first) / seconds),
            link: match self.link_rate {
                Some(_) => {
                    let received = mean(&|row| bits(row.net_received_bytes));
                    let sent = mean(&|row| bits(row.net_sent_bytes));
                    received.zip(sent).map(|(one, other)| one.max(other))
                }
                None => mean(&|row| row.link_bits),
            }
            .unwrap_or_default(),
            link_capacity: self
                .link_rate
                .or_else(|| over.iter().find_map(|row| row.link_capacity_bits)),
            disk: mean(&disk).unwrap_or_default(),
            own_late: self.own_late,
        }
    }

    /// Cores, bandwidth, disk and growth of the memory over the rate admitted, up to the knee, and what follows for other
    /// rates.
    fn resources(&self, rows: &[&NodeRow], admitted: &[(u64, f64)], up_to: f64) -> String {
        let below = |second: u64| self.offered_in(second).is_none_or(|rate| rate <= up_to);
        let of_second: HashMap<u64, &NodeRow> = rows.iter().map(|row| (row.second, *row)).collect();
        let of = |value: &dyn Fn(&NodeRow) -> Option<f64>| -> Vec<(f64, f64)> {
            let point = |stretch: &[(u64, f64)]| {
                let used = stretch.iter().map(|(second, _)| {
                    let row = of_second.get(second)?;
                    value(row).filter(|_| below(*second))
                });
                let used: f64 = used.sum::<Option<f64>>()?;
                let rate: f64 = stretch.iter().map(|(_, rate)| rate).sum();
                Some((rate / STRETCH_S as f64, used / STRETCH_S as f64))
            };
            let stretches = admitted.chunks_exact(STRETCH_S);
            let whole = stretches.filter(|it| {
                it[0].0.checked_add(STRETCH_S as u64 - 1) == Some(it[STRETCH_S - 1].0)
            });
            whole.filter_map(point).collect()
        };
        let megabits = |row: &NodeRow| {
            let bytes = row.net_received_bytes? + row.net_sent_bytes?;
            Some(bytes as f64 * 8.0 / 1e6)
        };
        let disk =
            |row: &NodeRow| Some((row.disk_read_bytes? + row.disk_written_bytes?) as f64 / 1e6);
        // What is kept fills the memory with every transaction: its growth goes with the rate, not its size.
        let growth = |row: &NodeRow| {
            let before = of_second.get(&row.second.checked_sub(1)?)?;
            Some((row.rss_bytes? as f64 - before.rss_bytes? as f64) / 1e6)
        };
        let mut text = String::new();
        for (used, unit) in [
            (of(&|row| row.cpu), "cores"),
            (of(&megabits), "Mbit/s"),
            (of(&disk), "MB/s of disk"),
            (of(&growth), "MB/s more memory"),
        ] {
            let Some(fit) = LineFit::of(&used, self.seed) else {
                continue;
            };
            let Line { intercept, slope } = fit.least_squares;
            text.push_str(&format!(
                "            {} {unit} + {} for each 100 tx/s, from {} times {STRETCH_S} s at {} to {}/s\n",
                range(intercept, 1.0),
                range(slope, 100.0),
                fit.residuals.len(),
                grouped(fit.range.0 as u64),
                grouped(fit.range.1 as u64)
            ));
            for rate in EXTRAPOLATED {
                text.push_str(&format!(
                    "              at {:>6}/s: {}\n",
                    grouped(rate as u64),
                    extrapolated(&fit, rate, unit)
                ));
            }
        }
        text
    }
}

fn word(attribution: Attribution) -> &'static str {
    match attribution {
        Attribution::Generator => "the generator",
        Attribution::SerialStage => "a serial stage",
        Attribution::Processors => "the processors",
        Attribution::Link => "the link",
        Attribution::Queue => "a queue",
        Attribution::Unknown => "unknown",
    }
}

/// Seconds that make one point of what a transaction costs: a mempool's depth is known at an instant of each second
/// only, and what that blurs would make the line flatter.
const STRETCH_S: usize = 4;
/// The rates of the gigablock talk.
const EXTRAPOLATED: [f64; 3] = [1_000.0, 3_000.0, 50_000.0];

#[cfg(test)]
mod tests {
    use measure::Committed;

    use super::*;

    /// Two nodes under a ramp of 20/s each second: `a` admits 800/s at most on one core of four; blocks take 0.1 s
    /// and 0.5 s for each MB to `b`.
    fn nodes() -> Nodes {
        let mut nodes = Nodes {
            rows: Vec::new(),
            sights: Vec::new(),
            ends: Ends::new(),
            clocks: Vec::new(),
            offered: Vec::new(),
            cores: ["a", "b"].map(|node| (node.to_owned(), 4.0)).into(),
            own_late: 0.0,
            link_rate: None,
            seed: 1,
        };
        let mut depth = [0.0, 0.0];
        for second in 0..80_u64 {
            let offered = (second * 20) as f64;
            nodes.offered.push((second, offered, 0.2));
            for (number, name) in ["a", "b"].into_iter().enumerate() {
                let admitted = offered.min(if number == 0 { 800.0 } else { 1e9 });
                depth[number] += admitted;
                let busy = admitted / 800.0;
                nodes.rows.push(NodeRow {
                    second,
                    node: name.into(),
                    mempool_txs: Some(depth[number] as u64),
                    admitted_tps: Some(admitted),
                    cpu: Some(0.05 + busy),
                    busiest_thread: Some(busy.min(1.0)),
                    machine_cpu: Some(0.4 + busy),
                    net_received_bytes: Some((1_000.0 + admitted * 400.0) as u64),
                    net_sent_bytes: Some((admitted * 350.0) as u64),
                    rss_bytes: Some(50_000_000 + depth[number] as u64 * 2_000),
                    disk_read_bytes: Some(0),
                    disk_written_bytes: Some((admitted * 500.0) as u64),
                    ..NodeRow::default()
                });
            }
            if second % 4 == 0 {
                let bytes = second * 10_000;
                for (name, delay) in [("a", 0.0), ("b", 0.1 + 0.5 * bytes as f64 / 1e6)] {
                    nodes.sights.push(SightRow {
                        kind: SightRow::BLOCK.into(),
                        id: second.to_string(),
                        node: name.into(),
                        seen_ns: ((second as f64 + delay) * 1e9) as u64,
                        bytes: Some(bytes),
                        ..SightRow::default()
                    });
                }
            }
        }
        nodes
    }

    #[test]
    fn the_node_that_gives_is_named_with_its_serial_stage_and_the_other_has_no_knee() {
        let text = nodes().text();
        let lines: Vec<&str> = text.lines().collect();
        let a = lines
            .iter()
            .position(|line| line.starts_with("admitted by a"))
            .unwrap();
        assert!(
            lines[a].contains("knee at 8") || lines[a].contains("knee at 7"),
            "{text}"
        );
        assert!(
            lines[a + 1].contains("a serial stage: one thread of the node at"),
            "{text}"
        );
        assert!(
            text.contains("admitted by b  no knee seen up to 1,580/s"),
            "{text}"
        );
    }

    #[test]
    fn propagation_and_skew_are_those_that_were_put_in() {
        let text = nodes().text();
        assert!(
            text.contains("propagation least squares: 0.100 (95 %: 0.100 to 0.100) s + 0.500"),
            "{text}"
        );
        assert!(
            text.contains("propagation median of slopes: 0.100"),
            "{text}"
        );
        assert!(
            text.contains("first sight a: 20 of 20 blocks, 0.000 s after"),
            "{text}"
        );
    }

    /// Blocks of up to 0.76 MB every 4 s, which take 0.1 s and 0.5 s for each MB: one of 7.8 MB would take those 4 s.
    #[test]
    fn the_ceiling_is_the_block_that_takes_as_long_as_the_time_between_blocks() {
        let near = nodes().text();
        assert!(
            near.contains("ceiling     not supported by these points: a block of 7.800 MB, 10.3 times the largest"),
            "{near}"
        );
        let with = |change: fn(&mut SightRow)| {
            let mut nodes = nodes();
            nodes.sights.iter_mut().for_each(change);
            nodes.text()
        };
        // The same blocks every second, to the nanosecond.
        let often = with(|sight| {
            let delay = sight.seen_ns % 4_000_000_000;
            sight.seen_ns = sight.seen_ns / 4 - delay / 4 + delay;
        });
        assert!(
            often.contains(
                "a block of 1.800 MB takes as long as the 1.0 s between blocks: 1.800 MB/s at most"
            ),
            "{often}"
        );
        let flat = with(|sight| {
            let second: u64 = sight.id.parse().unwrap();
            let delay = 100_000_000 + second / 4 % 3 * 20_000_000;
            sight.seen_ns = second * 1_000_000_000 + u64::from(sight.node == "b") * delay;
        });
        assert!(flat.contains("ceiling     none follows"), "{flat}");
    }

    /// Blocks every 4 s that take 5 s whatever their size: with a rise, without one, and where the points leave it open.
    #[test]
    fn that_blocks_of_any_size_take_too_long_is_said_where_the_constant_part_surely_does() {
        let with = |delay_ms: fn(u64) -> u64| {
            let mut nodes = nodes();
            for sight in nodes.sights.iter_mut().filter(|sight| sight.node == "b") {
                let second: u64 = sight.id.parse().unwrap();
                sight.seen_ns = second * 1_000_000_000 + delay_ms(second) * 1_000_000;
            }
            nodes.text()
        };
        let any = "ceiling     blocks of any size take longer than the 4.0 s between blocks";
        let rising = with(|second| 5_000 + second * 5);
        assert!(rising.contains(any), "{rising}");
        let flat = with(|second| 5_000 + second / 4 % 3 * 20);
        assert!(flat.contains(any), "{flat}");
        let open = with(|second| 3_800 + second * 20 + second / 4 % 3 * 400);
        assert!(
            open.contains("ceiling     none follows: small blocks may"),
            "{open}"
        );
        let near = with(|second| 3_500 + second * 5);
        assert!(
            near.contains("a block of 1.000 MB takes as long as the 4.0 s"),
            "{near}"
        );
    }

    /// Half of the transactions come to `b` 2.5 s later; each is in a block three seconds after it was sent.
    #[test]
    fn mempools_are_alike_as_far_as_they_hold_the_same() {
        let mut nodes = nodes();
        for second in 0..60_u64 {
            let id = format!("t{second}");
            let late = if second % 2 == 0 { 0.1 } else { 2.6 };
            for (node, at) in [("a", 0.1), ("b", late)] {
                nodes.sights.push(SightRow {
                    kind: SightRow::TX.into(),
                    id: id.clone(),
                    node: node.into(),
                    seen_ns: ((second as f64 + at) * 1e9) as u64,
                    ..SightRow::default()
                });
            }
            nodes.sights.push(SightRow {
                kind: SightRow::BLOCK.into(),
                id: format!("b{second}"),
                node: "b".into(),
                height: Some(second),
                seen_ns: (second + 1) * 1_000_000_000,
                ..SightRow::default()
            });
            let committed = Committed {
                at_ns: (second + 3) * 1_000_000_000,
                height: second + 2,
            };
            nodes.ends.insert(id, Some(committed));
        }
        let text = nodes.text();
        assert!(
            text.contains("mempools    50.0 % of the sampled transactions that waited were at every node, as a mean of 61 seconds; 0.0 % to 100.0 % in one second"),
            "{text}"
        );
        assert!(
            text.contains(
                "b: it had 100.0 % of the 58 sampled transactions of 58 blocks before the block"
            ),
            "{text}"
        );
    }

    #[test]
    fn resources_are_extrapolated_only_as_far_as_the_points_support_it() {
        let text = nodes().text();
        assert!(
            text.contains("0.125 (95 %: 0.125 to 0.125) for each 100 tx/s"),
            "{text}"
        );
        assert!(text.contains("cores, extrapolated to 1.3 times"), "{text}");
        assert!(
            text.contains("at 50,000/s: not supported by these points ("),
            "{text}"
        );
    }

    /// Each transaction stays in the memory with 2,000 bytes and is written once, with 500.
    #[test]
    fn memory_and_disk_go_with_the_rate_too() {
        let text = nodes().text();
        let rise = |unit: &str| {
            let line = text.lines().find(|line| line.contains(unit));
            line.unwrap_or_else(|| panic!("{unit}: {text}")).to_owned()
        };
        let memory = rise("MB/s more memory + ");
        assert!(
            memory.contains("+ 0.200 (95 %: 0.200 to 0.200)"),
            "{memory}"
        );
        let disk = rise("MB/s of disk + ");
        assert!(disk.contains("+ 0.050 (95 %: 0.050 to 0.050)"), "{disk}");
    }

    /// At the knee `a` receives 800 × 400 bytes a second: 2.6 Mbit/s.
    #[test]
    fn a_link_at_its_capacity_is_a_cause_and_one_with_room_is_not() {
        let told = |link_rate: Option<f64>, capacity: Option<f64>| {
            let mut nodes = nodes();
            nodes.link_rate = link_rate;
            for row in &mut nodes.rows {
                row.link_bits = row.net_received_bytes.map(|bytes| bytes as f64 * 8.0);
                row.link_capacity_bits = capacity;
            }
            nodes.text()
        };
        let full = "- the link: 2.6 of 2.7 Mbit/s in the busier direction";
        assert!(
            told(Some(2.7e6), None).contains(full),
            "by the operator's figure"
        );
        assert!(told(None, Some(2.7e6)).contains(full), "by the system's");
        for (rate, capacity) in [
            (Some(10e6), None),
            (None, Some(10e6)),
            (Some(10e6), Some(2.7e6)),
            (None, None),
        ] {
            let text = told(rate, capacity);
            assert!(!text.contains("the link"), "{rate:?} {capacity:?}: {text}");
            assert!(text.contains("a serial stage"), "{text}");
        }
    }

    #[test]
    fn nothing_is_said_of_nodes_that_nobody_observed() {
        let empty = Nodes {
            rows: Vec::new(),
            sights: Vec::new(),
            ..nodes()
        };
        assert_eq!(empty.text(), "");
    }
}
