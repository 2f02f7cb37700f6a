//! What can be checked of texts: queries against the metrics that a program exposes, and the examples of its help against
//! its command line.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Command, CommandFactory, Parser};
use serde_json::Value;

/// The samples of one scrape.
#[derive(Debug, Default)]
pub struct Exposition {
    /// Of each name the label sets.
    series: BTreeMap<String, Vec<BTreeMap<String, String>>>,
}

/// A metric's name in a query, with what is asked of its labels.
#[derive(Debug, PartialEq, Eq)]
struct Selector<'a> {
    /// What stands before it: the name of the function, for instance.
    function: &'a str,
    name: &'a str,
    /// Label, and the values that the matcher names.
    matchers: Vec<(&'a str, Vec<&'a str>)>,
}

/// What Prometheus adds to every sample.
const ADDED: [&str; 2] = ["instance", "job"];

/// What the names of counters, and of a histogram's parts, end with.
const COUNTED: [&str; 4] = ["_total", "_bucket", "_count", "_sum"];

impl Exposition {
    /// Reads a page of `/metrics`.
    pub fn parse(text: &str) -> Self {
        let mut series: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let labels_end = line.rfind('}').map_or(0, |end| end + 1);
            let (head, _) = line.split_at(labels_end.max(line.find(' ').unwrap_or(line.len())));
            for selector in selectors(head, "") {
                let labels = selector.matchers.iter();
                let labels = labels.map(|(label, values)| ((*label).to_owned(), values.join("|")));
                let of_name = series.entry(selector.name.to_owned()).or_default();
                of_name.push(labels.collect());
            }
        }
        Self { series }
    }

    /// What is wrong with a Grafana dashboard: metrics whose names begin with `prefix` and labels and
    /// values that no sample has, rates of what is no counter.
    ///
    /// # Panics
    /// It is no dashboard, or has no queries.
    pub fn complaints_about_dashboard(&self, json: &str, prefix: &str) -> Vec<String> {
        let dashboard: Value = serde_json::from_str(json).expect("a dashboard is JSON");
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let panels = list(&dashboard["panels"]);
        let targets = panels.iter().flat_map(|panel| list(&panel["targets"]));
        let variables = list(&dashboard["templating"]["list"]);
        // A query and what it shows of the labels.
        let queries: Vec<String> = targets
            .map(|target| {
                format!("{} {}", target["expr"], target["legendFormat"]).replace("\\\"", "\"")
            })
            .chain(
                variables
                    .iter()
                    .map(|variable| variable["definition"].to_string()),
            )
            .collect();
        assert!(queries.len() > 10, "there are no queries");
        self.complaints_about(queries.iter().map(String::as_str), prefix)
    }

    /// The same of the alerts in a file of Prometheus' rules.
    ///
    /// # Panics
    /// It has no alerts of that prefix.
    pub fn complaints_about_alerts(&self, yaml: &str, prefix: &str) -> Vec<String> {
        let alerts = yaml.split("- alert: ").skip(1);
        let ours: Vec<&str> = alerts.filter(|alert| alert.contains(prefix)).collect();
        assert!(ours.len() > 2, "there are no alerts of {prefix}");
        self.complaints_about(ours.into_iter(), prefix)
    }

    fn complaints_about<'a>(
        &self,
        queries: impl Iterator<Item = &'a str>,
        prefix: &str,
    ) -> Vec<String> {
        queries
            .flat_map(|query| self.complaints(query, prefix))
            .collect()
    }

    /// The same of one query, which other text may follow.
    fn complaints(&self, query: &str, prefix: &str) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut known: BTreeSet<&str> = ADDED.into();
        for selector in selectors(query, prefix) {
            let name = selector.name;
            let Some(samples) = self.series.get(name) else {
                complaints.push(format!("there is no metric {name}"));
                continue;
            };
            known.extend(samples.iter().flat_map(BTreeMap::keys).map(String::as_str));
            for (label, values) in &selector.matchers {
                complaints.extend(values.iter().filter_map(|value| {
                    let has = |sample: &BTreeMap<String, String>| {
                        sample.get(*label).is_some_and(|own| own == value)
                    };
                    let is_free = ADDED.contains(label) || value.starts_with('$');
                    (!is_free && !samples.iter().any(has))
                        .then(|| format!("no sample of {name} has {label}=\"{value}\""))
                }));
            }
            let is_rate = ["rate", "increase"].contains(&selector.function);
            if is_rate && !COUNTED.iter().any(|end| name.ends_with(end)) {
                complaints.push(format!(
                    "{} of {name}, which is no counter",
                    selector.function
                ));
            }
        }
        let unknown = named_labels(query).filter(|label| !known.contains(label));
        complaints.extend(unknown.map(|label| format!("no metric of the query has {label}")));
        complaints
    }
}

