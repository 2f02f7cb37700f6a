//! A network namespace for each node, all on one bridge, their links shaped by netem.

use std::ffi::OsString;
use std::net::IpAddr;
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::settings::LinkShape;

/// Namespaces, their links and their bridge. Dropping takes them away.
pub(super) struct Namespaces {
    /// Unique to this process.
    name: String,
    nodes: Vec<u16>,
}

impl Namespaces {
    pub(super) fn make(nodes: &[(u16, IpAddr)], shape: Option<&LinkShape>) -> anyhow::Result<Self> {
        let mut made = Self {
            name: format!("txg{}", std::process::id()),
            nodes: Vec::new(),
        };
        ip(&["link", "add", &made.bridge(), "type", "bridge"]).context(
            "--isolation netns needs the right to make network namespaces (root); without it use \
             --isolation loopback-ip",
        )?;
        ip(&["link", "set", &made.bridge(), "up"])?;
        for (node, address) in nodes {
            made.nodes.push(*node);
            made.add(*node, *address)?;
            if let Some(shape) = shape {
                made.shape(*node, shape)?;
            }
        }
        Ok(made)
    }

    pub(super) fn prefix(&self, node: u16) -> Vec<OsString> {
        ["ip", "netns", "exec", &self.namespace(node)]
            .map(OsString::from)
            .into()
    }

    fn add(&self, node: u16, address: IpAddr) -> anyhow::Result<()> {
        let (space, outer, bridge) = (self.namespace(node), self.outer(node), self.bridge());
        let address = format!("{address}/16");
        ip(&["netns", "add", &space])?;
        ip(&[
            "link", "add", &outer, "type", "veth", "peer", "name", "eth0", "netns", &space,
        ])?;
        ip(&["link", "set", &outer, "master", &bridge, "up"])?;
        ip(&["-n", &space, "addr", "add", &address, "dev", "eth0"])?;
        ip(&["-n", &space, "link", "set", "eth0", "up"])?;
        ip(&["-n", &space, "link", "set", "lo", "up"])
    }

    /// Both directions have the rate; delay and loss are those of what leaves the node.
    fn shape(&self, node: u16, shape: &LinkShape) -> anyhow::Result<()> {
        let (space, outer) = (self.namespace(node), self.outer(node));
        let qdisc = |dev: &[&str], shape: &LinkShape| {
            let line: Vec<String> = discipline(shape);
            let mut arguments = dev.to_vec();
            arguments.extend(line.iter().map(String::as_str));
            tc(&arguments)
        };
        let inside = ["-n", &space, "qdisc", "add", "dev", "eth0", "root"];
        qdisc(&inside, shape).context(
            "--link needs the kernel's netem (sch_netem), for a rate alone its tbf (sch_tbf), and the right to \
             use it; leave --link out, or load the module",
        )?;
        let back = LinkShape {
            delay: None,
            loss: None,
            ..*shape
        };
        match back.rate_bits {
            Some(_) => qdisc(&["qdisc", "add", "dev", &outer, "root"], &back),
            None => Ok(()),
        }
    }

    fn bridge(&self) -> String {
        format!("{}b", self.name)
    }

    fn namespace(&self, node: u16) -> String {
        format!("{}n{node}", self.name)
    }

    /// The end of a node's link that is on the bridge; names have 15 characters at most.
    fn outer(&self, node: u16) -> String {
        format!("{}v{node}", self.name)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for node in &self.nodes {
            // With the namespace goes its link; what was never made cannot be taken away.
            let _ = ip(&["netns", "del", &self.namespace(*node)]);
        }
        let _ = ip(&["link", "del", &self.bridge()]);
    }
}

/// A rate alone is shaped by a token bucket, which more kernels have than netem.
fn discipline(shape: &LinkShape) -> Vec<String> {
    let rate = shape.rate_bits.map(|bits| format!("{bits}bit"));
    if let (Some(rate), None, None) = (&rate, shape.delay, shape.loss) {
        let bucket = ["tbf", "burst", BUCKET, "limit", BYTES_WAITING, "rate", rate];
        return bucket.map(str::to_owned).into();
    }
    let delay = shape.delay.map(|delay| format!("{}us", delay.as_micros()));
    let loss = shape.loss.map(|loss| format!("{}%", loss * 100.0));
    let mut netem = ["netem", "limit", PACKETS_WAITING]
        .map(str::to_owned)
        .to_vec();
    for (name, value) in [("rate", rate), ("delay", delay), ("loss", loss)] {
        netem.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
    }
    netem
}

fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    run("ip", arguments)
}

fn tc(arguments: &[&str]) -> anyhow::Result<()> {
    run("tc", arguments)
}

fn run(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let line = || format!("{program} {}", arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run {program} (of the package iproute2)"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("{} says: {}", line(), words.trim());
    }
    Ok(())
}

/// The kernel's default of 1,000 would drop packets of a fast link with a long delay.
const PACKETS_WAITING: &str = "20000";
/// The same in bytes, of packets of one MTU.
const BYTES_WAITING: &str = "30000000";
/// What may leave at once: what the kernel's largest packet has (64 KiB).
const BUCKET: &str = "65536";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_alone_needs_no_netem() {
        let line = |link: &str| discipline(&link.parse().unwrap()).join(" ");
        assert_eq!(
            line("30mbit"),
            "tbf burst 65536 limit 30000000 rate 30000000bit"
        );
        assert_eq!(
            line("30mbit,40ms,0.1%"),
            "netem limit 20000 rate 30000000bit delay 40000us loss 0.1%"
        );
        assert_eq!(line("40ms"), "netem limit 20000 delay 40000us");
    }
}
