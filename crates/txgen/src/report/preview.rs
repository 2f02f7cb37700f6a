//! A plan as text: what would be offered, and a small chart of the rate.

use std::fmt::Write as _;

use devnode::Application;
use pacing::{Arrivals, Nanos, Profile};
use report::text::grouped;

use crate::plan::{Load, Nodes, Plan};

/// Describes the plan in a few lines and, for a load with a known length, draws its rate.
#[must_use]
pub fn preview(plan: &Plan) -> String {
    let mut text = String::new();
    line(&mut text, "load", &describe_load(&plan.load));
    if !plan.part.is_whole() {
        line(&mut text, "part", &plan.part.to_string());
    }
    if let Some(start) = plan.start_at {
        line(&mut text, "start", &start.to_string());
    }
    let count = plan.planned().map_or(until(&plan.load).into(), grouped);
    line(&mut text, "transactions", &count);
    if let Load::Open { schedule, .. } = &plan.load {
        let peak = match plan.duration() {
            Some(_) => schedule.profile().peak().to_string(),
            None => until(&plan.load).into(),
        };
        line(&mut text, "peak", &peak);
    }
    let duration = plan
        .duration()
        .map_or(until(&plan.load).into(), |duration| duration.to_string());
    line(&mut text, "duration", &duration);
    line(&mut text, "workload", &plan.workload.to_string());
    line(&mut text, "seed", &plan.seed.to_string());
    line(&mut text, "target", &describe_target(plan));
    line(
        &mut text,
        "method",
        &format!("{}{}", plan.target.facts().method_prefix, plan.method),
    );
    if let Load::Open { schedule, .. } = &plan.load {
        text.push('\n');
        chart(&mut text, schedule.profile());
    }
    text
}

/// What ends a load that has no length of its own.
fn until(load: &Load) -> &'static str {
    match load {
        Load::Open {
            stop_when_saturated: true,
            ..
        } => "until the target is saturated",
        Load::Open { .. } => "until stopped",
        Load::Flood { .. } => "as long as the answers take",
    }
}

/// The load in one line.
#[must_use]
pub fn describe_load(load: &Load) -> String {
    match load {
        Load::Open { schedule, .. } => {
            let arrivals = match schedule.arrivals() {
                Arrivals::Even => String::new(),
                arrivals => format!(" with {arrivals} arrivals"),
            };
            format!("{}{arrivals}, open loop", schedule.profile())
        }
        Load::Flood { concurrency, count } => {
            format!(
                "flood of {} with {concurrency} in flight, closed loop",
                grouped(*count)
            )
        }
    }
}

/// The target in one line.
#[must_use]
pub fn describe_target(plan: &Plan) -> String {
    match &plan.nodes {
        Nodes::BuiltIn { transport, config } => format!(
            "the built-in {} (a fast fixture, not a consensus engine) over {}, {} connections",
            match config.app {
                Application::Kvstore => "node",
                Application::Bigchaindb => "BigchainDB node",
            },
            match plan.target.facts().interface {
                Some(interface) => interface.into(),
                None => transport.to_string(),
            },
            plan.connections
        ),
        Nodes::Endpoints(endpoints) => {
            let names: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
            format!(
                "{}, {} connections each",
                names.join(", "),
                plan.connections
            )
        }
    }
}

fn line(text: &mut String, name: &str, value: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{name:<13} {value}");
}

/// Columns are equal spans of time, each with the mean rate of its span; a profile without an end is
/// drawn over its first [`OPEN_STEPS`] steps.
fn chart(text: &mut String, profile: &Profile) {
    let shown = profile.duration().unwrap_or_else(|| {
        let last = profile.iter_steps().take(OPEN_STEPS).last();
        last.and_then(|step| step.end)
            .unwrap_or(Nanos::from_secs(60))
    });
    let bounds: Vec<Nanos> = (0..=COLUMNS)
        .map(|column| {
            let nanos = u128::from(shown.as_nanos()) * column as u128 / COLUMNS as u128;
            Nanos::from_nanos(nanos as u64)
        })
        .collect();
    let rates: Vec<f64> = bounds
        .windows(2)
        .map(|span| {
            let seconds = span[1].saturating_sub(span[0]).as_secs_f64();
            let count = profile.integral(span[1]).as_f64() - profile.integral(span[0]).as_f64();
            if seconds > 0.0 { count / seconds } else { 0.0 }
        })
        .collect();
    let top = rates.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    for row in (0..ROWS).rev() {
        let label = top * (row + 1) as f64 / ROWS as f64;
        let _ = write!(text, "{:>10} ┤", format!("{label:.0}/s"));
        for rate in &rates {
            let eighths = (rate / top * (ROWS * 8) as f64).round() as usize;
            text.push(BLOCKS[eighths.saturating_sub(row * 8).min(8)]);
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{:>10} └{}", "", "─".repeat(COLUMNS));
    let open = if profile.duration().is_none() {
        " …"
    } else {
        ""
    };
    let end = format!("{shown}{open}");
    let _ = writeln!(text, "{:>12}0s{end:>width$}", "", width = COLUMNS - 2);
}

const COLUMNS: usize = 60;
const ROWS: usize = 6;
/// A ramp without an end is drawn this far.
const OPEN_STEPS: usize = 15;
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_has_the_shape_of_the_profile() {
        let profile = Profile::linear(
            "0/s".parse().unwrap(),
            "600/s".parse().unwrap(),
            "60s".parse().unwrap(),
        )
        .unwrap();
        let mut text = String::new();
        chart(&mut text, &profile);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), ROWS + 2);
        let filled = |line: &str| line.chars().filter(|c| BLOCKS[1..].contains(c)).count();
        let counts: Vec<usize> = lines[..ROWS].iter().map(|line| filled(line)).collect();
        assert!(counts.is_sorted(), "{text}");
        assert!((8..=12).contains(&counts[0]), "{text}");
        assert!((57..=60).contains(&counts[ROWS - 1]), "{text}");
    }
}
