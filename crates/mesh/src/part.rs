//! A mesh over several machines: each machine records what its nodes counted, and `txmesh merge` makes one run of all
//! records. A record alone has no summary: it does not show what became of a message that went to another machine.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail, ensure};
use harness::{RunFolder, whole};
use measure::{ShardName, check_shards};
use serde::{Deserialize, Serialize};

use super::account::{Account, PlayedMesh};
use super::control::NodeMessage;
use super::crew::MachineSecond;
use super::plan::{MeshPlan, PlanDocument};

/// The record, a JSON document on each line.
const FILE: &str = "part.jsonl";
const FORMAT: &str = "tidegate.mesh-part/2";

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// A message of a node.
    Node {
        node: u16,
        message: Box<NodeMessage>,
    },
    /// A node ended before it was asked to.
    Ended { node: u16, at_s: f64 },
    /// A second of the machine.
    Machine(MachineSecond),
    /// The last line.
    End(Box<End>),
}

/// What was played, and how it ended.
#[derive(Debug, Serialize, Deserialize)]
struct End {
    format: String,
    /// Which of the machines, as `I/N`.
    shard: String,
    plan: PlanDocument,
    origin_unix_ns: u64,
    interrupted: bool,
    undrained: Option<String>,
}

/// The file while the load goes on.
pub(crate) struct PartFile {
    file: BufWriter<File>,
    /// The first error; what comes after it is left out.
    trouble: Option<std::io::Error>,
}

impl PartFile {
    /// Opens it in the run's folder.
    pub(crate) fn create(folder: &RunFolder) -> anyhow::Result<Self> {
        Ok(Self {
            file: BufWriter::new(folder.open(FILE)?),
            trouble: None,
        })
    }

    /// Records a message of a node, if it is part of the account.
    pub(crate) fn message(&mut self, node: u16, message: &NodeMessage) {
        if matches!(message, NodeMessage::Row(_) | NodeMessage::Done { .. }) {
            let message = Box::new(message.clone());
            self.line(&Line::Node { node, message });
        }
    }

    fn line(&mut self, line: &Line) {
        if self.trouble.is_none() {
            let written = serde_json::to_writer(&mut self.file, line).map_err(Into::into);
            let written = written.and_then(|()| self.file.write_all(b"\n"));
            self.trouble = written.err();
        }
    }

    /// Writes the rest, when the run is over.
    ///
    /// # Errors
    /// Where the file could not be written whole.
    pub(crate) fn end(mut self, plan: &MeshPlan, played: &PlayedMesh) -> anyhow::Result<()> {
        for (node, account) in (0..).zip(&played.account.nodes) {
            if let Some(at_s) = account.ended_s {
                self.line(&Line::Ended { node, at_s });
            }
        }
        for second in &played.account.machine {
            self.line(&Line::Machine(*second));
        }
        self.line(&Line::End(Box::new(End {
            format: FORMAT.into(),
            shard: plan.part.unwrap_or_default().to_string(),
            plan: plan.document.clone(),
            origin_unix_ns: played.origin_unix_ns,
            interrupted: played.interrupted,
            undrained: played.undrained.clone(),
        })));
        let trouble = self.trouble.take();
        let ended = trouble.map_or_else(|| self.file.flush(), Err);
        whole(ended, FILE)
    }
}

