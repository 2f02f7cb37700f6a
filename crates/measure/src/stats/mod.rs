//! Estimates from figures: lines, knees, comparisons, silences.

pub(crate) mod block_span;
pub(crate) mod breakpoint;
pub(crate) mod compare;
pub(crate) mod elasticity;
pub(crate) mod knee;
pub(crate) mod line;
pub(crate) mod nodes;
pub(crate) mod resample;
pub(crate) mod silence;
pub(crate) mod similarity;
mod student;
