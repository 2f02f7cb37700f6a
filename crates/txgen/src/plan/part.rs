//! Which part of the load one of several generators sends.

use chain::Workload;

use super::error::PlanError;
use super::load::Load;
use super::nodes::Nodes;
use crate::part::Part;
use crate::settings::Settings;

/// One of several generators must make the same plan as the others.
pub(super) fn resolve(
    settings: &Settings,
    load: &Load,
    nodes: &Nodes,
    workload: &dyn Workload,
) -> Result<Part, PlanError> {
    let part = settings.shard.unwrap_or_default();
    if part.is_whole() {
        return Ok(part);
    }
    let endless = matches!(
        load,
        Load::Open {
            stop_when_saturated: true,
            ..
        }
    );
    let obstacle = if matches!(load, Load::Flood { .. }) {
        "divides a schedule, and a flood has none; give each flood its own --count"
    } else if endless {
        "needs a load that ends at the same time for all generators; give the ramp a --to"
    } else if matches!(nodes, Nodes::BuiltIn { .. }) {
        "needs --endpoints: each generator would load a built-in node of its own"
    } else if workload.preparation().is_some() {
        "divides transactions that stand alone; these spend outputs that one generator has to make first"
    } else if settings.seed.is_none() {
        "needs --seed, the same for all generators, or their plans differ"
    } else {
        return Ok(part);
    };
    Err(PlanError::of("--shard", obstacle))
}
