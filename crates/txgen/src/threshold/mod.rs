//! Conditions on `summary.json`: `commit.p99<5s`, `failed.share<0.5%`, `fate.errors==0`.

mod metric;
mod schema;

use std::fmt;
use std::str::FromStr;

use report::text::{grouped, percent_tenths};
use serde_json::Value;

use self::metric::{Measured, Metric};
use self::schema::{Comparison, Unit};

/// One condition, checked when the run has ended.
///
/// The left side is a path into `summary.json` or a short name: `lateness.X`, `accept.X` (response
/// time), `service.X`, `commit.X` (from due; the first and the last of everything that was offered: what was refused,
/// or failed in its block, never ended) for the latencies with `X` one of `p50 p68 p95 p99 p99_7
/// max mean`, and `failed.share` (what failed in any way as a share of planned: unsent, rejected, without
/// a usable answer, failed in its block; what is unanswered, pending or in a block without results at the
/// end may have failed, too; `rate.error` is its earlier name). The right side is a number in the unit of the left one: a duration
/// (`5s`, `250ms`, `80us`), a rate (`500/s`), a percentage (`0.5%`), or a count without a unit.
///
/// A condition that every value fulfils, or none, is refused: `failed.share<101%`, `fate.errors>=0`.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    text: String,
    metric: Metric,
    unit: Unit,
    comparison: Comparison,
    limit: f64,
}

/// What a threshold came to.
#[derive(Debug, Clone, PartialEq)]
pub struct ThresholdVerdict {
    /// The condition as it was written.
    pub text: String,
    /// The measured value in the unit of `summary.json`, or its lower bound; `None` when the run has
    /// none.
    pub value: Option<f64>,
    /// Whether the condition held, whatever the unfinished transactions come to. A missing value never
    /// holds.
    pub held: bool,
    /// Whether it is broken, whatever they come to. A missing value never breaks.
    pub broken: bool,
    /// Whether the generator's own lateness leaves open which of the two it is: the machine was too busy to decide.
    pub unresolved: bool,
    unit: Unit,
    measured: Option<Measured>,
}

impl ThresholdVerdict {
    /// The value in words, with its unit.
    pub fn value_text(&self) -> String {
        let Some(measured) = self.measured else {
            return "no value".into();
        };
        let value = self.unit.text(measured.value);
        if let Some(share) = measured.never {
            let never = format!("{} refused or failed", percent_tenths(share));
            return if measured.value.is_finite() {
                format!("{value}, {never}")
            } else {
                format!("never: {never}")
            };
        }
        if let Some(lowest) = measured.without_own {
            let lowest = self.unit.text(lowest);
            return format!("{lowest} to {value}, which is the generator's own lateness in part");
        }
        match measured.unfinished {
            None => value,
            Some(unfinished) => format!(">= {value}, {} unfinished", grouped(unfinished)),
        }
    }
}

/// A condition that a good node keeps: one that only a bad one fulfils is refused, as its signs are the wrong way round.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept(pub Threshold);

