//! The queries of `abci_query`: accounts, balances, prefix, coin, price of gas, simulation.

use ::cosmos::{Coin, proto, query};

use super::{Bank, Decoded, Layer, Ledger, QueryAnswer, Refusal, ante};

impl Bank {
    /// Answers a query of the services that transfers need.
    pub(super) fn answer(&self, path: &str, request: &[u8]) -> QueryAnswer {
        let answered = match path {
            query::BECH32_PREFIX => Ok(text(&self.prefix.to_string())),
            query::NODE_CONFIG => Ok(text(&self.config.min_gas_price)),
            query::STAKING_PARAMS => Ok(self.staking()),
            query::ACCOUNT => self.account(request),
            query::BALANCE => self.balance(request),
            query::SIMULATE => self.simulate(request),
            _ => Err(Refusal::new(6, "unknown query path")),
        };
        let height = self.read().height;
        match answered {
            Ok(value) => QueryAnswer {
                height,
                value: Some(value),
                ..QueryAnswer::default()
            },
            Err(refusal) => QueryAnswer {
                codespace: refusal.codespace,
                code: refusal.code,
                log: refusal.log,
                height,
                value: None,
            },
        }
    }

    fn staking(&self) -> Vec<u8> {
        let mut out = Vec::new();
        proto::nested(&mut out, 1, |out| {
            proto::bytes(out, 5, self.config.denom.as_bytes());
        });
        out
    }

    fn account(&self, request: &[u8]) -> Result<Vec<u8>, Refusal> {
        let [text, _] = query::read_texts(request).map_err(invalid)?;
        let address = self.prefix.read(text).map_err(invalid)?;
        let state = self.read();
        let account = state.ledger.accounts.get(&address).ok_or_else(|| {
            let log = format!("rpc error: code = NotFound desc = account {text} not found");
            Refusal::new(22, log)
        })?;
        Ok(query::Account {
            address: text.to_owned(),
            key: account.key,
            number: account.number,
            sequence: account.sequence,
        }
        .write())
    }

    fn balance(&self, request: &[u8]) -> Result<Vec<u8>, Refusal> {
        let [text, denom] = query::read_texts(request).map_err(invalid)?;
        let address = self.prefix.read(text).map_err(invalid)?;
        let state = self.read();
        let account = state.ledger.accounts.get(&address);
        let own = account.filter(|_| denom == self.config.denom);
        let coin = Coin::new(own.map_or(0, |account| account.balance), denom);
        let mut out = Vec::new();
        proto::nested(&mut out, 1, |out| coin.write(out));
        Ok(out)
    }

    fn simulate(&self, request: &[u8]) -> Result<Vec<u8>, Refusal> {
        let tx = query::read_simulate_request(request).map_err(invalid)?;
        let failed = |refusal: Refusal, gas: u64| {
            let log = refusal.log;
            let log = format!("rpc error: code = Unknown desc = {log} with gas used: '{gas}'");
            Refusal::new(6, log)
        };
        let tx = Decoded::read(tx).map_err(|refusal| failed(refusal, 0))?;
        let (state, mut above) = (self.read(), Ledger::default());
        let mut layer = Layer {
            next_number: 0,
            below: [&state.ledger; 2],
            above: &mut above,
        };
        let used = self.execute(&mut layer, &tx, ante::Mode::Simulate);
        let used = used.map_err(|failure| failed(failure.refusal, failure.gas))?;
        Ok(query::write_gas_used(used))
    }
}

fn text(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    proto::bytes(&mut out, 1, text.as_bytes());
    out
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "a mapping of errors takes them by value"
)]
fn invalid(error: ::cosmos::Error) -> Refusal {
    Refusal::new(18, error.to_string())
}
