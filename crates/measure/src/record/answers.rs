//! What the nodes answered, over time: counted of every transaction, whatever rows of them are kept.

use pacing::Nanos;
use serde::{Deserialize, Serialize};

use crate::format::code::Code;
use crate::format::read::{TxFate, TxRow};
use crate::format::rows::TableRow;
use crate::record::pending::{Record, RecordState};

/// Counts answers by endpoint and kind in columns of time.
///
/// A column is a second long; when a run has more than 256 of them, two become one, and so on: the memory
/// is that of 256 cells for each of at most ten kinds of answer of each endpoint.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answers {
    /// A column is two to this power seconds long.
    doublings: u32,
    /// In the order in which the kinds came: the common one first, so that finding it costs nothing.
    kinds: Vec<(u16, AnswerKind, Vec<Cell>)>,
    codes: Vec<Code>,
}

/// A kind of answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnswerKind {
    /// Accepted.
    Accepted,
    /// Refused with this code.
    Code(Code),
    /// Refused with a code beyond the first six.
    OtherCode,
    /// Without a usable answer.
    Error,
    /// Without an answer by the end; by the second it was due in.
    Unanswered,
}

/// Transactions in one column.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Cell {
    txs: u64,
    waited_ns: f64,
}

/// `answers.csv`: the answers of one kind that one endpoint gave in one column of time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AnswerRow {
    /// Where the column begins, seconds since the origin.
    pub second: u64,
    /// Its length, seconds.
    pub span_s: u64,
    /// Position in the manifest's `endpoints`.
    pub endpoint: u16,
    /// `accepted`, `code N` or `code SPACE/N`, `another code`, `error` or `unanswered`.
    pub answer: String,
    /// Transactions.
    pub txs: u64,
    /// From due to accepted, the mean of the column; empty for other answers.
    pub mean_ms: Option<f64>,
}

impl TableRow for AnswerRow {
    const FILE: &'static str = "answers.csv";
    const HEADER: &'static str = "second,span_s,endpoint,answer,txs,mean_ms\n";
}

impl Answers {
    /// Counts a transaction by its row.
    pub fn row(&mut self, row: &TxRow<'_>, origin_unix_ns: u64) {
        let since_origin =
            |unix_us: u64| Nanos::from_micros(unix_us.saturating_sub(origin_unix_ns / 1_000));
        let refused_at = row.error_unix_us.map(since_origin);
        let (answer, at) = match (row.fate(), row.accepted, refused_at, row.code()) {
            (_, Some(at), ..) => (AnswerKind::Accepted, at),
            (TxFate::Rejected, _, Some(at), Some(code)) => (self.code(code), at),
            (TxFate::Error, _, Some(at), _) => (AnswerKind::Error, at),
            _ => (AnswerKind::Unanswered, row.due),
        };
        self.count(row.endpoint, answer, row.due, at);
    }

    /// Adds what another has counted in one column, as this endpoint's. Columns become as wide as the other's.
    pub(crate) fn add(&mut self, row: &AnswerRow, endpoint: u16) {
        let answer = match AnswerKind::named(&row.answer) {
            Some(AnswerKind::Code(code)) => self.code(code),
            Some(answer) => answer,
            None => return,
        };
        while (1 << self.doublings) < row.span_s && self.doublings < u64::BITS - 1 {
            self.halve();
        }
        let waited_ns = row.mean_ms.unwrap_or(0.0) * 1e6 * row.txs as f64;
        let cell = self.cell(endpoint, answer, row.second);
        cell.txs += row.txs;
        cell.waited_ns += waited_ns;
    }

    /// Counts a transaction whose fate is final.
    pub(crate) fn record(&mut self, record: &Record) {
        let answered = record.answered;
        let (answer, at) = match record.state {
            RecordState::Accepted => (AnswerKind::Accepted, answered),
            // In a block all the same: its answer is not what decided.
            _ if record.is_committed() => (AnswerKind::Unanswered, record.due),
            RecordState::Failed(_) => (AnswerKind::Error, answered),
            _ => match record.deciding_code() {
                Some(code) => (self.code(code), answered),
                None => (AnswerKind::Unanswered, record.due),
            },
        };
        self.count(record.endpoint, answer, record.due, at);
    }

    fn count(&mut self, endpoint: u16, answer: AnswerKind, due: Nanos, at: Nanos) {
        let cell = self.cell(endpoint, answer, at.as_nanos() / 1_000_000_000);
        cell.txs += 1;
        if answer == AnswerKind::Accepted {
            cell.waited_ns += at.saturating_sub(due).as_nanos() as f64;
        }
    }

    /// The cell of this second.
    fn cell(&mut self, endpoint: u16, answer: AnswerKind, second: u64) -> &mut Cell {
        while second >> self.doublings >= MAX_COLUMNS as u64 {
            self.halve();
        }
        let column = (second >> self.doublings) as usize;
        let cells = self.cells_of(endpoint, answer);
        if column >= cells.len() {
            cells.resize(column + 1, Cell::default());
        }
        &mut cells[column]
    }

