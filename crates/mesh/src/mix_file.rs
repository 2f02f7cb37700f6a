//! Mix files: the traffic of an application as TOML.

use std::fs;
use std::num::NonZeroU32;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use gossip::app::{Fan, Kind, KindId, Mix, Periodic, Request, Transaction};
use harness::text;
use harness::toml_errors::{point_at, with_suggestion};
use pacing::Nanos;
use serde::Deserialize;
use servers::nearest;
use toml::Spanned;

/// The traffic of the load generator of 2020, as its program made it.
pub(crate) const APP: &str = include_str!("../../../config/mesh/mix-app.toml");
/// The same, as the article describes it.
pub(crate) const ARTICLE: &str = include_str!("../../../config/mesh/mix-article.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MixFile {
    name: String,
    messages: Vec<MessageTable>,
    transactions: Vec<TransactionTable>,
    #[serde(default)]
    requests: Vec<RequestTable>,
    #[serde(default)]
    periodic: Vec<PeriodicTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct MessageTable {
    name: String,
    r#type: u8,
    size: usize,
    #[serde(default)]
    first: First,
    #[serde(default = "yes")]
    relay: bool,
    answer: Option<Spanned<String>>,
    #[serde(default = "always")]
    answer_probability: f64,
    #[serde(default)]
    transactions: u32,
    #[serde(default)]
    entries: u32,
}

#[derive(Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum First {
    #[default]
    One,
    All,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TransactionTable {
    name: String,
    weight: f64,
    messages: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestTable {
    on: Spanned<String>,
    message: Spanned<String>,
    #[serde(default = "always")]
    probability: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PeriodicTable {
    messages: Vec<Spanned<String>>,
    #[serde(with = "text::value")]
    every: Nanos,
    #[serde(default = "one")]
    senders: u32,
    #[serde(default)]
    at_once: bool,
    instead: Option<InsteadTable>,
    #[serde(default = "always")]
    probability: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct InsteadTable {
    every_nth: NonZeroU32,
    messages: Vec<Spanned<String>>,
}

const fn yes() -> bool {
    true
}

const fn always() -> f64 {
    1.0
}

const fn one() -> u32 {
    1
}

/// The text of a mix: `app` and `article` are built in, everything else is a file.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn text_of(name: &str) -> anyhow::Result<String> {
    match name {
        "app" => Ok(APP.into()),
        "article" => Ok(ARTICLE.into()),
        path => fs::read_to_string(Path::new(path)).with_context(|| {
            format!("cannot read the mix {path}; give a file, or one of: app, article")
        }),
    }
}

/// A mix from its text; `origin` is what messages call it.
///
/// # Errors
/// With the place in the file, and with the name that was probably meant.
pub(crate) fn parse(text: &str, origin: &str) -> anyhow::Result<Mix> {
    let file: MixFile = toml::from_str(text)
        .map_err(|error| anyhow!("{origin}: {}", with_suggestion(&error.to_string(), &[])))?;
    let names = Names {
        text,
        names: file.messages.iter().map(|it| it.name.as_str()).collect(),
    };
    mix(&file, &names).with_context(|| format!("in the mix {origin}"))
}

fn mix(file: &MixFile, names: &Names<'_>) -> anyhow::Result<Mix> {
    let kinds = file.messages.iter().map(|message| kind(message, names));
    let transactions = file.transactions.iter().map(|transaction| {
        Ok(Transaction {
            name: transaction.name.clone(),
            weight: transaction.weight,
            messages: names.all(&transaction.messages)?,
        })
    });
    let periodic = file.periodic.iter().map(|periodic| {
        let instead = periodic.instead.as_ref();
        let instead = instead.map(|it| anyhow::Ok((it.every_nth, names.all(&it.messages)?)));
        Ok(Periodic {
            at_once: periodic.at_once,
            instead: instead.transpose()?,
            messages: names.all(&periodic.messages)?,
            every: periodic.every,
            senders: periodic.senders,
            probability: periodic.probability,
        })
    });
    let requests = file.requests.iter().map(|request| {
        Ok(Request {
            on: names.id(&request.on)?,
            message: names.id(&request.message)?,
            probability: request.probability,
        })
    });
    Ok(Mix::new(
        &file.name,
        kinds.collect::<anyhow::Result<_>>()?,
        transactions.collect::<anyhow::Result<_>>()?,
        periodic.collect::<anyhow::Result<_>>()?,
        requests.collect::<anyhow::Result<_>>()?,
    )?)
}

fn kind(message: &MessageTable, names: &Names<'_>) -> anyhow::Result<Kind> {
    let answer = message.answer.as_ref();
    let answer = answer.map(|name| names.id(name)).transpose()?;
    Ok(Kind {
        name: message.name.clone(),
        tag: message.r#type,
        size: message.size,
        fan: match message.first {
            First::One => Fan::One,
            First::All => Fan::All,
        },
        relay: message.relay,
        answer: answer.map(|answer| (answer, message.answer_probability)),
        transactions: message.transactions,
        entries: message.entries,
    })
}

/// The names of all messages, and the text in which they are looked for.
struct Names<'a> {
    text: &'a str,
    names: Vec<&'a str>,
}

impl Names<'_> {
    fn id(&self, name: &Spanned<String>) -> anyhow::Result<KindId> {
        let wanted = name.get_ref().as_str();
        let place = self.names.iter().position(|known| *known == wanted);
        place.map(Mix::id).ok_or_else(|| {
            let hint = match nearest(wanted, self.names.iter().copied()) {
                Some(near) => format!("; did you mean `{near}`?"),
                None => format!("; there are: {}", self.names.join(", ")),
            };
            let message = format!("there is no message `{wanted}`{hint}");
            anyhow!("{}", point_at(self.text, name.span(), &message))
        })
    }

    fn all(&self, names: &[Spanned<String>]) -> anyhow::Result<Vec<KindId>> {
        names.iter().map(|name| self.id(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        format!("{:#}", parse(text, "mix.toml").unwrap_err())
    }

    #[test]
    fn the_built_in_mixes_are_those_of_the_published_study() {
        let app = parse(APP, "app").unwrap();
        assert!((app.entries_per_transaction() - 1.0).abs() < 1e-12);
        let weights: f64 = app.transactions().iter().map(|it| it.weight).sum();
        assert!((weights - 1.0).abs() < 1e-12);
        let of = |mix: &Mix, name: &str| {
            let mut kinds = mix.kinds();
            kinds.find(|(_, kind)| kind.name == name).unwrap().1.clone()
        };
        assert!(of(&app, "missing-request").relay);
        let article = parse(ARTICLE, "article").unwrap();
        assert!(!of(&article, "missing-request").relay);
        assert_eq!(
            article.periodic()[0].messages.len(),
            2,
            "an EOM and its ACK"
        );
        for mix in [&app, &article] {
            let minute = &mix.periodic()[0];
            let (every, instead) = minute.instead.as_ref().unwrap();
            assert!(minute.at_once && every.get() == 10);
            assert_eq!(mix.kind(instead[0]).name, "dbsig");
        }
        assert_eq!(of(&app, "dbstate-request").size, gossip::app::STAMP_BYTES);
    }

    #[test]
    fn a_mistyped_key_is_named_with_its_line_and_the_nearest_key() {
        let text = APP.replacen("size = 179", "sizze = 179", 1);
        let message = problem(&text);
        assert!(message.contains("unknown field `sizze`"), "{message}");
        assert!(message.contains("did you mean `size`?"), "{message}");
        assert!(message.contains("line "), "{message}");
    }

    #[test]
    fn a_mistyped_message_is_named_with_its_line_and_the_nearest_message() {
        let text = APP.replacen("on = \"ack\"", "on = \"akc\"", 1);
        let line = 1 + text.lines().position(|line| line.contains("akc")).unwrap();
        let message = problem(&text);
        assert!(message.contains(&format!("line {line},")), "{message}");
        assert!(message.contains("did you mean `ack`?"), "{message}");
    }

    #[test]
    fn a_mix_that_would_answer_for_ever_or_tells_no_types_apart_is_refused() {
        let endless = APP.replacen("size = 538\nrelay = false", "size = 538\nrelay = true", 1);
        assert!(
            problem(&endless).contains("would never end"),
            "{}",
            problem(&endless)
        );
        let twice = APP.replacen("type = 2", "type = 1", 1);
        assert!(
            problem(&twice).contains("both have type 1"),
            "{}",
            problem(&twice)
        );
        let likely = APP.replacen("probability = 0.7008", "probability = 1.7", 1);
        assert!(problem(&likely).contains("1.7 is not between 0 and 1"));
    }
}
