//! Observed nodes beside one another: in the report of a run, and on the page of a recording without a load.

use std::collections::BTreeMap;

use measure::{Line, LineFit, NodeRow, Propagation, SightRow, Skew, admitted, propagations, skews};

use crate::chart::{Axis, Chart, Tone, Unit};
use crate::page::{note, tag};
use crate::text::{self, escape, grouped};
use crate::{Page, Table};

/// Nodes that were recorded without a load.
#[derive(Debug)]
pub struct Recording {
    /// When it began, as a time of the wall clock.
    pub started: String,
    /// Seconds that it lasted.
    pub lasted_s: f64,
    /// Where the observer ran.
    pub machine: String,
    /// What a reader should know, for example that a node gave no answer for a while.
    pub notes: Vec<String>,
    /// The seconds of the nodes.
    pub nodes: Vec<NodeRow>,
    /// When they had blocks and sampled transactions first.
    pub sights: Vec<SightRow>,
}

impl Recording {
    /// One self-contained page: what the nodes did, over time, and how much later than the first each had what was
    /// seen.
    pub fn html(&self) -> String {
        let time = || Axis::time().to(self.lasted_s);
        let chart = |title: &str, y: Axis| Chart::new(title, time(), y);
        let nodes = Nodes::new(&self.nodes, &self.sights, &chart);
        let names: Vec<&str> = nodes.rows.keys().copied().collect();
        let mut page = Page::new(&format!("Recorded: {}", names.join(", ")));
        let origin = format!("{}, on {}", text::utc(&self.started), self.machine);
        page.push(&tag("p class=\"soft\"", &escape(&origin)));
        for text in &self.notes {
            page.push(&tag("p class=\"alert\"", &escape(text)));
        }
        page.headline(&self.headline(&nodes));
        page.section("Nodes", &nodes.table());
        let mut charts = vec![nodes.heights(), nodes.mempools(|chart| chart)];
        charts.extend(nodes.rates(|chart| chart));
        charts.extend(nodes.processors());
        page.section("Over time", &grid(charts));
        if nodes.rows.len() > 1 {
            let lags = [SightRow::BLOCK, SightRow::TX].map(|kind| nodes.lags(kind));
            page.section("First sight", &grid(lags.into_iter().chain(nodes.delays())));
        }
        page.html()
    }

    fn headline(&self, nodes: &Nodes<'_>) -> String {
        let count = nodes.rows.len();
        let lasted = text::seconds(self.lasted_s);
        let of_blocks = nodes
            .skews
            .iter()
            .filter(|((kind, _), _)| kind == SightRow::BLOCK);
        let last = of_blocks.max_by(|one, other| one.1.median_s.total_cmp(&other.1.median_s));
        match last {
            Some(((_, name), skew)) if count > 1 => {
                if skew.median_s.is_infinite() {
                    return format!(
                        "**{count} nodes** recorded for {lasted}: {name} showed {} of {} blocks.",
                        grouped(skew.seen),
                        grouped(skew.of)
                    );
                }
                let median = text::seconds(skew.median_s);
                let polled = nodes.polled_s(SightRow::BLOCK).map(text::seconds);
                let polled = polled.map(|it| format!(" (polled: seen up to {it} late)"));
                format!(
                    "**{count} nodes** recorded for {lasted}: {name} is the last to have blocks, half of them within \
                     **{median}** of the first node{}.",
                    polled.unwrap_or_default()
                )
            }
            _ => {
                let plural = if count == 1 { "" } else { "s" };
                let blocks: u64 = self.nodes.iter().map(|row| row.blocks).sum();
                let blocks = grouped(blocks);
                format!("**{count} node{plural}** recorded for {lasted}: {blocks} blocks seen.")
            }
        }
    }
}

/// Begins a chart over the time of the run: title and upright axis.
type OverTime<'a> = &'a dyn Fn(&str, Axis) -> Chart;

/// What was observed, by node.
pub(crate) struct Nodes<'a> {
    rows: BTreeMap<&'a str, Vec<&'a NodeRow>>,
    sights: &'a [SightRow],
    skews: BTreeMap<(String, String), Skew>,
    over_time: OverTime<'a>,
}

impl<'a> Nodes<'a> {
    pub(crate) fn new(
        nodes: &'a [NodeRow],
        sights: &'a [SightRow],
        over_time: OverTime<'a>,
    ) -> Self {
        let mut rows: BTreeMap<&str, Vec<&NodeRow>> = BTreeMap::new();
        for row in nodes {
            rows.entry(&row.node).or_default().push(row);
        }
        Self {
            rows,
            sights,
            skews: skews(sights),
            over_time,
        }
    }