/// The metrics in a text whose names begin with `prefix`.
fn selectors<'a>(text: &'a str, prefix: &str) -> Vec<Selector<'a>> {
    let mut found = Vec::new();
    let (mut rest, mut function) = (text, "");
    while let Some(start) = rest.find(is_of_name) {
        let opens = rest[..start].ends_with('(');
        rest = &rest[start..];
        let (name, after) = rest.split_at(rest.find(|c| !is_of_name(c)).unwrap_or(rest.len()));
        rest = after;
        if name.starts_with(prefix) {
            let labels = after
                .strip_prefix('{')
                .filter(|after| !after.starts_with('{'));
            let labels = labels.and_then(|after| after.split_once('}'));
            if let Some((_, after)) = labels {
                rest = after;
            }
            found.push(Selector {
                function: if opens { function } else { "" },
                name,
                matchers: labels
                    .map(|(inside, _)| matchers(inside))
                    .unwrap_or_default(),
            });
        }
        function = name;
    }
    found
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// `a="x",b=~"y|z"`: the labels and the values that each names.
fn matchers(inside: &str) -> Vec<(&str, Vec<&str>)> {
    let mut parts = inside.split('"');
    let mut found = Vec::new();
    while let (Some(label), Some(value)) = (parts.next(), parts.next()) {
        let label = label.trim_matches(|c| !is_of_name(c));
        found.push((label, value.split('|').collect()));
    }
    found
}

/// The labels that a query groups by, and that its legend or its message shows.
fn named_labels(query: &str) -> impl Iterator<Item = &str> {
    let lists = ["by (", "on ("]
        .into_iter()
        .flat_map(|opening| query.split(opening).skip(1));
    let grouped = lists
        .filter_map(|after| after.split(')').next())
        .flat_map(|list| list.split(','));
    let shown = ["{{", "$labels."]
        .into_iter()
        .flat_map(|opening| query.split(opening).skip(1));
    let shown = shown.filter_map(|after| after.split(|c| !is_of_name(c)).next());
    grouped
        .chain(shown)
        .map(str::trim)
        .filter(|label| !label.is_empty())
}

/// What is wrong with the examples in the help of `C`: each command has two or more, its own name
/// stands in each, and the command line parses.
pub fn complaints_about_examples<C: Parser>() -> Vec<String> {
    examples_of(&C::command(), "")
        .into_iter()
        .flat_map(|(command, examples)| {
            let few = (examples.len() < 2)
                .then(|| format!("{command}: its help begins with no two examples"));
            let wrong = examples.into_iter().filter_map(move |example| {
                if !example.starts_with(&command) {
                    return Some(format!("{command}: {example} is of another command"));
                }
                let parsed = C::try_parse_from(words(&example));
                parsed
                    .err()
                    .map(|error| format!("{example}: {}", error.kind()))
            });
            few.into_iter().chain(wrong).collect::<Vec<_>>()
        })
        .collect()
}

/// The examples at the head of the help of each command that people see, the program's own first.
pub fn examples<C: CommandFactory>() -> Vec<(String, Vec<String>)> {
    examples_of(&C::command(), "")
}

fn examples_of(command: &Command, above: &str) -> Vec<(String, Vec<String>)> {
    let name = format!("{above}{}", command.get_name());
    let head = command
        .get_before_long_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let lines = head.strip_prefix("Examples:\n").unwrap_or_default().lines();
    let own = (
        name.clone(),
        lines.map(|line| line.trim().to_owned()).collect(),
    );
    let below = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set());
    let below = below.flat_map(|below| examples_of(below, &format!("{name} ")));
    std::iter::once(own).chain(below).collect()
}

