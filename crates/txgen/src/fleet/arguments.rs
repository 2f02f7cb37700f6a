//! What of the coordinator's command line and environment is the workers'.

use harness::StartAt;

/// The command line without what only the coordinator has: who works, where the whole is written and shown.
pub(super) fn of_load(arguments: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let (name, value) = match argument.split_once('=') {
            Some((name, _)) => (name, true),
            None => (argument.as_str(), false),
        };
        if OWN.contains(&name) {
            if !value {
                arguments.next();
            }
        } else if argument.starts_with("-o") {
            if argument == "-o" {
                arguments.next();
            }
        } else if argument != "--no-tui" {
            kept.push(argument);
        }
    }
    kept
}

/// The command line of the worker that sends this part and starts at this instant.
pub(super) fn of_worker(given: &[String], shard: &str, seed: u64, start: StartAt) -> Vec<String> {
    let own = [
        format!("--shard={shard}"),
        format!("--seed={seed}"),
        format!("--start-at={start}"),
        "--report-interval=500ms".to_owned(),
        "--no-tui".to_owned(),
    ];
    given.iter().cloned().chain(own).collect()
}

/// The coordinator's variables: what they set is part of the load.
pub(super) fn environment() -> Vec<(String, String)> {
    let variables = std::env::vars();
    variables
        .filter(|(name, _)| name.starts_with(PREFIX) && name != "TXGEN_NATS")
        .collect()
}

/// Of the variables that are flags.
pub(super) const PREFIX: &str = "TXGEN_";

/// Flags with a value that stay here, or that each worker gets its own of.
const OWN: [&str; 9] = [
    "--workers",
    "--nats",
    "--out",
    "--seed",
    "--start-at",
    "--report-interval",
    "--metrics",
    "--ci",
    "--profile-pid",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_coordinator_s_own_stays_there() {
        let line = "constant --rate 100/s --workers 3 --nats=nats://127.0.0.1:4222 -o whole -oother --out=x --seed 7 \
                    --no-tui --metrics 9100 --endpoints http://127.0.0.1:26657 --size=250";
        let kept = of_load(line.split_whitespace().map(str::to_owned));
        assert_eq!(
            kept.join(" "),
            "constant --rate 100/s --endpoints http://127.0.0.1:26657 --size=250"
        );
    }

    #[test]
    fn a_worker_reads_its_part_and_the_common_start_by_its_own_clock() {
        for ahead_ns in [0, 200_000_000, -7] {
            let start = StartAt::new(1_795_293_000_000_000_000, ahead_ns);
            let line = of_worker(&["constant".to_owned()], "2/3", 7, start);
            let line = line.into_iter().map(|argument| argument.replace('=', " "));
            let line = line.collect::<Vec<_>>().join(" ");
            let words: Vec<&str> = line.split(' ').collect();
            let value = |flag| words[words.iter().position(|word| *word == flag).unwrap() + 1];
            assert_eq!(
                (words[0], value("--shard"), value("--seed")),
                ("constant", "2/3", "7")
            );
            assert_eq!(value("--start-at").parse(), Ok(start));
        }
    }
}
