//! What a transaction did, as `x/auth/ante` and `x/bank/keeper` of Cosmos SDK 0.50 tell of it.

use std::borrow::Cow;

use ::cosmos::{Address, Coin, Message, Prefix, Transfer};

use super::{Decoded, coins_text};
use crate::app::Event;

/// The events of a transaction that paid its fee; those of its messages only where they took effect.
pub(crate) fn of_paid(tx: &[u8], took_effect: bool) -> Vec<Event<'static>> {
    let mut events = Events::default();
    if let Ok(tx) = Decoded::read(tx)
        && let Some(payer) = tx.payer()
    {
        events.ante(&tx, payer);
        let messages = tx.messages.iter().zip(&tx.transfers);
        for (index, (message, transfer)) in messages.enumerate().filter(|_| took_effect) {
            events.message = Some(index.to_string());
            events.of_message(message, transfer);
        }
    }
    events.events
}

#[derive(Default)]
struct Events {
    events: Vec<Event<'static>>,
    /// The number of the message that they are of.
    message: Option<String>,
}

impl Events {
    /// Adds an event; one of a message has its number, too, as the attribute `numbered`.
    fn add(&mut self, numbered: &'static str, attributes: &[(&'static str, &str)]) {
        let owned = |text: &str| Cow::Owned(text.to_owned());
        let attributes = attributes.iter().map(|(name, value)| (*name, owned(value)));
        let number = self
            .message
            .as_deref()
            .map(|index| (numbered, owned(index)));
        self.events.push(attributes.chain(number).collect());
    }

    fn ante(&mut self, tx: &Decoded<'_>, payer: &str) {
        let fee = coins_text(&tx.fee.coins);
        if tx.fee.coins.iter().any(|coin| coin.amount > 0)
            && let Some((prefix, _)) = payer.rsplit_once('1')
            && let Ok(prefix) = Prefix::new(prefix)
        {
            self.send(payer, &prefix.write(FEE_COLLECTOR), &tx.fee.coins);
        }
        let sequence = format!("{payer}/{}", tx.signer.sequence);
        let signature = base64_simd::STANDARD.encode_to_string(tx.signature());
        self.add("", &[("tx.fee", &fee), ("tx.fee_payer", payer)]);
        self.add("", &[("tx.acc_seq", &sequence)]);
        self.add("", &[("tx.signature", &signature)]);
    }

    fn of_message(&mut self, message: &Message, transfer: &Transfer) {
        let Some(input) = transfer.inputs.first() else {
            return;
        };
        let from = &*input.address;
        self.add(
            "message.msg_index",
            &[
                ("message.action", message.type_url()),
                ("message.sender", from),
                ("message.module", "bank"),
            ],
        );
        if message.type_url() != Message::MULTI_SEND {
            for output in &transfer.outputs {
                self.send(from, &output.address, &output.coins);
            }
            return;
        }
        self.spent(from, &coins_text(&input.coins));
        self.sender(from);
        for output in &transfer.outputs {
            self.received(None, &output.address, &coins_text(&output.coins));
        }
    }

    /// `SendCoins`.
    fn send(&mut self, from: &str, to: &str, coins: &[Coin]) {
        let coins = coins_text(coins);
        self.spent(from, &coins);
        self.received(Some(from), to, &coins);
        self.sender(from);
    }

    fn spent(&mut self, from: &str, coins: &str) {
        let attributes = [("coin_spent.spender", from), ("coin_spent.amount", coins)];
        self.add("coin_spent.msg_index", &attributes);
    }

    fn received(&mut self, from: Option<&str>, to: &str, coins: &str) {
        let received = [
            ("coin_received.receiver", to),
            ("coin_received.amount", coins),
        ];
        self.add("coin_received.msg_index", &received);
        let mut transfer = vec![("transfer.recipient", to)];
        transfer.extend(from.map(|from| ("transfer.sender", from)));
        transfer.push(("transfer.amount", coins));
        self.add("transfer.msg_index", &transfer);
    }

    fn sender(&mut self, from: &str) {
        self.add("message.msg_index", &[("message.sender", from)]);
    }
}

/// The account of the module that gathers fees: the first 20 bytes of SHA-256 of `fee_collector`
/// (`address.Module` in `types/address/hash.go`).
const FEE_COLLECTOR: Address = Address([
    0xf1, 0x82, 0x96, 0x76, 0xdb, 0x57, 0x76, 0x82, 0xe9, 0x44, 0xfc, 0x34, 0x93, 0xd4, 0x51, 0xb6,
    0x7f, 0xf3, 0xe2, 0x9f,
]);
