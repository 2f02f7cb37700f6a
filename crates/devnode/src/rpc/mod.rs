//! The RPC dialect of CometBFT 0.38.17: requests, answers, and the three ways they travel.

pub(crate) mod http;
pub(crate) mod methods;
pub(crate) mod params;
pub(crate) mod table;
pub(crate) mod uri;
pub(crate) mod ws;
