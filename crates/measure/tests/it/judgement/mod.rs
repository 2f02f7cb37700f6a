//! What is concluded from runs whose story is known: rates, steps, what limited them, and each statement
//! beside a run of which the opposite is true.

mod admission;
mod full_blocks;
mod limited_by;
mod losses;
mod silences;
mod stages;
mod steps;
mod story;
