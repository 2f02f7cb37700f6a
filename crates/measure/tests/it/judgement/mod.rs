//! What is concluded from runs whose story is known: rates, steps, what limited them, and each statement
//! beside a run of which the opposite is true.

mod limited_by;
mod rates;
mod steps;
mod story;
mod verdict;