/// The words of an example, up to where the shell takes over; single quotes keep a word together.
fn words(example: &str) -> Vec<String> {
    let command = [" | ", " > "].iter().fold(example, |rest, shell| {
        rest.split_once(shell).map_or(rest, |(before, _)| before)
    });
    let mut words = Vec::new();
    for (place, part) in command.split('\'').enumerate() {
        match place % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# HELP tide_waves Waves.\n# TYPE tide_waves counter\n\
     tide_waves_total{coast=\"east\",kind=\"high\"} 3\n\
     tide_waves_total{coast=\"west\",kind=\"low\"} 1\n\
     tide_level 0.5\ntide_height_seconds_bucket{le=\"+Inf\"} 4\n# EOF\n";

    fn complaints(query: &str) -> Vec<String> {
        Exposition::parse(PAGE).complaints(query, "tide_")
    }

    #[test]
    fn a_query_of_what_there_is_has_no_complaints() {
        for query in [
            "sum by (coast) (rate(tide_waves_total{instance=~\"$instance\",kind=~\"high\"}[5m])) {{coast}}",
            "tide_level{job=\"x\"} > 0.9 and on (instance) tide_waves_total",
            "histogram_quantile(0.9, sum by (le) (rate(tide_height_seconds_bucket[1m])))",
            "increase(tide_waves_total{coast=~\"east|west\"}[5m]) {{ $labels.coast }} {{ $value }}",
            "label_values(tide_level, instance)",
        ] {
            assert_eq!(complaints(query), Vec::<String>::new(), "{query}");
        }
    }

    #[test]
    fn queries_of_a_dashboard_are_found_in_panels_and_variables() {
        let target = |name: &str| {
            format!(r#"{{"expr": "{name}{{coast=\"east\"}}", "legendFormat": "{{{{coast}}}}"}}"#)
        };
        let good = vec![target("tide_waves_total"); 11].join(",");
        let board = |panels: &str, variable: &str| {
            let text = format!(
                r#"{{"panels": [{{"type": "row"}}, {{"targets": [{panels}]}}],
                "templating": {{"list": [{{"definition": "label_values({variable}, kind)"}}]}}}}"#
            );
            Exposition::parse(PAGE).complaints_about_dashboard(&text, "tide_")
        };
        assert_eq!(board(&good, "tide_level"), Vec::<String>::new());
        assert_eq!(
            board(&good, "tide_levels"),
            ["there is no metric tide_levels"]
        );
        let wrong = format!("{good},{}", target("tide_level"));
        let complaint = "no sample of tide_level has coast=\"east\"";
        assert!(board(&wrong, "tide_level").contains(&complaint.to_owned()));
    }

    #[test]
    fn what_no_sample_has_is_named() {
        for (query, complaint) in [
            (
                "rate(tide_wave_total[1m])",
                "there is no metric tide_wave_total",
            ),
            (
                "tide_waves_total{shore=\"east\"}",
                "no sample of tide_waves_total has shore=\"east\"",
            ),
            (
                "tide_waves_total{coast!=\"north\"}",
                "no sample of tide_waves_total has coast=\"north\"",
            ),
            (
                "tide_waves_total{coast=~\"east|nord\"}",
                "no sample of tide_waves_total has coast=\"nord\"",
            ),
            (
                "sum by (moon) (tide_level)",
                "no metric of the query has moon",
            ),
            ("tide_level {{moon}}", "no metric of the query has moon"),
            (
                "rate(tide_level[1m])",
                "rate of tide_level, which is no counter",
            ),
        ] {
            assert_eq!(complaints(query), [complaint], "{query}");
        }
    }

    #[derive(Debug, Parser)]
    #[command(
        name = "tide",
        before_long_help = "Examples:\n  tide rise --by '3 m'\n  tide fall | less"
    )]
    enum Cli {
        #[command(before_long_help = "Examples:\n  tide rise --by 3m\n  tide rise --height 5")]
        Rise {
            #[arg(long)]
            by: Option<String>,
        },
        #[command(before_long_help = "Examples:\n  tide fall\n  tide rise")]
        Fall,
        Turn,
        #[command(hide = true)]
        Guard,
    }

    #[test]
    fn examples_that_cannot_be_run_and_commands_without_are_named() {
        assert_eq!(
            complaints_about_examples::<Cli>(),
            [
                "tide rise --height 5: unexpected argument found",
                "tide fall: tide rise is of another command",
                "tide turn: its help begins with no two examples",
            ]
        );
    }
}
