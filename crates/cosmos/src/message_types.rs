//! Descriptors: of the messages that are known here, and of those in a `FileDescriptorSet`.

use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto,
    FileDescriptorProto,
};
use prost_reflect::{DescriptorPool, MessageDescriptor};

use crate::Error;

/// The types whose fields have names here.
#[derive(Debug, Clone)]
pub struct MessageTypes {
    /// Those that somebody gave, first.
    pools: Vec<DescriptorPool>,
}

impl MessageTypes {
    /// Common messages of the SDK's modules, of IBC's transfers and of CosmWasm.
    ///
    /// # Panics
    /// Never: the table is held to the rules of descriptors by a test.
    #[must_use]
    pub fn known() -> Self {
        let mut pool = DescriptorPool::global();
        let added = pool.add_file_descriptor_protos(files());
        added.expect("the table below has no type that it does not describe");
        Self { pools: vec![pool] }
    }

    /// Adds a `FileDescriptorSet` (`protoc --include_imports --descriptor_set_out`), whose types go before those
    /// that are known.
    ///
    /// # Errors
    /// [`Error::Template`]: what is wrong with it.
    pub fn add(&mut self, descriptors: &[u8]) -> Result<(), Error> {
        let given = DescriptorPool::decode(descriptors).map_err(|error| {
            Error::Template(format!(
                "it is no FileDescriptorSet of whole files ({error}); make one with buf build -o FILE, or with protoc \
                 --include_imports --descriptor_set_out=FILE"
            ))
        })?;
        // With those that are known, if they go together, so that messages of both may hold each other.
        let mut both = DescriptorPool::global();
        let added = both
            .decode_file_descriptor_set(descriptors)
            .and_then(|()| both.add_file_descriptor_protos(files()));
        self.pools.insert(0, added.map_or(given, |()| both));
        Ok(())
    }

    /// The type of this URL.
    pub(crate) fn get(&self, type_url: &str) -> Option<MessageDescriptor> {
        let name = type_url.rsplit('/').next().unwrap_or(type_url);
        let mut pools = self.pools.iter();
        pools.find_map(|pool| pool.get_message_by_name(name))
    }

    /// The URLs of all types.
    pub(crate) fn urls(&self) -> impl Iterator<Item = String> + '_ {
        let types = self.pools.iter().flat_map(DescriptorPool::all_messages);
        types.map(|message| format!("/{}", message.full_name()))
    }
}

/// The table as files, one for each package.
fn files() -> Vec<FileDescriptorProto> {
    let mut files: Vec<FileDescriptorProto> = Vec::new();
    for line in KNOWN.lines() {
        let (name, fields) = line.split_once(' ').unwrap_or((line, ""));
        let (package, name) = name.rsplit_once('.').unwrap_or(("", name));
        if files.last().is_none_or(|file| file.package() != package) {
            let before = files.iter().map(|file| file.name().to_owned());
            let google = ["any", "timestamp", "duration"];
            let google = google.map(|name| format!("google/protobuf/{name}.proto"));
            files.push(FileDescriptorProto {
                name: Some(format!("known/{package}.proto")),
                package: Some(package.to_owned()),
                dependency: google.into_iter().chain(before).collect(),
                syntax: Some("proto3".to_owned()),
                ..FileDescriptorProto::default()
            });
        }
        let Some(file) = files.last_mut() else {
            continue;
        };
        match fields.split_once("enum ") {
            Some((_, values)) => file.enum_type.push(enumeration(name, values)),
            None => file.message_type.push(DescriptorProto {
                name: Some(name.to_owned()),
                field: fields.split_whitespace().filter_map(field).collect(),
                ..DescriptorProto::default()
            }),
        }
    }
    files
}

/// `amount=3:*cosmos.base.v1beta1.Coin`: name, number, type, a star where it is repeated.
fn field(text: &str) -> Option<FieldDescriptorProto> {
    let (name, rest) = text.split_once('=')?;
    let (number, kind) = rest.split_once(':')?;
    let (label, kind) = match kind.strip_prefix('*') {
        Some(kind) => (Label::Repeated, kind),
        None => (Label::Optional, kind),
    };
    let (r#type, type_name) = match kind {
        "string" => (Some(Type::String), None),
        "bytes" => (Some(Type::Bytes), None),
        "bool" => (Some(Type::Bool), None),
        "uint64" => (Some(Type::Uint64), None),
        // Whether it is a message or an enumeration follows from the name.
        name => (None, Some(format!(".{name}"))),
    };
    Some(FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: number.parse().ok(),
        label: Some(label.into()),
        r#type: r#type.map(Into::into),
        type_name,
        ..FieldDescriptorProto::default()
    })
}