    fn cells_of(&mut self, endpoint: u16, answer: AnswerKind) -> &mut Vec<Cell> {
        let is_it =
            |(known, kind, _): &(u16, AnswerKind, Vec<Cell>)| (*known, *kind) == (endpoint, answer);
        let place = self.kinds.iter().position(is_it).unwrap_or_else(|| {
            self.kinds.push((endpoint, answer, Vec::new()));
            self.kinds.len() - 1
        });
        &mut self.kinds[place].2
    }

    /// Two columns become one.
    fn halve(&mut self) {
        self.doublings += 1;
        for (_, _, cells) in &mut self.kinds {
            let pair = |pair: &[Cell]| Cell {
                txs: pair.iter().map(|cell| cell.txs).sum(),
                waited_ns: pair.iter().map(|cell| cell.waited_ns).sum(),
            };
            *cells = cells.chunks(2).map(pair).collect();
        }
    }

    fn code(&mut self, code: Code) -> AnswerKind {
        if self.codes.contains(&code) {
            return AnswerKind::Code(code);
        }
        if self.codes.len() == MAX_CODES {
            return AnswerKind::OtherCode;
        }
        self.codes.push(code);
        AnswerKind::Code(code)
    }

    /// The rows of `answers.csv`: columns without a transaction have none.
    pub fn rows(&self) -> impl Iterator<Item = AnswerRow> {
        let mut kinds: Vec<_> = self.kinds.iter().collect();
        kinds.sort_by_key(|(endpoint, answer, _)| (*endpoint, *answer));
        kinds.into_iter().flat_map(|(endpoint, answer, cells)| {
            let rows = cells.iter().enumerate().filter(|(_, cell)| cell.txs > 0);
            rows.map(|(column, cell)| AnswerRow {
                second: (column as u64) << self.doublings,
                span_s: 1 << self.doublings,
                endpoint: *endpoint,
                answer: answer.text(),
                txs: cell.txs,
                mean_ms: (*answer == AnswerKind::Accepted)
                    .then(|| cell.waited_ns / cell.txs as f64 / 1e6),
            })
        })
    }
}

impl AnswerKind {
    fn text(self) -> String {
        match self {
            Self::Accepted => "accepted".to_owned(),
            Self::Code(code) => format!("code {code}"),
            Self::OtherCode => "another code".to_owned(),
            Self::Error => "error".to_owned(),
            Self::Unanswered => "unanswered".to_owned(),
        }
    }

    /// The kind that a row of `answers.csv` names; `None` of a text that names none.
    pub fn named(text: &str) -> Option<Self> {
        match text {
            "accepted" => Some(Self::Accepted),
            "another code" => Some(Self::OtherCode),
            "error" => Some(Self::Error),
            "unanswered" => Some(Self::Unanswered),
            text => text.strip_prefix("code ")?.parse().ok().map(Self::Code),
        }
    }
}

/// Columns of time: as many as a page has pixels for, give or take.
const MAX_COLUMNS: usize = 256;
/// Codes with lines of their own: as many as there are colours, less one for the others.
const MAX_CODES: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(seconds: impl IntoIterator<Item = u64>, answer: AnswerKind) -> Answers {
        let mut answers = Answers::default();
        for second in seconds {
            let at = Nanos::from_secs(second);
            answers.count(0, answer, at.saturating_sub(Nanos::from_millis(250)), at);
        }
        answers
    }

    #[test]
    fn a_long_run_has_few_columns_and_nothing_is_left_out() {
        let answers = counted(0..100_000, AnswerKind::Error);
        let rows: Vec<AnswerRow> = answers.rows().collect();
        assert!(rows.len() <= MAX_COLUMNS, "{}", rows.len());
        assert!(rows.len() > MAX_COLUMNS / 2, "{}", rows.len());
        assert_eq!(rows.iter().map(|row| row.txs).sum::<u64>(), 100_000);
        assert_eq!(rows[1].second, rows[0].span_s);
        assert!(rows.iter().all(|row| row.mean_ms.is_none()));
    }

    #[test]
    fn a_mean_is_that_of_its_column() {
        let rows: Vec<AnswerRow> = counted([3, 3, 5], AnswerKind::Accepted).rows().collect();
        let told: Vec<_> = rows
            .iter()
            .map(|row| (row.second, row.txs, row.mean_ms))
            .collect();
        assert_eq!(told, [(3, 2, Some(250.0)), (5, 1, Some(250.0))]);
    }

    #[test]
    fn codes_beyond_the_first_are_counted_together() {
        let mut answers = Answers::default();
        for code in 0..100 {
            let kind = answers.code(format!("bank/{code}").parse().unwrap());
            answers.count(0, kind, Nanos::ZERO, Nanos::ZERO);
        }
        let rows: Vec<AnswerRow> = answers.rows().collect();
        assert_eq!(rows.len(), MAX_CODES + 1);
        assert_eq!(rows.iter().map(|row| row.txs).sum::<u64>(), 100);
        let other = rows
            .iter()
            .find(|row| row.answer == "another code")
            .unwrap();
        assert_eq!(other.txs, 94);
        for row in &rows {
            assert_eq!(AnswerKind::named(&row.answer).unwrap().text(), row.answer);
        }
        assert_eq!(AnswerKind::named("code x"), None);
    }
}
