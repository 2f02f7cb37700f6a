//! Answers over time: refusals by their cause, and what each endpoint did.

use std::collections::BTreeMap;

use measure::{AnswerKind, AnswerRow};

use super::course::Span;
use crate::chart::{Axis, Chart, Tone, Unit};
use crate::{Page, Table, text};

/// The answers of a run in columns of time.
#[derive(Debug, Default)]
pub struct AnswerCourse {
    column_s: f64,
    columns: usize,
    refused: BTreeMap<AnswerKind, Vec<u64>>,
    endpoints: Vec<Endpoint>,
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
    /// Of the rows of `answers.csv`, whose columns are equally long. A kind of answer that a later version
    /// wrote is left out.
    pub fn new(rows: &[AnswerRow]) -> Self {
        let column_s = rows.iter().map(|row| row.span_s).max().unwrap_or(1).max(1);
        let column = |row: &AnswerRow| (row.second / column_s) as usize;
        let mut course = Self {
            column_s: column_s as f64,
            columns: rows.iter().map(column).max().map_or(1, |last| last + 1),
            ..Self::default()
        };
        for row in rows {
            if let Some(answer) = AnswerKind::named(&row.answer) {
                course.add(row, answer, column(row));
            }
        }
        course
    }

    fn add(&mut self, row: &AnswerRow, answer: AnswerKind, column: usize) {
        let columns = self.columns;
        let endpoint = self.endpoint(row.endpoint);
        match answer {
            AnswerKind::Accepted => {
                endpoint.accepted[column] += row.txs;
                endpoint.waited_ms[column] += row.mean_ms.unwrap_or(0.0) * row.txs as f64;
            }
            AnswerKind::Unanswered => endpoint.unanswered += row.txs,
            AnswerKind::Code(_) | AnswerKind::OtherCode | AnswerKind::Error => {
                endpoint.refused += row.txs;
                let none = || vec![0; columns];
                self.refused.entry(answer).or_insert_with(none)[column] += row.txs;
            }
        }
    }

    fn endpoint(&mut self, number: u16) -> &mut Endpoint {
        let number = usize::from(number);
        while number >= self.endpoints.len() {
            self.endpoints.push(Endpoint {
                accepted: vec![0; self.columns],
                waited_ms: vec![0.0; self.columns],
                refused: 0,
                unanswered: 0,
            });
        }
        &mut self.endpoints[number]
    }

    fn rates<'a>(&'a self, counts: &'a [u64]) -> impl Iterator<Item = Span> + 'a {
        counts.iter().enumerate().map(|(column, count)| {
            let from = column as f64 * self.column_s;
            (from, from + self.column_s, *count as f64 / self.column_s)
        })
    }

    /// Adds a line for each cause; `name` gives its name. `None` where nothing was refused.
    pub(crate) fn refusals(
        &self,
        chart: Chart,
        name: impl Fn(AnswerKind) -> String,
    ) -> Option<Chart> {
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

const MAX_ENDPOINTS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(second: u64, endpoint: u16, answer: &str, txs: u64) -> AnswerRow {
        AnswerRow {
            second,
            span_s: 2,
            endpoint,
            answer: answer.to_owned(),
            txs,
            mean_ms: (answer == "accepted").then_some(50.0),
        }
    }

    #[test]
    fn refusals_are_those_of_all_endpoints_and_columns_stand_where_they_began() {
        let course = AnswerCourse::new(&[
            row(0, 0, "accepted", 4),
            row(4, 0, "code sdk/7", 2),
            row(4, 1, "code sdk/7", 1),
            row(6, 1, "error", 3),
            row(2, 1, "unanswered", 5),
            row(2, 1, "of a later version", 9),
        ]);
        let expected = [
            (AnswerKind::named("code sdk/7").unwrap(), vec![0, 0, 3, 0]),
            (AnswerKind::Error, vec![0, 0, 0, 3]),
        ];
        assert_eq!(course.refused, BTreeMap::from(expected));
        let [first, second] = &course.endpoints[..] else {
            panic!("two endpoints")
        };
        assert_eq!((first.accepted[0], first.waited_ms[0]), (4, 200.0));
        assert_eq!((first.refused, second.refused), (2, 4));
        assert_eq!(second.unanswered, 5);
    }

    #[test]
    fn a_run_without_an_answer_has_an_empty_course() {
        let course = AnswerCourse::new(&[]);
        assert!(course.refused.is_empty() && course.endpoints.is_empty());
    }
}
