//! Readers of a run folder, which check its forms while they read.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use serde_json::Value;

const SCHEMA: &str = include_str!("../../../../../docs/summary.schema.json");

/// A folder that a run left.
pub(crate) struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn text(&self, name: &str) -> String {
        let path = self.path.join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// A JSON document of it.
    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.text(name)).unwrap()
    }

    pub(crate) fn manifest(&self) -> Value {
        self.json("manifest.json")
    }

    /// The summary, valid by its schema.
    pub(crate) fn summary(&self) -> Summary {
        let value = self.json("summary.json");
        let schema: Value = serde_json::from_str(SCHEMA).unwrap();
        let errors: Vec<String> = jsonschema::validator_for(&schema)
            .unwrap()
            .iter_errors(&value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert_eq!(errors, Vec::<String>::new());
        Summary(value)
    }

    /// A CSV file whose rows are all whole.
    pub(crate) fn table(&self, name: &str) -> Table {
        Table::parse(name, &self.text(name))
    }

    /// The sum of all intervals of each tag of `latency.hlog`.
    pub(crate) fn histograms(&self) -> BTreeMap<String, Histogram<u64>> {
        let log = fs::read(self.path.join("latency.hlog")).unwrap();
        let mut sums: BTreeMap<String, Histogram<u64>> = BTreeMap::new();
        for entry in IntervalLogIterator::new(&log) {
            let LogEntry::Interval(interval) = entry.unwrap() else {
                continue;
            };
            let encoded = base64_simd::STANDARD
                .decode_to_vec(interval.encoded_histogram())
                .unwrap();
            let histogram = Deserializer::new().deserialize(&mut &encoded[..]).unwrap();
            sums.entry(interval.tag().unwrap().as_str().to_owned())
                .and_modify(|sum| sum.add(&histogram).unwrap())
                .or_insert(histogram);
        }
        sums
    }
}

/// A CSV file: fields are never quoted.
pub(crate) struct Table {
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    fn parse(name: &str, text: &str) -> Self {
        assert!(text.ends_with('\n'), "{name} ends in the middle of a row");
        let split = |line: &str| line.split(',').map(ToOwned::to_owned).collect();
        let mut lines = text.lines();
        let header: Vec<String> = split(lines.next().unwrap());
        let rows: Vec<Vec<String>> = lines.map(split).collect();
        for row in &rows {
            assert_eq!(row.len(), header.len(), "{name}: {row:?}");
        }
        Self { header, rows }
    }

    /// The fields of a column, from the first row on.
    pub(crate) fn column(&self, name: &str) -> impl Iterator<Item = &str> {
        let place = self.header.iter().position(|column| column == name);
        let place = place.unwrap_or_else(|| panic!("no column {name} in {:?}", self.header));
        self.rows.iter().map(move |row| row[place].as_str())
    }

    /// The numbers of a column; empty fields are left out.
    pub(crate) fn numbers(&self, name: &str) -> Vec<u64> {
        self.column(name)
            .filter(|field| !field.is_empty())
            .map(|field| field.parse().unwrap())
            .collect()
    }

    pub(crate) fn sum(&self, name: &str) -> u64 {
        self.numbers(name).iter().sum()
    }
}

/// A `summary.json`.
pub(crate) struct Summary(Value);

impl Summary {
    /// The value at a path such as `fate.sent`.
    #[track_caller]
    pub(crate) fn at(&self, path: &str) -> &Value {
        path.split('.').fold(&self.0, |value, key| {
            value
                .get(key)
                .unwrap_or_else(|| panic!("no {path} in the summary"))
        })
    }

    #[track_caller]
    pub(crate) fn count(&self, path: &str) -> u64 {
        let value = self.at(path);
        value
            .as_u64()
            .unwrap_or_else(|| panic!("{path} is {value}"))
    }

    #[track_caller]
    pub(crate) fn number(&self, path: &str) -> f64 {
        let value = self.at(path);
        value
            .as_f64()
            .unwrap_or_else(|| panic!("{path} is {value}"))
    }

    #[track_caller]
    pub(crate) fn text(&self, path: &str) -> &str {
        let value = self.at(path);
        value
            .as_str()
            .unwrap_or_else(|| panic!("{path} is {value}"))
    }

    /// A list of texts.
    #[track_caller]
    pub(crate) fn list(&self, path: &str) -> Vec<&str> {
        let value = self.at(path).as_array();
        let value = value.unwrap_or_else(|| panic!("{path} is no list"));
        value.iter().map(|text| text.as_str().unwrap()).collect()
    }

    /// The sum of an object of counts.
    #[track_caller]
    pub(crate) fn sum(&self, path: &str) -> u64 {
        let counts = self.at(path).as_object().unwrap();
        counts.values().map(|count| count.as_u64().unwrap()).sum()
    }

    /// The four laws, added up here from the single counts.
    #[track_caller]
    pub(crate) fn assert_conserved(&self) {
        let fate = |name: &str| self.count(&format!("fate.{name}"));
        assert_eq!(
            self.count("offered.planned"),
            self.count("offered.sent") + self.count("offered.unsent")
        );
        assert_eq!(self.count("offered.sent"), fate("sent"));
        assert_eq!(
            self.count("offered.unsent"),
            self.sum("offered.unsent_by_reason")
        );
        assert_eq!(
            fate("sent"),
            fate("accepted") + fate("rejected") + fate("errors") + fate("unanswered")
        );
        assert_eq!(fate("rejected"), self.sum("fate.rejected_by_code"));
        assert_eq!(fate("errors"), self.sum("fate.errors_by_kind"));
        assert_eq!(
            fate("accepted"),
            fate("committed") + fate("commit_failed") + fate("unverified") + fate("pending")
        );
        assert_eq!(
            self.count("blocks.own_txs"),
            fate("committed")
                + fate("commit_failed")
                + fate("unverified")
                + self.sum("fate.committed_anyway")
        );
        assert_eq!(self.at("conservation.holds"), &Value::Bool(true));
    }

    /// Everything planned was sent, accepted and committed: exactly `planned`.
    #[track_caller]
    pub(crate) fn assert_all_committed(&self, planned: u64) {
        self.assert_conserved();
        let counts = [
            "offered.planned",
            "fate.sent",
            "fate.accepted",
            "fate.committed",
        ]
        .map(|path| self.count(path));
        assert_eq!(counts, [planned; 4], "planned, sent, accepted, committed");
    }
}