    /// A row for each node: what it answered, its blocks and its mempool, how much later than the first node it had
    /// blocks and transactions, and what it used.
    pub(crate) fn table(&self) -> String {
        type Row<'a> = (&'a &'a str, &'a Vec<&'a NodeRow>);
        let sum = |value: fn(&NodeRow) -> u64| {
            move |(_, rows): &Row<'_>| rows.iter().map(|row| value(row)).sum::<u64>()
        };
        let most = |value: fn(&NodeRow) -> Option<f64>| {
            move |(_, rows): &Row<'_>| rows.iter().filter_map(|row| value(row)).reduce(f64::max)
        };
        let late = |kind: &'static str, of: fn(&Skew) -> f64| {
            move |(name, _): &Row<'_>| {
                let skew = self.skews.get(&(kind.to_owned(), (**name).to_owned()));
                let late = skew.map(|skew| of(skew) * 1e3);
                late.filter(|late| late.is_finite())
            }
        };
        let medians_and_most: [fn(&Skew) -> f64; 2] = [|it| it.median_s, |it| it.largest_s];
        let [block, block_most] = medians_and_most.map(|of| late(SightRow::BLOCK, of));
        let [tx, tx_most] = medians_and_most.map(|of| late(SightRow::TX, of));
        let cores = |value: f64| format!("{value:.2}");
        let mebibytes = |bytes: f64| text::count((bytes / MIB).round());
        let table = Table::of(&self.rows)
            .text("node", |(name, _)| **name)
            .figure("answered", |row| {
                let (asked, answered) = (sum(|row| row.asked)(row), sum(|row| row.answered)(row));
                text::percent(answered as f64 / asked.max(1) as f64)
            })
            .count("height", most(|row| row.height.map(|height| height as f64)))
            .count("blocks", sum(|row| row.blocks))
            .not_on_phones()
            .count("transactions in them", sum(|row| row.block_txs))
            .rest()
            .count(
                "most in its mempool",
                most(|row| row.mempool_max.max(row.mempool_txs).map(|txs| txs as f64)),
            )
            .number("block later, median ms", text::tenths, block)
            .number("at most", text::tenths, block_most)
            .rest()
            .number("transaction later, median ms", text::tenths, tx)
            .rest()
            .number("at most", text::tenths, tx_most)
            .rest()
            .number("most cores", cores, most(|row| row.cpu))
            .number("of one thread", cores, most(|row| row.busiest_thread))
            .rest()
            .number(
                "most memory, MiB",
                mebibytes,
                most(|row| row.rss_bytes.map(|it| it as f64)),
            )
            .rest();
        table.table().html() + &self.resolution()
    }

    /// How late what was polled may have been seen: less than that is no difference between nodes.
    fn resolution(&self) -> String {
        let kinds = [(SightRow::BLOCK, "blocks"), (SightRow::TX, "transactions")];
        let late = |(kind, name)| {
            let seconds = self.polled_s(kind)?;
            Some(format!("{name} up to {}", text::seconds(seconds)))
        };
        let late: Vec<String> = kinds.into_iter().filter_map(late).collect();
        if late.is_empty() {
            String::new()
        } else {
            note(&format!(
                "Later: than at the node that was seen to have it first. Nodes that announce nothing were polled and had \
             it before it was seen, {}: differences below that say nothing.",
                late.join(", ")
            ))
        }
    }

    /// The most that what was seen of a kind may have been there before, in seconds; none where all was announced.
    fn polled_s(&self, kind: &str) -> Option<f64> {
        let of_kind = self.sights.iter().filter(|sight| sight.kind == kind);
        let late = of_kind.filter_map(|sight| sight.resolution_ms);
        late.reduce(f64::max).map(|millis| millis / 1e3)
    }

    /// The newest block of each.
    pub(crate) fn heights(&self) -> Chart {
        let chart =
            (self.over_time)("Height", Axis::linear("block", Unit::Number).from(None)).tall();
        self.lines(chart, |row| row.height)
    }

    /// The mempools over one another, above what `beneath` draws.
    pub(crate) fn mempools(&self, beneath: impl FnOnce(Chart) -> Chart) -> Chart {
        let axis = Axis::linear("transactions", Unit::Number);
        let chart = beneath((self.over_time)("In each node's mempool", axis).tall());
        let ranges = |rows: &[&NodeRow]| {
            let ends = |row: &&NodeRow| {
                let (least, most) = row.mempool_min.zip(row.mempool_max)?;
                Some((middle(row.second), least as f64, most as f64))
            };
            rows.iter().filter_map(ends).collect::<Vec<_>>()
        };
        let nodes = self.rows.iter().enumerate();
        let chart = nodes.fold(chart, |chart, (number, (name, rows))| {
            let name = format!("at {name}, least to most of the second");
            chart.ranges(&name, Tone::Nth(number), ranges(rows))
        });
        // Of the ends, as a sample beside a block may be either.
        self.lines(chart, |row| row.mempool_max.max(row.mempool_txs))
    }

    /// A line for each node.
    fn lines(&self, chart: Chart, value: fn(&NodeRow) -> Option<u64>) -> Chart {
        let nodes = self.rows.iter().enumerate();
        nodes.fold(chart, |chart, (number, (name, rows))| {
            let points = points(rows, |row| value(row).map(|it| it as f64));
            chart.line(&format!("at {name}"), Tone::Nth(number), points)
        })
    }

    /// What each node took into its mempool, and what its blocks had, above what `beneath` draws.
    pub(crate) fn rates(&self, beneath: impl Fn(Chart) -> Chart) -> impl Iterator<Item = Chart> {
        self.rows.iter().map(move |(name, rows)| {
            let own = admitted(rows).into_iter();
            let own = own.map(|(second, rate)| (middle(second), rate));
            let committed = rows.iter().filter(|row| row.blocks > 0);
            let committed = committed.map(|row| (middle(row.second), row.block_txs as f64));
            let axis = Axis::linear("transactions per second", Unit::PerSecond);
            beneath((self.over_time)(&format!("Rates at {name}"), axis))
                .line("into its mempool", Tone::Depth, own)
                .dots("in its blocks of the second", Tone::Committed, committed)
        })
    }

    /// Cores that the process, its busiest thread and its machine used, of each node of which that is known.
    pub(crate) fn processors(&self) -> impl Iterator<Item = Chart> {
        let is_known =
            |rows: &[&NodeRow]| rows.iter().any(|row| row.cpu.or(row.machine_cpu).is_some());
        let known = self.rows.iter().filter(move |(_, rows)| is_known(rows));
        known.map(|(name, rows)| {
            let axis = Axis::linear("cores", Unit::Number);
            let machine = points(rows, |row| row.machine_cpu);
            let thread = points(rows, |row| row.busiest_thread);
            (self.over_time)(&format!("Processors at {name}"), axis)
                .line("everything on its machine", Tone::Plan, machine)
                .line("its process", Tone::P50, points(rows, |row| row.cpu))
                .line("its busiest thread", Tone::P99, thread)
        })
    }

    /// How much later than the first node each had what was seen, by when that one had it.
    pub(crate) fn lags(&self, kind: &str) -> Chart {
        let mut first: BTreeMap<&str, u64> = BTreeMap::new();
        let of_kind = || self.sights.iter().filter(|sight| sight.kind == kind);
        for sight in of_kind() {
            let seen = first.entry(&sight.id).or_insert(u64::MAX);
            *seen = sight.seen_ns.min(*seen);
        }
        let title = match kind {
            SightRow::BLOCK => "Blocks: later than at the first node",
            _ => "Sampled transactions: later than at the first node",
        };
        let chart = (self.over_time)(title, Axis::linear("seconds", Unit::Seconds));
        let nodes = self.rows.keys().enumerate();
        nodes.fold(chart, |chart, (number, name)| {
            let points = of_kind().filter(|sight| sight.node == **name).map(|sight| {
                let first = first[&*sight.id];
                (first as f64 / 1e9, (sight.seen_ns - first) as f64 / 1e9)
            });
            let points: Vec<(f64, f64)> = points.collect();
            chart.dots(&format!("at {name}"), Tone::Nth(number), points)
        })
    }

    /// How long blocks took from the first node to the others, by their sizes, and both lines τ = τ0 + z·Q through them;
    /// nothing where no block was seen at two.
    pub(crate) fn delays(&self) -> Option<Chart> {
        let found = propagations(self.sights);
        let point = |block: &Propagation| (block.bytes as f64 / 1e6, block.delay_s);
        let points: Vec<(f64, f64)> = found.iter().map(point).collect();
        let chart = Chart::new(
            "Blocks: from the first node to the others",
            Axis::log("size of the block in MB", Unit::Number),
            Axis::log("seconds", Unit::Seconds),
        );
        let chart = chart
            .tall()
            .dots("a block at a node", Tone::Accepted, points.clone());
        // The seed is of intervals, which are not drawn.
        let chart = LineFit::of(&points, 1)
            .into_iter()
            .fold(chart, |chart, fit| {
                chart
                    .line("least squares", Tone::Plan, fitted(&fit, fit.least_squares))
                    .line(
                        "median of slopes",
                        Tone::Sent,
                        fitted(&fit, fit.median_slope),
                    )
            });
        (!points.is_empty()).then_some(chart)
    }
}

