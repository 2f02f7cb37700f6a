//! What no part can say alone: what waits in all of them together, and that an endpoint, or the whole target, gave no
//! sign meanwhile.

use pacing::Nanos;

use super::part::MergePart;
use super::steps::Steps;
use super::transactions::positions;
use crate::format::counts::{AddUp as _, Counts};
use crate::format::manifest::Manifest;
use crate::format::rows::{BlockRow, SeriesRow};
use crate::judge::{EndpointSigns, EndpointWatch};
use crate::stats::silence::{Silence, Tenths};

/// Watches the endpoints of all parts.
pub(super) struct Silences<'a> {
    names: Vec<&'a str>,
    /// Where each part's endpoints are in the whole.
    positions: Vec<Vec<u16>>,
    endpoints: EndpointWatch,
    answers: Silence,
    blocks: Silence,
    /// Of all seconds so far.
    counts: Counts,
    /// Of the second under way.
    signs: EndpointSigns,
}

impl<'a> Silences<'a> {
    pub(super) fn new<R>(parts: &[MergePart<R>], whole: &'a Manifest) -> Self {
        let positions = parts.iter().map(|part| positions(&part.manifest, whole));
        let names = whole.endpoints.iter().map(|endpoint| &endpoint.url[..]);
        Self {
            positions: positions.collect(),
            endpoints: EndpointWatch::default(),
            answers: Silence::default(),
            blocks: Silence::default(),
            counts: Counts::default(),
            signs: EndpointSigns::of(whole.endpoints.len()),
            names: names.collect(),
        }
    }

    /// Takes from the row of a part's second what is judged of all parts together. The rows of earlier versions keep
    /// what their generator found.
    pub(super) fn take(&mut self, part: usize, row: &mut SeriesRow) {
        if let Some(signs) = EndpointSigns::read(&row.signs) {
            self.signs.add(&signs, &self.positions[part]);
            row.silent.clear();
        }
    }

    /// Ends the second with the sum of its rows, in which these blocks were seen.
    pub(super) fn second<'b>(
        &mut self,
        row: &mut SeriesRow,
        (start, end): (Nanos, Nanos),
        blocks: impl Iterator<Item = &'b BlockRow>,
        steps: &mut Steps,
    ) {
        let none = EndpointSigns::of(self.names.len());
        let signs = std::mem::replace(&mut self.signs, none);
        row.signs = signs.to_string();
        let names = self.names.iter().copied();
        let silent = self.endpoints.second((start, end), &signs, names);
        row.add_silent(&silent);
        self.counts.add_up(&row.counts);
        // A block may have a transaction before its answer came: what one part lacks stands against what another has.
        (row.in_flight, row.backlog) = (self.counts.in_flight(), self.counts.backlog());
        let waiting = self.counts.in_flight() + self.counts.unsent_yet();
        let seen = Tenths::at(blocks.map(|block| Nanos::from_nanos(block.observed_ns)));
        let mut from = start;
        while from < end {
            let until = steps.edge_after(from).min(end);
            let answers = self.answers.pass(from, until, signs.answers(), waiting);
            let blocks = self.blocks.pass(from, until, seen, row.backlog);
            steps.add_gaps(from, answers, blocks);
            from = until;
        }
    }
}
