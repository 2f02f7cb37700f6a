//! A server that accepts every transaction at once; what the generator can do when nothing holds it up.
//!
//! `cargo run --release --example sink -- 127.0.0.1:26657`

use std::io::Write as _;
use std::net::SocketAddr;

use anyhow::Context as _;
use tidegate::sink::Sink;

fn main() -> anyhow::Result<()> {
    let address: SocketAddr = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:0".into())
        .parse()
        .context("give an address such as 127.0.0.1:26657")?;
    let sink = Sink::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    writeln!(std::io::stdout(), "http://{}", sink.address()?)?;
    sink.serve().context("the sink failed")
}
