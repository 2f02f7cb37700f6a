//! What a person sees before and after a run, a plan among it; what is seen meanwhile is in [`crate::live`].

pub mod recorded;
mod table;

pub(crate) use harness::{note, print};
pub use report::text::grouped;
pub use table::table;

use pacing::{Arrivals, Nanos, Profile};
use report::Entries;
use report::chart::columns;

use crate::plan::{Load, Nodes, Plan};

/// Describes the plan in a few lines and, for a load with a known length, draws its rate.
pub fn preview(plan: &Plan) -> String {
    let until = until(&plan.load);
    let mut entries = Entries::default();
    entries.add("load", describe_load(&plan.load));
    if !plan.part.is_whole() {
        entries.add("part", plan.part.to_string());
    }
    if let Some(start) = plan.start_at {
        entries.add("start", start.to_string());
    }
    let duration = plan.duration();
    let count = plan.planned();
    entries.add("transactions", count.map_or(until.into(), grouped));
    if let Load::Open { schedule, .. } = &plan.load {
        let peak = duration.map(|_| schedule.profile().peak().to_string());
        entries.add("peak", peak.unwrap_or_else(|| until.into()));
    }
    let duration = duration.map(|duration| duration.to_string());
    entries.add("duration", duration.unwrap_or_else(|| until.into()));
    entries.add("workload", plan.workload.to_string());
    entries.add("seed", plan.seed.to_string());
    entries.add("target", describe_target(plan));
    let is_query = plan.workload.queries().is_some();
    let prefix = plan.target.facts().method_prefix;
    let prefix = if is_query { "" } else { prefix };
    entries.add("method", format!("{prefix}{}", plan.method_name()));
    match &plan.load {
        Load::Open { schedule, .. } => format!("{}\n{}", entries.text(), chart(schedule.profile())),
        Load::Flood { .. } => entries.text(),
    }
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
pub fn describe_target(plan: &Plan) -> String {
    match &plan.nodes {
        Nodes::BuiltIn {
            transport, node, ..
        } => format!(
            "the built-in {} (a fast fixture, not a consensus engine) over {}, {}",
            node.kind.title(),
            match plan.target.facts().interface {
                Some(interface) => interface.into(),
                None => transport.to_string(),
            },
            connections(plan)
        ),
        Nodes::Endpoints(endpoints) => {
            let names: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
            format!("{}, {} each", names.join(", "), connections(plan))
        }
    }
}

/// How many connections there are, or will be once the round trip is known.
fn connections(plan: &Plan) -> String {
    if plan.connections == plan.most_connections {
        format!("{} connections", plan.connections)
    } else {
        format!(
            "{} to {} connections, as the rate and the round trip need",
            plan.connections, plan.most_connections
        )
    }
}

/// Columns are equal spans of time, each with the mean rate of its span; a profile without an end is
/// drawn over its first [`OPEN_STEPS`] steps.
fn chart(profile: &Profile) -> String {
    let shown = profile.duration().unwrap_or_else(|| {
        let last = profile.iter_steps().take(OPEN_STEPS).last();
        last.and_then(|step| step.end)
            .unwrap_or(Nanos::from_secs(60))
    });
    let bound = |column: u128| {
        let nanos = u128::from(shown.as_nanos()) * column / COLUMNS;
        Nanos::from_nanos(nanos as u64)
    };
    let rates = (0..COLUMNS).map(|column| {
        let (from, to) = (bound(column), bound(column + 1));
        let seconds = to.saturating_sub(from).as_secs_f64();
        let count = profile.integral(to).as_f64() - profile.integral(from).as_f64();
        if seconds > 0.0 { count / seconds } else { 0.0 }
    });
    let open = match profile.duration() {
        Some(_) => "",
        None => " …",
    };
    let rate = |rate: f64| format!("{rate:.0}/s");
    columns(
        &rates.collect::<Vec<_>>(),
        rate,
        "0s",
        &format!("{shown}{open}"),
    )
}

const COLUMNS: u128 = 60;
/// A ramp without an end is drawn this far.
const OPEN_STEPS: usize = 15;
