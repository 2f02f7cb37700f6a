//! `txgen doctor` and `txgen init`: what the user typed; and words that people bring from other programs.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use rpc::Endpoint;

use crate::chains::{TargetKind, WorkloadKind};

/// `txgen doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// A node, by its RPC; without one only this machine is looked at.
    #[arg(value_name = "URL")]
    pub endpoint: Option<Endpoint>,
    /// What kind of node it is [default: cometbft].
    #[arg(long, value_enum, value_name = "KIND")]
    pub target: Option<TargetKind>,
    /// Trust the certificates of this PEM file too, beside those of the system.
    #[arg(long, value_name = "PATH")]
    pub ca_file: Option<PathBuf>,
}

/// `txgen init`
#[derive(Debug, Args)]
pub struct InitArgs {
    /// What is to be found out.
    #[arg(value_enum, default_value = "hold")]
    pub question: Question,
    /// A node that is there, by its RPC [default: a built-in one].
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<Endpoint>,
    /// What is sent, which says the chain: kvstore, cosmos-send, bitcoin, … [default: kvstore].
    #[arg(long, value_name = "KIND")]
    pub workload: Option<WorkloadKind>,
    /// The file to make; - is stdout.
    #[arg(short, long, default_value = "scenario.toml", value_name = "FILE")]
    pub out: PathBuf,
}

/// What a scenario is to find out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Question {
    /// What rate the node sustains.
    Rate,
    /// Whether it holds a rate.
    Hold,
    /// What a burst leaves behind.
    Burst,
    /// Whether a setting makes a difference.
    Change,
}

/// Flags of k6, vegeta, wrk, oha and cometbft-load-test, and what is meant by them here.
pub const BROUGHT: &str = include_str!("brought.txt");
