//! What the program prints fits a terminal of 80 columns: tables shrink their widest column, and text goes on
//! below.

use crate::support::{Behaviour, FakeNode, Node, Place};

#[test]
fn what_commands_print_fits_80_columns() {
    let place = Place::new();
    let node = Node::quick();
    let url = node.url();
    place.write(
        "sweep.toml",
        "name = \"sweep\"\n[[phases]]\nprofile = \"constant\"\nrate = \"50/s\"\nduration = \"300ms\"\n\
         [campaign]\nrepeats = 2\n[[matrix]]\nkey = \"settings.connections\"\nvalues = [1, 2]\n\
         [node.builtin]\nblock_interval = \"50ms\"\n",
    );
    for line in [
        "constant --rate 50/s --duration 300ms --at-max-in-flight wait --broadcast-tx-method commit --out one",
        "ramp --start 20/s --step 20/s --every 500ms --to 60/s --threshold commit.p99<1us --out ramp",
        "square --rate 50/s --on 200ms --off 100ms --cycles 2 --reconnect --dry-run",
        "flood --concurrency 4 --count 40 --out flood",
        "search --rates 50 --duration 1s --slo commit.p99<1us --out scan",
        "search --from 50 --max 100 --dry-run",
        "run sweep.toml --dry-run",
        "compare one ramp",
        "compare one flood ramp --fail-on-regression 5%",
        "analyse ramp",
    ] {
        let ended = place.txgen(&format!("{line}{}", endpoints(line, &url)));
        assert_ne!(ended.code, Some(2), "{line}\n{ended}");
        ended.fits_a_terminal();
    }
}

/// Where to send, for what sends.
fn endpoints(line: &str, url: &str) -> String {
    let sends = ["constant", "ramp", "flood", "search --rates"];
    match sends.iter().any(|command| line.starts_with(command)) {
        true => format!(" --endpoints {url}"),
        false => String::new(),
    }
}

/// The words of a node that refuses or breaks are as long as it likes.
#[test]
fn what_is_said_of_a_bad_node_fits_80_columns() {
    for behaviour in [Behaviour::Reject(7), Behaviour::Html, Behaviour::Close] {
        let node = FakeNode::always(behaviour);
        let place = Place::new();
        let ended = place.txgen(&format!(
            "constant --rate 50/s --duration 300ms -c 2 --no-follow --answer-timeout 200ms --drain-timeout 300ms \
             --out run --endpoints {}",
            node.url()
        ));
        ended.fits_a_terminal();
    }
}