/// Charts side by side where there is room.
pub(crate) fn grid(charts: impl IntoIterator<Item = Chart>) -> String {
    Page::grid(charts.into_iter().map(|chart| chart.html()))
}

/// Points of a line as far as sizes were measured, at equal factors.
fn fitted(fit: &LineFit, line: Line) -> Vec<(f64, f64)> {
    const STRETCHES: i32 = 24;
    // A block of nothing has no place on the axis.
    const WIDEST: f64 = 1e4;
    let (low, high) = fit.range;
    let low = low.max(high / WIDEST);
    let factor = (high / low).powf(1.0 / f64::from(STRETCHES));
    let sizes = (0..=STRETCHES).map(|nth| low * factor.powi(nth));
    let at = |size| (size, line.intercept.value + line.slope.value * size);
    sizes
        .map(at)
        .filter(|(_, delay_s)| *delay_s > 0.0)
        .collect()
}

/// A value over time; not a number where there is none.
fn points(rows: &[&NodeRow], value: impl Fn(&NodeRow) -> Option<f64>) -> Vec<(f64, f64)> {
    let point = |row: &&NodeRow| (middle(row.second), value(row).unwrap_or(f64::NAN));
    rows.iter().map(point).collect()
}

/// Of a second.
fn middle(second: u64) -> f64 {
    second as f64 + 0.5
}

const MIB: f64 = 1024.0 * 1024.0;