impl FromStr for Kept {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let threshold: Threshold = text.parse()?;
        let wrong = match threshold.metric.is_worse_when_more() {
            Some(true) => [Comparison::Greater, Comparison::GreaterOrEqual],
            Some(false) => [Comparison::Less, Comparison::LessOrEqual],
            None => return Ok(Self(threshold)),
        };
        if wrong.contains(&threshold.comparison) {
            let turned = text.replace('<', "\0").replace('>', "<").replace('\0', ">");
            return Err(format!(
                "{text:?} holds only while it is bad, and the condition says what is kept; write '{turned}'"
            ));
        }
        Ok(Self(threshold))
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Threshold {
    /// Checks the condition on a `summary.json` document.
    pub fn check(&self, summary: &Value) -> ThresholdVerdict {
        let measured = self.metric.measure(summary);
        let settled = |range: Option<(f64, f64)>| {
            [self.comparison, self.comparison.opposite()]
                .map(|it| range.is_some_and(|range| it.holds(range, self.limit)))
        };
        let as_seen = settled(measured.map(|it| (it.value, it.at_most)));
        let lowest = |it: Measured| it.without_own.unwrap_or(it.value);
        let [held, broken] = settled(measured.map(|it| (lowest(it), it.at_most)));
        ThresholdVerdict {
            text: self.text.clone(),
            value: measured.map(|it| it.value),
            held,
            broken,
            unresolved: !held && !broken && as_seen.contains(&true),
            unit: self.unit,
            measured,
        }
    }

    /// Whether a part of a load can show that it is broken.
    #[cfg(feature = "fleet")]
    pub(crate) fn is_of_any_part(&self) -> bool {
        self.metric.is_of_any_part(self.limit)
    }

    /// Whether its value is known from blocks only.
    pub(crate) fn needs_blocks(&self) -> bool {
        self.metric.needs_blocks()
    }
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (metric, comparison, limit) = Comparison::ALL
            .into_iter()
            .find_map(|(sign, comparison)| {
                let (metric, limit) = text.split_once(sign)?;
                Some((metric.trim(), comparison, limit.trim()))
            })
            .ok_or_else(|| {
                format!("no comparison in {text:?}; write for instance commit.p99<5s")
            })?;
        let name = metric;
        let (metric, unit) = Metric::parse(name)
            .ok_or_else(|| format!("unknown metric {name:?}; {}", hint(&schema::near(name))))?;
        let bound = limit;
        let limit = unit.parse(limit).map_err(|wanted| {
            format!("cannot read the limit {limit:?} of {name}; write {wanted}")
        })?;
        if let Some(always) = comparison.is_settled(unit.range(), limit) {
            let ever = if always { "always" } else { "never" };
            return Err(format!(
                "{text:?} {ever} holds: {name} is {}; choose a limit other than {bound}, or another comparison",
                unit.range_text()
            ));
        }
        Ok(Self {
            text: text.into(),
            metric,
            unit,
            comparison,
            limit,
        })
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The near metrics, or where to look for one.
fn hint(near: &[String]) -> String {
    match near {
        [] => {
            "use commit.p99, accept.p95, service.p50, lateness.max, failed.share, or a path into \
               summary.json such as fate.errors"
                .into()
        }
        [one] => format!("did you mean {one}?"),
        [most @ .., last] => format!("did you mean {} or {last}?", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(text: &str) -> ThresholdVerdict {
        let summary = json!({
            "time": {"ended_s": 61.5},
            "followed": true,
            "offered": {"planned": 1000, "unsent": 0},
            "fate": {"sent": 1000, "rejected": 0, "errors": 4, "unanswered": 0,
                "commit_failed": 0, "unverified": 0, "pending": 0,
                "rejected_by_code": {"7": 2, "sdk/5": 3, "wasm/5": 4}, "errors_by_kind": {"closed": 1, "timeout": 0}},
            "rate": {"committed_tps": {"mean": 300.0, "median": 310.0, "stddev": 50.0, "max": 500.0}},
            "latency_ms": {
                "lateness": {"max": 0.2, "censored": 0, "at_least": {}},
                "commit_from_due": {"p50": 990.0, "p95": 1011.0, "p99": 31000.0, "censored": 2423,
                    "at_least": {"p95": 1300.0, "p99": null}},
            },
        });
        text.parse::<Threshold>().unwrap().check(&summary)
    }

    fn error(text: &str) -> String {
        text.parse::<Threshold>().unwrap_err()
    }

    #[test]
    fn conditions_hold_or_break() {
        assert!(check("commit.p50<5s").held);
        assert!(check("commit.p50 < 900ms").broken);
        assert!(check("lateness.max<=200us").held);
        for failed in ["failed.share<0.5%", "rate.error<0.5%"] {
            assert_eq!(check(failed).value, Some(0.004));
            assert!(check(failed).held);
        }
        assert!(!check("fate.errors==0").held);
        assert_eq!(check("fate.errors_by_kind<2").value, Some(1.0));
        assert_eq!(check("rate.committed_tps>=1000/s").value, Some(300.0));
        assert!(check("fate.sent>=1000").held);
        assert!(check("time.ended_s<2m").held);
    }

    /// Of a node that refused nine in ten, `commit.p99<5s` held.
    #[test]
    fn what_was_refused_or_failed_counts_as_a_latency_without_end() {
        let check = |text: &str, rejected: u64, commit_failed: u64| {
            let latency = json!({"p50": 100.0, "p68": 200.0, "p95": 300.0, "p99": 400.0, "p99_7": 500.0,
                "max": 600.0, "mean": 150.0, "censored": 0, "at_least": {}});
            let summary = json!({
                "fate": {"sent": 1000, "rejected": rejected, "commit_failed": commit_failed},
                "latency_ms": {"accept_response": latency, "commit_from_due": latency,
                    "accept_service": latency},
            });
            let verdict = text.parse::<Threshold>().unwrap().check(&summary);
            (verdict.held, verdict.broken, verdict.value_text())
        };
        let never = |share: &str| (false, true, format!("never: {share} refused or failed"));
        assert_eq!(check("commit.p99<5s", 900, 0), never("90.0 %"));
        assert_eq!(check("accept.p99<5s", 11, 0), never("1.1 %"));
        assert_eq!(check("commit.p50<5s", 0, 510), never("51.0 %"));
        assert_eq!(check("commit.max<5s", 1, 0), never("0.1 %"));
        // One in two hundred is within the last of a hundred: it is the p99.7 of the accepted at most.
        assert!(check("commit.p99<501ms", 5, 0).0);
        let open = check("commit.p99<450ms", 5, 0);
        assert_eq!((open.0, open.1), (false, false));
        assert!(check("accept.p99<401ms", 0, 900).0, "accepted all the same");
        assert!(check("service.p99<401ms", 900, 0).0, "what an answer took");
    }

    #[test]
    fn a_limit_inside_what_the_generators_lateness_leaves_open_is_not_decided() {
        let summary = json!({"latency_ms": {"accept_response": {"p99": 4.0, "censored": 0,
            "at_least": {}, "without_own": {"p99": 1.0}}}});
        let check = |text: &str| {
            let verdict = text.parse::<Threshold>().unwrap().check(&summary);
            (verdict.held, verdict.broken, verdict.unresolved)
        };
        assert_eq!(check("accept.p99<5ms"), (true, false, false));
        assert_eq!(check("accept.p99<3ms"), (false, false, true));
        assert_eq!(check("accept.p99<900us"), (false, true, false));
        assert_eq!(check("accept.p99>2ms"), (false, false, true));
        assert_eq!(check("accept.p95<3ms"), (false, false, false), "no value");
    }

    #[test]
    fn every_way_to_fail_counts_as_failed() {
        let check = |text: &str, offered: Value, fate: Value| {
            let mut summary = json!({"followed": true, "offered": offered, "fate": {"sent": 1800,
                "rejected": 0, "errors": 0, "unanswered": 0, "unverified": 0, "commit_failed": 0,
                "pending": 0}});
            for (name, count) in fate.as_object().unwrap() {
                summary["fate"][name] = count.clone();
            }
            text.parse::<Threshold>().unwrap().check(&summary)
        };
        let all_sent = || json!({"planned": 1800, "unsent": 0});
        let limit = "failed.share<0.5%";
        assert!(check(limit, all_sent(), json!({})).held);
        assert!(check(limit, all_sent(), json!({"commit_failed": 1800})).broken);
        let unsent = json!({"planned": 3600, "unsent": 1800});
        assert!(check(limit, unsent, json!({})).broken);
        let pending = check(limit, all_sent(), json!({"pending": 900}));
        assert_eq!((pending.held, pending.broken), (false, false));
        assert_eq!(pending.value_text(), ">= 0 %, 900 unfinished");
    }

    #[test]
    fn a_bound_that_unfinished_transactions_could_pass_is_not_held() {
        let verdict = check("commit.p99<60s");
        assert_eq!((verdict.held, verdict.broken), (false, false));
        assert_eq!(verdict.value_text(), ">= 31 s, 2,423 unfinished");
        // 2,423 pending of a halted node do not hide behind the second that the others took.
        assert!(check("commit.p99<5s").broken);
        assert!(check("commit.p99>5s").held, "whatever they come to");
        assert!(!check("commit.p99==31s").held);
        assert!(check("commit.p99!=5s").held);
    }

    #[test]
    fn a_bound_beyond_the_highest_possible_value_is_held() {
        assert!(check("commit.p95<5s").held);
        assert!(check("commit.p95<1s").broken);
        let between = check("commit.p95<1200ms");
        assert_eq!((between.held, between.broken), (false, false));
    }

    #[test]
    fn a_missing_value_never_holds_and_a_code_that_did_not_occur_occurred_0_times() {
        let verdict = check("blocks.count>=1");
        assert_eq!(
            (verdict.value, verdict.held, verdict.broken),
            (None, false, false)
        );
        assert_eq!(check("fate.rejected_by_code.7<10").value, Some(2.0));
        assert_eq!(check("fate.rejected_by_code.sdk/5<10").value, Some(3.0));
        let anywhere = check("fate.rejected_by_code.5<10");
        assert_eq!(anywhere.value, Some(7.0), "of any name space");
        assert!(check("fate.rejected_by_code.32==0").held);
        assert!(check("fate.rejected_by_code.sdk/32==0").held);
        assert!(error("fate.rejected_by_code.seven==0").contains("unknown metric"));
    }

    #[test]
    fn a_bound_has_the_unit_of_its_metric() {
        for (text, wanted) in [
            ("fate.errors<5s", "write a count"),
            ("fate.errors<5%", "write a count"),
            ("commit.p99<5%", "write a duration"),
            ("commit.p99<5000", "write a duration"),
            ("latency_ms.commit_from_due.count<5s", "write a count"),
            ("late.generator_max_ms<5", "write a duration"),
            ("blocks.resolution_ms_mean<5", "write a duration"),
            ("rate.committed_tps>1000", "write a rate"),
            ("blocks.per_s>5s", "write a rate"),
            ("failed.share<0.5", "write a percentage"),
            ("failed.share<5s", "write a percentage"),
            (
                "commit.p99<soon",
                "cannot read the limit \"soon\" of commit.p99",
            ),
        ] {
            assert!(error(text).contains(wanted), "{text}: {}", error(text));
        }
        assert!(check("failed.share>0").held, "0 is 0 in every unit");
    }

    /// `failed.share<101%` was taken, and held whatever happened.
    #[test]
    fn a_condition_that_the_metric_s_range_settles_is_refused() {
        for (text, ever) in [
            ("failed.share<101%", "always holds"),
            ("failed.share<=100%", "always holds"),
            ("failed.share!=150%", "always holds"),
            ("failed.share>100%", "never holds"),
            ("failed.share>=100.1%", "never holds"),
            ("failed.share<0", "never holds"),
            ("fate.errors>=0", "always holds"),
            ("fate.errors>-1", "always holds"),
            ("fate.errors<0", "never holds"),
            ("fate.errors==-1", "never holds"),
            ("commit.p99<0s", "never holds"),
            ("rate.committed_tps>=0/s", "always holds"),
        ] {
            assert!(error(text).contains(ever), "{text}: {}", error(text));
        }
        let share = error("failed.share<101%");
        assert!(
            share.contains("failed.share is from 0 % to 100 %"),
            "{share}"
        );
        let errors = error("fate.errors>=0");
        assert!(errors.contains("fate.errors is never below 0"), "{errors}");
        // The ends of a range can be reached, or not.
        for text in [
            "failed.share<100%",
            "failed.share>=100%",
            "failed.share==100%",
            "failed.share<=0",
            "failed.share>0",
            "fate.errors==0",
            "fate.errors<=0",
            "fate.errors>0",
            "fate.errors!=0",
        ] {
            assert!(text.parse::<Threshold>().is_ok(), "{text}");
        }
        assert!(error("commit.p99<1e308m").contains("cannot read the limit"));
    }

    #[test]
    fn every_metric_has_the_unit_that_its_name_ends_with() {
        for name in schema::names() {
            let Some((_, unit)) = Metric::parse(&name) else {
                panic!("{name}")
            };
            let last = name.rsplit('.').next().unwrap();
            let expected = match last {
                _ if last.ends_with("_ms") => Unit::Duration(1),
                "per_s" => Unit::Rate,
                _ if last.ends_with("_s") => Unit::Duration(1_000),
                _ if last.ends_with("_tps") => Unit::Rate,
                "count" | "clamped" | "censored" | "seconds" => Unit::Count,
                _ if name.starts_with("latency_ms.") => Unit::Duration(1),
                _ => continue,
            };
            assert_eq!(unit, expected, "{name}");
        }
    }

    #[test]
    fn a_broken_threshold_says_its_value_with_its_unit() {
        for (text, value) in [
            ("commit.p50<900ms", "990 ms"),
            ("failed.share<0.1%", "0.4 %"),
            ("rate.committed_tps>1000/s", "300/s"),
            ("fate.sent>40000", "1,000"),
            ("time.ended_s<1m", "61.5 s"),
        ] {
            assert_eq!(check(text).value_text(), value);
        }
    }

    #[test]
    fn a_condition_to_be_kept_that_only_a_bad_node_fulfils_is_refused() {
        for (text, turned) in [
            ("commit.p95>5s", "commit.p95<5s"),
            ("accept.p99>=1s", "accept.p99<=1s"),
            (
                "latency_ms.commit_from_sent.p50>1s",
                "latency_ms.commit_from_sent.p50<1s",
            ),
            ("failed.share>1%", "failed.share<1%"),
            ("fate.errors>5", "fate.errors<5"),
            ("fate.rejected_by_code.7>5", "fate.rejected_by_code.7<5"),
            ("rate.committed_tps<500/s", "rate.committed_tps>500/s"),
            ("fate.committed<5", "fate.committed>5"),
        ] {
            let refused = text.parse::<Kept>().unwrap_err();
            assert!(refused.contains(&format!("write '{turned}'")), "{refused}");
            assert!(turned.parse::<Kept>().is_ok(), "{turned}");
            assert!(text.parse::<Threshold>().is_ok(), "{text}: legal in itself");
        }
        for either in [
            "fate.sent<1",
            "fate.sent>1",
            "time.ended_s<1m",
            "fate.errors==0",
        ] {
            assert!(either.parse::<Kept>().is_ok(), "{either}");
        }
    }

    #[test]
    fn nonsense_is_named() {
        assert!(error("commit.p99").contains("no comparison"));
        assert!(error("commit.p98<1s").contains("unknown metric \"commit.p98\""));
        assert!(error("weather.max<1").contains("unknown metric"));
        assert!(error("x<5").contains("unknown metric \"x\"; use commit.p99"));
        assert!(error("fate.eror==0").contains("unknown metric"));
        assert!(error("commit.p98<1s").contains("did you mean commit.p"));
        let near = error("fate.eror==0");
        assert!(
            near.contains("did you mean") && near.contains("fate.errors"),
            "{near}"
        );
        assert!(error("comit.p99<1").contains("did you mean commit.p99"));
        assert!(error("commited_tps>1").contains("rate.committed_tps"));
        assert!(error("weather.rain<1").contains("a path into summary.json"));
        // A text is no metric.
        assert!(error("verdict.schedule==0").contains("unknown metric"));
    }
}