fn enumeration(name: &str, values: &str) -> EnumDescriptorProto {
    let values = (0..).zip(values.split_whitespace());
    let values = values.map(|(number, name)| EnumValueDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        ..EnumValueDescriptorProto::default()
    });
    EnumDescriptorProto {
        name: Some(name.to_owned()),
        value: values.collect(),
        ..EnumDescriptorProto::default()
    }
}

/// Types, each with its fields; packages in the order in which they use each other (cosmos-sdk 0.50, ibc-go 8, wasmd
/// 0.50: their `proto` folders).
const KNOWN: &str = "\
cosmos.base.v1beta1.Coin denom=1:string amount=2:string
cosmos.bank.v1beta1.MsgSend from_address=1:string to_address=2:string amount=3:*cosmos.base.v1beta1.Coin
cosmos.bank.v1beta1.Input address=1:string coins=2:*cosmos.base.v1beta1.Coin
cosmos.bank.v1beta1.Output address=1:string coins=2:*cosmos.base.v1beta1.Coin
cosmos.bank.v1beta1.MsgMultiSend inputs=1:*cosmos.bank.v1beta1.Input outputs=2:*cosmos.bank.v1beta1.Output
cosmos.staking.v1beta1.MsgDelegate delegator_address=1:string validator_address=2:string amount=3:cosmos.base.v1beta1.Coin
cosmos.staking.v1beta1.MsgUndelegate delegator_address=1:string validator_address=2:string amount=3:cosmos.base.v1beta1.Coin
cosmos.staking.v1beta1.MsgBeginRedelegate delegator_address=1:string validator_src_address=2:string validator_dst_address=3:string amount=4:cosmos.base.v1beta1.Coin
cosmos.distribution.v1beta1.MsgSetWithdrawAddress delegator_address=1:string withdraw_address=2:string
cosmos.distribution.v1beta1.MsgWithdrawDelegatorReward delegator_address=1:string validator_address=2:string
cosmos.distribution.v1beta1.MsgWithdrawValidatorCommission validator_address=1:string
cosmos.distribution.v1beta1.MsgFundCommunityPool amount=1:*cosmos.base.v1beta1.Coin depositor=2:string
cosmos.gov.v1.VoteOption enum VOTE_OPTION_UNSPECIFIED VOTE_OPTION_YES VOTE_OPTION_ABSTAIN VOTE_OPTION_NO VOTE_OPTION_NO_WITH_VETO
cosmos.gov.v1.MsgVote proposal_id=1:uint64 voter=2:string option=3:cosmos.gov.v1.VoteOption metadata=4:string
cosmos.gov.v1.MsgDeposit proposal_id=1:uint64 depositor=2:string amount=3:*cosmos.base.v1beta1.Coin
cosmos.gov.v1.MsgSubmitProposal messages=1:*google.protobuf.Any initial_deposit=2:*cosmos.base.v1beta1.Coin proposer=3:string metadata=4:string title=5:string summary=6:string expedited=7:bool
cosmos.authz.v1beta1.GenericAuthorization msg=1:string
cosmos.authz.v1beta1.Grant authorization=1:google.protobuf.Any expiration=2:google.protobuf.Timestamp
cosmos.authz.v1beta1.MsgGrant granter=1:string grantee=2:string grant=3:cosmos.authz.v1beta1.Grant
cosmos.authz.v1beta1.MsgExec grantee=1:string msgs=2:*google.protobuf.Any
cosmos.authz.v1beta1.MsgRevoke granter=1:string grantee=2:string msg_type_url=3:string
cosmos.feegrant.v1beta1.BasicAllowance spend_limit=1:*cosmos.base.v1beta1.Coin expiration=2:google.protobuf.Timestamp
cosmos.feegrant.v1beta1.MsgGrantAllowance granter=1:string grantee=2:string allowance=3:google.protobuf.Any
cosmos.feegrant.v1beta1.MsgRevokeAllowance granter=1:string grantee=2:string
ibc.core.client.v1.Height revision_number=1:uint64 revision_height=2:uint64
ibc.applications.transfer.v1.MsgTransfer source_port=1:string source_channel=2:string token=3:cosmos.base.v1beta1.Coin sender=4:string receiver=5:string timeout_height=6:ibc.core.client.v1.Height timeout_timestamp=7:uint64 memo=8:string
cosmwasm.wasm.v1.MsgExecuteContract sender=1:string contract=2:string msg=3:bytes funds=5:*cosmos.base.v1beta1.Coin";
