//! What of the coordinator's command line and environment is the workers'.

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
}
