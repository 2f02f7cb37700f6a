//! Input and output of a search: a trial; which trial is next, why the search is over, and the estimate.

base::named! {
    /// What a trial showed.
    pub enum Finding {
        /// The target sustained the rate.
        Held => "held",
        /// It did not.
        Broken => "broken",
        /// What was seen fits a target that sustains the rate and one that does not: a longer trial may
        /// tell.
        Undecided => "undecided",
        /// It did not, and lacked the processor for long enough to explain that: what it committed bounds what it can
        /// take.
        Starved => "starved",
        /// The generator could not offer the rate: the trial is no result about the target.
        Unusable => "unusable",
    }
}

/// One rate, offered once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Transactions per second.
    pub rate: f64,
    /// What it showed.
    pub finding: Finding,
    /// What the target committed, whatever the finding; `None` where blocks are not watched or too few, and where
    /// something else than that decided the finding.
    pub took: Option<Took>,
}

/// What a target committed in a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Took {
    /// Transactions per second.
    pub tps: f64,
    /// The standard error of that, per second.
    pub error_tps: f64,
    /// For which share of the time it lacked the processor, below 1: with it, it may have committed as much more.
    pub lack: f64,
    /// What it took at the end at least, where that is less than it took at first of a rate that it could nearly take.
    pub fell_to: Option<f64>,
}

base::settings! {
    /// What a search looks for, and how hard.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct KneeSettings {
        /// The first rate, per second.
        pub from: f64 = 250.0,
        /// No lower rate is tried.
        pub min: f64 = 1.0,
        /// No higher rate is tried.
        pub max: f64 = 1e6,
        /// The search ends when the interval reaches no further than this share from its middle.
        pub precision: f64 = 0.05,
        /// How sure the interval is, for example 0.9.
        pub confidence: f64 = 0.9,
        /// Trials at most.
        pub max_trials: usize = 40,
    }
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// Offer this rate.
    Try {
        /// Transactions per second, in three significant digits where that is fine enough.
        rate: f64,
        /// Why this one.
        because: Rationale,
        /// For how long, in parts of a trial's usual length.
        length: f64,
    },
    /// Nothing more is to be learnt.
    Done(Ending),
}

/// Why a rate is tried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rationale {
    /// It is the first.
    First,
    /// Everything held so far.
    Higher,
    /// Nothing held so far.
    Lower,
    /// The knee is as likely above it as below.
    Middle {
        /// The nearest lower rate that held.
        held: Option<f64>,
        /// The nearest higher rate that broke.
        broken: Option<f64>,
    },
    /// The trial before was not usable, or one trial is not enough to end on.
    Again,
    /// It held or broke, and later trials show the opposite.
    Contradicted,
    /// The trial before was undecided: this one has to take longer.
    Longer,
    /// The search is over: whether what a load may rely on lasts.
    Lasting,
    /// The search is over: whether what is above its interval still breaks.
    Above,
}

impl Rationale {
    /// Whether the trial tests what a search found.
    pub const fn is_test(self) -> bool {
        matches!(self, Self::Lasting | Self::Above)
    }
}

/// Why the search ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ending {
    /// The interval is as narrow as asked.
    Found,
    /// The highest rate allowed still held.
    NotReached {
        /// That rate.
        rate: f64,
    },
    /// The lowest rate allowed did not hold.
    BelowMin {
        /// That rate.
        rate: f64,
    },
    /// The generator could not offer more, and everything it could offer held.
    GeneratorLimit {
        /// The highest rate that held; `None` when none did.
        held: Option<f64>,
        /// The rate it could not offer.
        rate: f64,
    },
    /// Trials at one rate stayed undecided, however long they took.
    Undecided {
        /// That rate.
        rate: f64,
    },
    /// The number of trials is used up.
    TrialsUsed,
    /// The time is.
    TimeUsed,
}

/// An estimate of the knee.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KneeEstimate {
    /// As likely above it as below.
    pub rate: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// How sure the interval is.
    pub confidence: f64,
}

/// A target whose knee changed while it was searched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// The first trial of the other knee.
    pub since: usize,
    /// The most that the target took before it became slower; the lowest rate that broke before it became faster.
    pub before: f64,
    /// The lowest rate that has broken since, no higher than that; the most that it has taken since, no less.
    pub after: f64,
    /// Whether it became slower.
    pub is_slower: bool,
}
