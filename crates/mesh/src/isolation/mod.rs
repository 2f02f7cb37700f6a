//! What keeps the nodes of a mesh apart: network namespaces with links of their own, and a share of the
//! CPU each. Everything that was made is taken away again.

mod cgroup;
mod netns;

use std::ffi::OsString;

use super::plan::MeshPlan;
use crate::settings::Isolation;
use cgroup::CpuGroups;
use netns::Namespaces;

/// The rooms that nodes are started in.
pub(crate) struct Rooms {
    namespaces: Option<Namespaces>,
    groups: Option<CpuGroups>,
}

impl Rooms {
    /// Makes what the plan asks for.
    ///
    /// # Errors
    /// Where the system does not let the user do it; what was asked for is never left out silently.
    pub(crate) fn open(plan: &MeshPlan) -> anyhow::Result<Self> {
        let namespaces = match plan.isolation {
            Isolation::Netns => {
                let nodes: Vec<_> = plan
                    .own_nodes()
                    .map(|node| (node, plan.listens(node).0))
                    .collect();
                Some(Namespaces::make(&nodes, plan.link.as_ref())?)
            }
            Isolation::None | Isolation::LoopbackIp => None,
        };
        let groups = plan.cpu_quota.map(CpuGroups::make).transpose()?;
        Ok(Self { namespaces, groups })
    }

    /// What stands before the program of a node; empty for none.
    pub(crate) fn prefix(&self, node: u16) -> Vec<OsString> {
        match &self.namespaces {
            Some(namespaces) => namespaces.prefix(node),
            None => Vec::new(),
        }
    }

    /// Puts a process under its share of the CPU.
    ///
    /// # Errors
    /// Where the system refuses.
    pub(crate) fn admit(&self, pid: u32) -> anyhow::Result<()> {
        match &self.groups {
            Some(groups) => groups.admit(pid),
            None => Ok(()),
        }
    }
}
