//! Lists of endpoints: the payload of a peer response, and the alternatives of a refusal.

use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{CodecError, v11};
use crate::{endpoint::Endpoint, parcel::Version};

/// The payload of a peer response. In V11 an empty list has no bytes, and no parcel can carry it.
pub fn encode_share(version: Version, network: u32, endpoints: &[Endpoint]) -> Vec<u8> {
    match version {
        Version::V9 => json(endpoints.iter().map(|endpoint| V9Entry {
            quality_score: 20,
            address: endpoint.host().to_owned(),
            port: endpoint.port().to_string(),
            node_id: 1,
            hash: endpoint.host().to_owned(),
            location: location(endpoint.host()),
            network,
            kind: 0,
            connections: 1,
            last_contact: NEVER,
            source: Empty {},
        })),
        Version::V10 => encode_json(endpoints),
        Version::V11 => {
            let mut out = Vec::new();
            v11::put_endpoints(&mut out, 1, endpoints);
            out
        }
    }
}

/// The endpoints in a peer response's payload.
///
/// # Errors
/// The payload is malformed or names an endpoint that is none: then factom-p2p ignores the whole
/// list, and so does this.
pub fn decode_share(version: Version, payload: &[u8]) -> Result<Vec<Endpoint>, CodecError> {
    match version {
        Version::V9 => entries(payload, |entry: V9Known| (entry.address, entry.port)),
        Version::V10 => decode_json(payload),
        Version::V11 => v11::endpoints(payload),
    }
}

pub(super) fn encode_json(endpoints: &[Endpoint]) -> Vec<u8> {
    json(endpoints.iter().map(|endpoint| Entry {
        ip: endpoint.host().to_owned(),
        port: endpoint.port().to_string(),
    }))
}

pub(super) fn decode_json(payload: &[u8]) -> Result<Vec<Endpoint>, CodecError> {
    entries(payload, |entry: Entry| (entry.ip, entry.port))
}

/// As Go writes a list: an empty one is `null`.
fn json<T: Serialize>(entries: impl Iterator<Item = T>) -> Vec<u8> {
    let entries: Vec<T> = entries.collect();
    let entries = (!entries.is_empty()).then_some(entries);
    serde_json::to_vec(&entries).expect("texts and numbers are JSON")
}

fn entries<T: for<'a> Deserialize<'a>>(
    payload: &[u8],
    parts: impl Fn(T) -> (String, String),
) -> Result<Vec<Endpoint>, CodecError> {
    let list: Option<Vec<T>> =
        serde_json::from_slice(payload).map_err(|error| CodecError::Share(error.to_string()))?;
    list.unwrap_or_default()
        .into_iter()
        .map(|entry| {
            let (host, port) = parts(entry);
            Endpoint::from_texts(&host, &port).map_err(|error| CodecError::Share(error.to_string()))
        })
        .collect()
}

/// V10's entry, and every gob version's alternative.
#[derive(Serialize, Deserialize)]
struct Entry {
    ip: String,
    port: String,
}

/// V9's entry, the `Peer` of the library before (factom-p2p, protocolV9.go).
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct V9Entry {
    quality_score: i32,
    address: String,
    port: String,
    #[serde(rename = "NodeID")]
    node_id: u64,
    hash: String,
    location: u32,
    network: u32,
    #[serde(rename = "Type")]
    kind: u8,
    connections: u32,
    last_contact: &'static str,
    source: Empty,
}

/// What is read of V9's entry.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct V9Known {
    address: String,
    port: String,
}

#[derive(Serialize)]
struct Empty {}

/// Go's zero `time.Time`.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// The last four bytes of an address; 0 for a name, which nothing looks up here.
fn location(host: &str) -> u32 {
    match host.parse() {
        Ok(IpAddr::V4(address)) => address.to_bits(),
        Ok(IpAddr::V6(address)) => address.to_bits() as u32,
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_share_is_null_in_json_and_nothing_in_protobuf() {
        assert_eq!(encode_share(Version::V9, 7, &[]), b"null");
        assert_eq!(encode_share(Version::V10, 7, &[]), b"null");
        assert_eq!(encode_share(Version::V11, 7, &[]), b"");
        for version in [Version::V9, Version::V10] {
            assert_eq!(decode_share(version, b"null"), Ok(vec![]));
            assert!(decode_share(version, b"").is_err());
        }
        assert_eq!(decode_share(Version::V11, b""), Ok(vec![]));
    }

    #[test]
    fn a_share_of_v9_is_the_old_librarys_peer_and_one_of_v10_an_address_and_a_port() {
        let share = [Endpoint::new("127.0.0.1", 8108).unwrap()];
        let text = |version| String::from_utf8(encode_share(version, 1, &share)).unwrap();
        assert_eq!(text(Version::V10), r#"[{"ip":"127.0.0.1","port":"8108"}]"#);
        assert_eq!(
            text(Version::V9),
            concat!(
                r#"[{"QualityScore":20,"Address":"127.0.0.1","Port":"8108","NodeID":1,"#,
                r#""Hash":"127.0.0.1","Location":2130706433,"Network":1,"Type":0,"Connections":1,"#,
                r#""LastContact":"0001-01-01T00:00:00Z","Source":{}}]"#
            )
        );
    }

    #[test]
    fn a_share_with_one_bad_entry_is_refused_whole() {
        let share = br#"[{"ip":"127.0.0.1","port":"1"},{"ip":"127.0.0.1","port":"0"}]"#;
        assert!(decode_share(Version::V10, share).is_err());
    }
}
