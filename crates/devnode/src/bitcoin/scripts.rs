//! Scripts: what is checked of them, and how btcd names and prints them.

use bitcoin::hashes::{Hash as _, hash160};
use bitcoin::opcodes::Opcode;
use bitcoin::script::Instruction;
use bitcoin::secp256k1::{Message, PublicKey, Secp256k1, VerifyOnly, ecdsa};
use bitcoin::sighash::SighashCache;
use bitcoin::{Script, Transaction};

/// Where the hash of the key stands in a P2PKH script.
const KEY_HASH: std::ops::Range<usize> = 3..23;

/// Why an input does not fulfil its output's script, in btcd's words.
pub(super) fn check_p2pkh(
    secp: &Secp256k1<VerifyOnly>,
    sighashes: &SighashCache<&Transaction>,
    tx: &Transaction,
    index: usize,
    script: &Script,
) -> Result<(), &'static str> {
    let mut pushes = tx.input[index].script_sig.instructions();
    let (Some(Ok(Instruction::PushBytes(signature))), Some(Ok(Instruction::PushBytes(key))), None) =
        (pushes.next(), pushes.next(), pushes.next())
    else {
        return Err("the signature script is not a signature and a key");
    };
    if hash160::Hash::hash(key.as_bytes()).as_byte_array()[..] != script.as_bytes()[KEY_HASH] {
        return Err("OP_EQUALVERIFY failed");
    }
    let (kind, der) = signature
        .as_bytes()
        .split_last()
        .ok_or("false stack entry at end of script execution")?;
    let signature = ecdsa::Signature::from_der(der).map_err(|_| "malformed signature")?;
    let key = PublicKey::from_slice(key.as_bytes()).map_err(|_| "unsupported public key type")?;
    let digest = sighashes
        .legacy_signature_hash(index, script, u32::from(*kind))
        .map_err(|_| "the input does not exist")?;
    let message = Message::from_digest(digest.to_byte_array());
    secp.verify_ecdsa(&message, &signature, &key)
        .map_err(|_| "signature not empty on failed checksig")
}

/// The script in words, as btcd's `txscript.DisasmString` has them.
pub(super) fn disassembled(script: &Script) -> String {
    let word = |instruction: Result<Instruction<'_>, _>| match instruction {
        Ok(Instruction::PushBytes(bytes)) if bytes.is_empty() => "0".to_owned(),
        Ok(Instruction::PushBytes(bytes)) => hex(bytes.as_bytes()),
        Ok(Instruction::Op(opcode)) => opcode_name(opcode),
        Err(_) => "[error]".to_owned(),
    };
    let words: Vec<String> = script.instructions().map(word).collect();
    words.join(" ")
}

/// Small numbers are digits, other opcodes have the names of the reference.
fn opcode_name(opcode: Opcode) -> String {
    match opcode.to_u8() {
        0x4f => "-1".to_owned(),
        number @ 0x51..=0x60 => (number - 0x50).to_string(),
        _ => opcode.to_string(),
    }
}

/// btcd's name of a kind of output.
pub(super) fn class(script: &Script) -> &'static str {
    match script {
        script if script.is_p2pkh() => "pubkeyhash",
        script if script.is_p2sh() => "scripthash",
        script if script.is_p2pk() => "pubkey",
        script if script.is_op_return() => "nulldata",
        _ => "nonstandard",
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    wire::encoding::hex_text(bytes).to_lowercase()
}
