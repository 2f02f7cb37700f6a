//! Answers over time: refusals by their cause, and what each endpoint did.

use std::collections::BTreeMap;

use measure::read::{TxFate, TxRow};

use crate::chart::{Axis, Chart, Tone, Unit};
use crate::course::MAX_COLUMNS;
use crate::stretch::Span;
use crate::{Page, Table, text};

/// Collected of every transaction of a run, in at most [`MAX_COLUMNS`] columns of time.
#[derive(Debug)]
pub struct AnswerCourse {
    origin_unix_us: u64,
    column_s: f64,
    columns: usize,
    refused: BTreeMap<Refusal, Vec<u64>>,
    endpoints: Vec<Endpoint>,
}

/// Why a transaction was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Refusal {
    /// With this code.
    Code(i64),
    /// With one of the codes beyond the first [`MAX_CODES`].
    OtherCode,
    /// Without a usable answer.
    Error,
}

/// What became of the transactions that were sent to one endpoint.
#[derive(Debug)]
struct Endpoint {
    accepted: Vec<u64>,
    /// Milliseconds from due to accepted, of all.
    waited_ms: Vec<f64>,
    /// Rejected, or without a usable answer.
    refused: u64,
    unanswered: u64,
}

impl AnswerCourse {
    /// Of a run that began at `origin_unix_ns` and ended `ended_s` later.
    #[must_use]
    pub fn new(origin_unix_ns: u64, ended_s: f64) -> Self {
        let column_s = (ended_s / MAX_COLUMNS as f64).ceil().max(1.0);
        Self {
            origin_unix_us: origin_unix_ns / 1_000,
            column_s,
            columns: (ended_s / column_s).ceil().max(1.0) as usize,
            refused: BTreeMap::new(),
            endpoints: Vec::new(),
        }
    }

    /// Counts a transaction.
    pub fn tx(&mut self, row: &TxRow<'_>) {
        let refusal = match (row.fate(), row.code) {
            (TxFate::Rejected, Some(code)) => Some(self.known(code)),
            (TxFate::Error, _) => Some(Refusal::Error),
            _ => None,
        };
        if let (Some(refusal), Some(at)) = (refusal, row.error_unix_us) {
            let at_s = at.saturating_sub(self.origin_unix_us) as f64 / 1e6;
            let column = self.column(at_s);
            let none = || vec![0; self.columns];
            self.refused.entry(refusal).or_insert_with(none)[column] += 1;
        }
        self.count_endpoint(row);
    }

    fn count_endpoint(&mut self, row: &TxRow<'_>) {
        let number = usize::from(row.endpoint);
        while number >= self.endpoints.len() {
            self.endpoints.push(Endpoint {
                accepted: vec![0; self.columns],
                waited_ms: vec![0.0; self.columns],
                refused: 0,
                unanswered: 0,
            });
        }
        let column = row.accepted.map(|at| (self.column(at.as_secs_f64()), at));
        let endpoint = &mut self.endpoints[number];
        match (column, row.fate()) {
            (Some((column, at)), _) => {
                endpoint.accepted[column] += 1;
                endpoint.waited_ms[column] += at.saturating_sub(row.due).as_millis_f64();
            }
            (None, TxFate::Rejected | TxFate::Error) => endpoint.refused += 1,
            (None, _) => endpoint.unanswered += 1,
        }
    }

    fn known(&self, code: i64) -> Refusal {
        let refusal = Refusal::Code(code);
        match self.refused.len() < MAX_CODES || self.refused.contains_key(&refusal) {
            true => refusal,
            false => Refusal::OtherCode,
        }
    }

    fn column(&self, at_s: f64) -> usize {
        ((at_s.max(0.0) / self.column_s) as usize).min(self.columns - 1)
    }

    fn rates<'a>(&'a self, counts: &'a [u64]) -> impl Iterator<Item = Span> + 'a {
        counts.iter().enumerate().map(|(column, count)| {
            let from = column as f64 * self.column_s;
            (from, from + self.column_s, *count as f64 / self.column_s)
        })
    }

    /// Adds a line for each cause; `name` says what it is called. `None` where nothing was refused.
    pub(crate) fn refusals(&self, chart: Chart, name: impl Fn(Refusal) -> String) -> Option<Chart> {
        if self.refused.is_empty() {
            return None;
        }
        let causes = self.refused.iter().enumerate();
        Some(causes.fold(chart, |chart, (number, (cause, counts))| {
            let spans = self.rates(counts);
            chart.steps(&name(*cause), Tone::Nth(number), spans)
        }))
    }

