//! Every command that loads a target works on every kind of target.
//!
//! What is asserted is that the commands ran and asked the target's own interface, never how fast the
//! node was.

use std::fs;

use chain_bigchaindb::fixture::{API, BigchaindbKind};
use devnode::Blueprint;
use serde_json::Value;

use crate::support::{Ended, Node, Place, RunFolder, quick};

/// A kind of target on a built-in node.
struct Case {
    name: &'static str,
    /// Where it takes transactions.
    endpoints: String,
    _node: Node,
}

impl Case {
    fn cometbft() -> Self {
        let node = Node::start(quick());
        Self {
            name: "cometbft",
            endpoints: node.url(),
            _node: node,
        }
    }

    fn bigchaindb() -> Self {
        let node = Node::start(Blueprint {
            kind: &BigchaindbKind,
            config: quick(),
        });
        Self {
            name: "bigchaindb",
            endpoints: format!("http://{}", node.address(API).unwrap()),
            _node: node,
        }
    }

    fn bitcoin() -> Self {
        let node = crate::bitcoin::node(&Place::new(), |_| ());
        Self {
            name: "bitcoin",
            endpoints: crate::bitcoin::url(&node),
            _node: node,
        }
    }

    /// The flags that name the target and where it is.
    fn flags(&self) -> String {
        format!("--target {} --endpoints {}", self.name, self.endpoints)
    }

    /// The run was recorded on this target, and its books balance.
    fn check_run(&self, run: &RunFolder) {
        run.summary().assert_conserved();
        assert_eq!(run.manifest()["plan"]["target"], self.name);
    }

    fn document(place: &Place, name: &str, ended: &Ended) -> Value {
        let text = fs::read_to_string(place.path().join(name));
        let text = text.unwrap_or_else(|error| panic!("{name}: {error}\n{ended}"));
        serde_json::from_str(&text).unwrap()
    }

    /// A ramp.
    fn ramp(&self) {
        let place = Place::new();
        let ended = place.txgen(&format!(
            "ramp --start 20 --step 20 --every 500ms --to 40 --out ramp {}",
            self.flags()
        ));
        assert_ne!(ended.code, Some(2), "{ended}");
        self.check_run(&place.run("ramp"));
    }

    /// A search of a kind.
    fn search(&self, rates: &str) {
        let place = Place::new();
        let ended = place.txgen(&format!(
            "search {rates} --duration 1s --out search {}",
            self.flags()
        ));
        self.check_points(&place, "search", &ended);
    }

    fn campaign(&self) {
        let place = Place::new();
        place.write("campaign.toml", CAMPAIGN);
        let ended = place.txgen(&format!(
            "run campaign.toml --no-tui --out campaign {}",
            self.flags()
        ));
        let account = Self::document(&place, "campaign/campaign.json", &ended);
        assert_eq!(account["state"], "done", "{ended}");
        for run in account["runs"].as_array().unwrap() {
            let folder = run["folder"].as_str().unwrap();
            self.check_run(&place.run(&format!("campaign/{folder}")));
        }
        // Between runs the nodes were asked what they hold, in a way that they answer.
        assert!(!ended.to_string().contains("not at rest"), "{ended}");
    }

    /// Without endpoints the node that the target needs is started.
    fn starts_its_node(place: &Place, target: &str) {
        let ended = place.txgen(&format!(
            "search --target {target} --rates 20 --duration 1s --out search"
        ));
        let account = Self::document(place, "search/search.json", &ended);
        let folder = account["points"][0]["folder"].as_str().unwrap();
        let run = place.run(&format!("search/{folder}"));
        assert_eq!(run.manifest()["plan"]["target"], target, "{ended}");
        assert_eq!(account["points"][0]["recovered"], true, "{ended}");
    }

    fn check_points(&self, place: &Place, name: &str, ended: &Ended) {
        let account = Self::document(place, &format!("{name}/search.json"), ended);
        let points = account["points"].as_array().unwrap();
        assert!(!points.is_empty(), "{ended}");
        for point in points {
            assert_eq!(point["recovered"], true, "{ended}");
            let folder = point["folder"].as_str().unwrap();
            self.check_run(&place.run(&format!("{name}/{folder}")));
        }
        let end = account["ended"].as_str().unwrap();
        assert!(
            !["not_recovered", "failed", "running"].contains(&end),
            "{ended}"
        );
    }
}

const CAMPAIGN: &str = r#"
name = "two runs on one target"
[[phases]]
profile = "constant"
rate = "20/s"
duration = "500ms"
[campaign]
repeats = 2
[node]
kind = "endpoints"
"#;

/// A module for each kind of target, with a test for each command.
macro_rules! every_command_loads {
    ($($target:ident),*) => {
        $(
            mod $target {
                use super::{Case, Place};

                #[test]
                fn a_ramp_loads_it() {
                    Case::$target().ramp();
                }

                #[test]
                fn a_list_of_rates_loads_it() {
                    Case::$target().search("--rates 20,40");
                }

                #[test]
                fn a_search_loads_it() {
                    Case::$target().search("--from 20 --max 40 --min 10 --time-limit 5s");
                }

                #[test]
                fn a_campaign_loads_it() {
                    Case::$target().campaign();
                }

                #[test]
                fn its_node_is_started_where_none_is_named() {
                    Case::starts_its_node(&Place::new(), stringify!($target));
                }
            }
        )*
    };
}

every_command_loads!(cometbft, bigchaindb, bitcoin);