/// Makes one run of the records of all machines: the plan of the whole, and what was played.
///
/// # Errors
/// Where a folder has no record, or they are not all the parts of one load.
pub(crate) fn merge(folders: &[PathBuf]) -> anyhow::Result<(MeshPlan, PlayedMesh)> {
    let ends = folders.iter().map(|folder| end_of(folder));
    let ends: Vec<End> = ends.collect::<anyhow::Result<_>>()?;
    check_parts(&ends, folders)?;
    let plan = MeshPlan::of_document(ends[0].plan.clone())?;
    let mut account = Account::new(plan.document.nodes, plan.schedule.clone());
    let nodes = plan.document.nodes;
    for folder in folders {
        each_line(folder, |line| match line {
            Line::Node { node, message } if node < nodes => account.message(node, *message),
            Line::Ended { node, at_s } if node < nodes => {
                account.nodes[usize::from(node)].ended_s = Some(at_s);
            }
            Line::Machine(second) => account.machine.push(second),
            Line::Node { .. } | Line::Ended { .. } | Line::End(_) => {}
        })?;
    }
    keep_busiest(&mut account.machine);
    let undrained: Vec<&str> = ends
        .iter()
        .filter_map(|it| it.undrained.as_deref())
        .collect();
    let played = PlayedMesh {
        account,
        origin_unix_ns: ends[0].origin_unix_ns,
        interrupted: ends.iter().any(|end| end.interrupted),
        undrained: (!undrained.is_empty()).then(|| undrained.join("; ")),
    };
    Ok((plan, played))
}

/// Keeps for each second that of the machine that had the least to spare: it holds the mesh back.
fn keep_busiest(seconds: &mut Vec<MachineSecond>) {
    let spare = |it: &MachineSecond| (it.cpus - it.busy - it.stolen) / it.cpus;
    seconds.sort_by(|a, b| a.second.cmp(&b.second).then(spare(a).total_cmp(&spare(b))));
    seconds.dedup_by_key(|it| it.second);
}

fn end_of(folder: &Path) -> anyhow::Result<End> {
    let mut end = None;
    each_line(folder, |line| {
        if let Line::End(it) = line {
            end = Some(*it);
        }
    })?;
    end.ok_or_else(|| {
        anyhow!(
            "the run in {} was killed before it ended: its record is not whole",
            folder.display()
        )
    })
}

fn each_line(folder: &Path, mut take: impl FnMut(Line)) -> anyhow::Result<()> {
    let path = folder.join(FILE);
    let file = File::open(&path).with_context(|| {
        format!(
            "{} is no part of a mesh over several machines: it has no {FILE}",
            folder.display()
        )
    })?;
    for (number, line) in (1..).zip(BufReader::new(file).lines()) {
        let line = line.with_context(|| path.display().to_string())?;
        // The last line of a run that was killed is torn.
        match serde_json::from_str(&line) {
            Ok(line) => take(line),
            Err(error) if error.is_eof() => {}
            Err(error) => bail!("{}, line {number}: {error}", path.display()),
        }
    }
    Ok(())
}

/// Refuses records that are not those of all machines of one load.
fn check_parts(ends: &[End], folders: &[PathBuf]) -> anyhow::Result<()> {
    let first = ends.first().context("name the folders of all machines")?;
    for (end, folder) in ends.iter().zip(folders) {
        ensure!(
            end.format == FORMAT,
            "{} has the format {}, and this txmesh reads {FORMAT}",
            folder.display(),
            end.format
        );
        ensure!(
            (&end.plan, end.origin_unix_ns) == (&first.plan, first.origin_unix_ns),
            "{} and {} are not of the same load: give the same line on each machine, but for --shard",
            folders[0].display(),
            folder.display()
        );
    }
    let parts = folders.iter().zip(ends).map(|(folder, end)| {
        let shard = end.shard.parse().map_err(|error: String| anyhow!(error))?;
        Ok((folder.display().to_string(), shard))
    });
    let parts: Vec<(String, ShardName)> = parts.collect::<anyhow::Result<_>>()?;
    Ok(check_shards(&parts)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_second_the_machine_with_the_least_to_spare_is_kept() {
        let machine = |second, busy, cpus| MachineSecond {
            second,
            busy,
            stolen: 0.0,
            cpus,
        };
        let mut all = vec![
            machine(0, 3.0, 8.0),
            machine(1, 1.0, 8.0),
            machine(0, 1.9, 2.0),
            machine(1, 0.1, 2.0),
        ];
        keep_busiest(&mut all);
        let busiest: Vec<(u64, f64)> = all.iter().map(|it| (it.second, it.busy)).collect();
        assert_eq!(busiest, [(0, 1.9), (1, 1.0)]);
    }
}
