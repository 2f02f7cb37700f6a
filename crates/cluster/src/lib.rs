//! One fair limit over many proxies in front of one network.
//!
//! Each member [reports](Report) what its clients ask for, several times a second, and computes from the reports of
//! all what it may send ([`divide`]): what one queue with all clients in it would give to each of them, so that a client
//! has one share, however many members it uses. All compute the same from the same reports, so there is no leader.
//!
//! What it is not: it knows no bus, reads no clock and sends nothing. Reports come in and go out as bytes.
//!
//! Read first: [`Member`], [`divide`], [`Report`].

mod division;
mod member;
mod report;

pub use self::{
    division::{Part, divide},
    member::{Activity, Division, Member},
    report::{Demand, INTERVAL, Report, Unread},
};
