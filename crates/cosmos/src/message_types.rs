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
    /// The types that the settings name, first.
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
const KNOWN: &str = include_str!("message_types.txt");