    /// What each endpoint accepted, and how long that took, over time and in figures; nothing for a single
    /// endpoint.
    pub(crate) fn endpoints(
        &self,
        over_time: impl Fn(&str, Axis) -> Chart,
        names: &[&str],
    ) -> String {
        if self.endpoints.len() < 2 {
            return String::new();
        }
        let rate = Axis::linear("accepted per second", Unit::PerSecond);
        let wait = Axis::log("mean from due to accepted", Unit::Millis);
        let mut rates = over_time("Accepted by each endpoint", rate);
        let mut waits = over_time("Mean response time of each endpoint", wait);
        let name = |number: usize| names.get(number).copied().unwrap_or("another");
        let endpoints = || self.endpoints.iter().enumerate();
        for (number, endpoint) in endpoints().take(MAX_ENDPOINTS) {
            let (name, tone) = (name(number), Tone::Nth(number));
            rates = rates.steps(name, tone, self.rates(&endpoint.accepted));
            let means = endpoint
                .waited_ms
                .iter()
                .zip(&endpoint.accepted)
                .enumerate();
            let means = means.map(|(column, (waited, count))| {
                let middle = (column as f64 + 0.5) * self.column_s;
                (middle, mean(*waited, *count).unwrap_or(f64::NAN))
            });
            waits = waits.line(name, tone, means);
        }
        let table = Table::of(endpoints())
            .text("endpoint", |(number, _)| name(*number))
            .count("accepted", |(_, it)| it.accepted.iter().sum::<u64>())
            .count("refused, failed", |(_, it)| it.refused)
            .alarm(|(_, it)| it.refused > 0)
            .count("unanswered", |(_, it)| it.unanswered)
            .alarm(|(_, it)| it.unanswered > 0)
            .number("mean response", text::millis, |(_, it)| {
                mean(it.waited_ms.iter().sum(), it.accepted.iter().sum())
            });
        Page::grid([rates.html(), waits.html()]) + &table.table().html()
    }
}

/// In milliseconds, not below what a logarithmic axis shows; `None` of nothing.
fn mean(sum_ms: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| (sum_ms / count as f64).max(0.001))
}

/// Codes with lines of their own: as many as there are colours, less one for the others.
const MAX_CODES: usize = 6;
const MAX_ENDPOINTS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN_UNIX_NS: u64 = 1_795_132_800_000_000_000;

    /// A transaction due a tenth of a second before its answer.
    fn row(at_ms: u64, answer: Result<(), Option<i64>>) -> TxRow<'static> {
        let at = pacing::Nanos::from_millis(at_ms);
        let due = pacing::Nanos::from_millis(at_ms - 100);
        let unix_us = ORIGIN_UNIX_NS / 1_000 + at_ms * 1_000;
        TxRow {
            txid: "",
            size: 1,
            send_unix_us: unix_us,
            accept_unix_us: answer.is_ok().then_some(unix_us),
            commit_unix_us: None,
            error_unix_us: answer.is_err().then_some(unix_us),
            due,
            sent: due,
            accepted: answer.is_ok().then_some(at),
            committed: None,
            height: None,
            code: answer.err().flatten(),
            endpoint: 0,
            step: 0,
        }
    }

    #[test]
    fn refusals_are_counted_by_cause_in_the_second_they_came() {
        let mut course = AnswerCourse::new(ORIGIN_UNIX_NS, 4.0);
        for at_ms in [500, 1_500, 1_600] {
            course.tx(&row(at_ms, Err(Some(7))));
        }
        course.tx(&row(3_999, Err(None)));
        course.tx(&row(2_500, Ok(())));
        let expected = [
            (Refusal::Code(7), vec![1, 2, 0, 0]),
            (Refusal::Error, vec![0, 0, 0, 1]),
        ];
        assert_eq!(course.refused, BTreeMap::from(expected));
        let endpoint = &course.endpoints[0];
        assert_eq!((endpoint.refused, endpoint.unanswered), (4, 0));
        assert_eq!(endpoint.accepted, [0, 0, 1, 0]);
        assert_eq!(endpoint.waited_ms, [0.0, 0.0, 100.0, 0.0]);
    }

    #[test]
    fn columns_and_codes_are_bounded_and_nothing_is_left_out() {
        let mut course = AnswerCourse::new(ORIGIN_UNIX_NS, 1e6);
        // An answer behind the end belongs to the last column.
        for (code, at_ms) in (0..100).zip((1..).map(|it| it * 11_000_000)) {
            course.tx(&row(at_ms, Err(Some(code))));
        }
        assert!(course.columns <= MAX_COLUMNS);
        assert_eq!(course.refused.len(), MAX_CODES + 1);
        assert_eq!(course.refused[&Refusal::OtherCode].iter().sum::<u64>(), 94);
        let all: u64 = course.refused.values().flatten().sum();
        assert_eq!(all, 100);
        assert_eq!(course.endpoints[0].refused, 100);
    }
}
