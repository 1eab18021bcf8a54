//! Decodes the guest agent's answers within limits.
//!
//! The guest is not trusted. An answer that is too large is an error before it is parsed. The decoder keeps a limited
//! number of list items and of characters per text, and the JSON parser limits the nesting. Items beyond a limit are
//! left out. Control characters become U+FFFD, since the texts appear in logs and in the VMI's status.

use std::fmt;
use std::marker::PhantomData;

use kubevirt_api::domain_json::{GuestOsInfo, InterfaceStatus};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};

use super::quote;
use crate::domain_stats_json::Load;
use crate::guest_agent::guest_info_cache::{
    AgentCommand, AgentVersion, Filesystem, FilesystemDisk, FreezeStatus, Timezone, User,
};

/// Maximum size of an answer in bytes. A list of 40 commands takes 2 KiB, one of 100 file systems 30 KiB.
pub(crate) const MAX_ANSWER_BYTES: usize = 512 * 1024;

/// An invalid answer of the guest agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The answer is too large.
    #[error(
        "the guest agent's answer has {bytes} bytes, more than the {MAX_ANSWER_BYTES} that are read"
    )]
    Size {
        /// The size of the answer.
        bytes: usize,
    },
    /// The answer does not follow the agent's protocol.
    #[error("the guest agent's answer cannot be read: {0}")]
    Content(String),
}

impl AnswerError {
    /// An error about the content. The text is shortened and made printable, since it may quote the answer.
    pub(super) fn content(error: &str) -> AnswerError {
        AnswerError::Content(quote(error))
    }
}

#[derive(Deserialize)]
struct Answer<T> {
    #[serde(rename = "return")]
    value: T,
}

/// The `return` value of an answer.
pub(super) fn decode<'a, T: Deserialize<'a>>(answer: &'a str) -> Result<T, AnswerError> {
    check_size(answer)?;
    let answer: Answer<T> =
        serde_json::from_str(answer).map_err(|error| AnswerError::content(&error.to_string()))?;
    Ok(answer.value)
}

/// Checks the size of an answer that is passed on without decoding.
pub(crate) fn check_size(answer: &str) -> Result<(), AnswerError> {
    match answer.len() {
        0..=MAX_ANSWER_BYTES => Ok(()),
        bytes => Err(AnswerError::Size { bytes }),
    }
}

/// Decodes the answer to `guest-fsfreeze-freeze`: the number of file systems that were frozen.
pub(crate) fn frozen_count(answer: &str) -> Result<u64, AnswerError> {
    decode(answer)
}

/// A name, version or serial number.
type Name = Text<256>;

/// A path in the guest.
type Path = Text<4096>;

const MAX_COMMANDS: usize = 512;
const MAX_USERS: usize = 512;
const MAX_FILESYSTEMS: usize = 512;
const MAX_DISKS: usize = 32;

#[derive(Deserialize)]
struct Info {
    version: Name,
    #[serde(default)]
    supported_commands: List<Command, MAX_COMMANDS>,
}

#[derive(Deserialize)]
struct Command {
    name: Name,
    #[serde(default)]
    enabled: bool,
}

/// Decodes the answer to `guest-info`.
pub(crate) fn agent_version(answer: &str) -> Result<AgentVersion, AnswerError> {
    let info: Info = decode(answer)?;
    let command = |command: Command| AgentCommand {
        name: command.name.0,
        enabled: command.enabled,
    };
    Ok(AgentVersion {
        version: info.version.0,
        commands: info.supported_commands.0.into_iter().map(command).collect(),
    })
}

/// Decodes the answer to `guest-fsfreeze-status`.
pub(crate) fn freeze_status(answer: &str) -> Result<FreezeStatus, AnswerError> {
    let status: Name = decode(answer)?;
    match status.0.as_str() {
        "thawed" => Ok(FreezeStatus::Thawed),
        "frozen" => Ok(FreezeStatus::Frozen),
        other => Err(AnswerError::content(&format!(
            "freeze status {other:?} is neither thawed nor frozen"
        ))),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[derive(Default)]
struct OsInfo {
    name: Name,
    kernel_release: Name,
    version: Name,
    pretty_name: Name,
    version_id: Name,
    kernel_version: Name,
    machine: Name,
    id: Name,
}

/// Decodes the answer to `guest-get-osinfo`.
pub(crate) fn os_info(answer: &str) -> Result<GuestOsInfo, AnswerError> {
    let info: OsInfo = decode(answer)?;
    Ok(GuestOsInfo {
        name: info.name.0,
        kernel_release: info.kernel_release.0,
        version: info.version.0,
        pretty_name: info.pretty_name.0,
        version_id: info.version_id.0,
        kernel_version: info.kernel_version.0,
        machine: info.machine.0,
        id: info.id.0,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct HostName {
    host_name: Name,
}

/// Decodes the answer to `guest-get-host-name`.
pub(crate) fn hostname(answer: &str) -> Result<String, AnswerError> {
    Ok(decode::<HostName>(answer)?.host_name.0)
}

#[derive(Deserialize)]
struct Zone {
    #[serde(default)]
    zone: Name,
    #[serde(default)]
    offset: Integer,
}

/// Decodes the answer to `guest-get-timezone`.
pub(crate) fn timezone(answer: &str) -> Result<Timezone, AnswerError> {
    let Zone { zone, offset } = decode(answer)?;
    Ok(Timezone {
        zone: zone.0,
        offset: i32::try_from(offset.0).unwrap_or(0),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct LoggedInUser {
    user: Name,
    #[serde(default)]
    domain: Name,
    #[serde(default)]
    login_time: f64,
}

/// Decodes the answer to `guest-get-users`.
pub(crate) fn users(answer: &str) -> Result<Vec<User>, AnswerError> {
    let list: List<LoggedInUser, MAX_USERS> = decode(answer)?;
    let user = |logged_in: LoggedInUser| User {
        name: logged_in.user.0,
        domain: logged_in.domain.0,
        login_time: round_to_milliseconds(logged_in.login_time),
    };
    Ok(list.0.into_iter().map(user).collect())
}

/// Rounds seconds down to milliseconds, as libvirt does. A time before the epoch becomes 0.
fn round_to_milliseconds(seconds: f64) -> f64 {
    let exact = (seconds * 1000.0).floor() / 1000.0;
    if exact.is_finite() {
        exact.max(0.0)
    } else {
        0.0
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct FilesystemAnswer {
    name: Name,
    #[serde(default)]
    mountpoint: Path,
    #[serde(default, rename = "type")]
    kind: Name,
    #[serde(default)]
    used_bytes: Integer,
    #[serde(default)]
    total_bytes: Integer,
    #[serde(default)]
    disk: List<Disk, MAX_DISKS>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Disk {
    #[serde(default)]
    serial: Name,
    #[serde(default)]
    bus_type: Name,
}

/// Decodes the answer to `guest-get-fsinfo`.
pub(crate) fn filesystems(answer: &str) -> Result<Vec<Filesystem>, AnswerError> {
    let list: List<FilesystemAnswer, MAX_FILESYSTEMS> = decode(answer)?;
    let disk = |disk: Disk| FilesystemDisk {
        serial: disk.serial.0,
        bus: disk.bus_type.0,
    };
    let filesystem = |mounted: FilesystemAnswer| Filesystem {
        disk_name: mounted.name.0,
        mount_point: mounted.mountpoint.0,
        kind: mounted.kind.0,
        used_bytes: mounted.used_bytes.0,
        total_bytes: mounted.total_bytes.0,
        disks: mounted.disk.0.into_iter().map(disk).collect(),
    };
    Ok(list.0.into_iter().map(filesystem).collect())
}

#[derive(Deserialize)]
struct LoadAverages {
    #[serde(rename = "load1m")]
    one: Option<f64>,
    #[serde(rename = "load5m")]
    five: Option<f64>,
    #[serde(rename = "load15m")]
    fifteen: Option<f64>,
}

/// Decodes the answer to `guest-get-load`.
pub(crate) fn load(answer: &str) -> Result<Load, AnswerError> {
    let LoadAverages { one, five, fifteen } = decode(answer)?;
    Ok(Load { one, five, fifteen })
}

const MAX_INTERFACES: usize = 128;
const MAX_ADDRESSES: usize = 64;
/// The name of the loopback interface, which KubeVirt leaves out.
const LOOPBACK_INTERFACE: &str = "lo";

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Interface {
    name: Name,
    #[serde(default)]
    hardware_address: Name,
    #[serde(default)]
    ip_addresses: List<Address, MAX_ADDRESSES>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Address {
    ip_address: Name,
    #[serde(default)]
    ip_address_type: Name,
}

/// Decodes the answer to `guest-network-get-interfaces`. As in libvirt, an alias (`eth0:1`) belongs to its interface.
pub(crate) fn interfaces(answer: &str) -> Result<Vec<InterfaceStatus>, AnswerError> {
    let list: List<Interface, MAX_INTERFACES> = decode(answer)?;
    let mut interfaces: Vec<(InterfaceStatus, bool)> = Vec::new();
    for Interface {
        name: Text(name),
        hardware_address: Text(mac),
        ip_addresses: List(addresses),
    } in list.0
    {
        let name = name.split(':').next().unwrap_or_default();
        if name == LOOPBACK_INTERFACE {
            continue;
        }
        let existing = interfaces
            .iter()
            .position(|(interface, _)| interface.interface_name == name);
        let index = existing.unwrap_or_else(|| {
            let interface = InterfaceStatus {
                mac,
                interface_name: name.to_owned(),
                ..InterfaceStatus::default()
            };
            interfaces.push((interface, false));
            interfaces.len() - 1
        });
        if let Some((interface, has_ipv4)) = interfaces.get_mut(index) {
            add_addresses(interface, has_ipv4, addresses);
        }
    }
    Ok(interfaces
        .into_iter()
        .map(|(interface, _)| interface)
        .collect())
}

/// Adds addresses to the interface. Its main address is the first IPv4 address, else the first address.
fn add_addresses(interface: &mut InterfaceStatus, has_ipv4: &mut bool, addresses: Vec<Address>) {
    for address in addresses {
        if interface.ips.len() == MAX_ADDRESSES {
            return;
        }
        let Text(ip) = address.ip_address;
        let is_ipv4 = address.ip_address_type.0 == "ipv4";
        if interface.ips.is_empty() || (is_ipv4 && !*has_ipv4) {
            interface.ip.clone_from(&ip);
            *has_ipv4 |= is_ipv4;
        }
        interface.ips.push(ip);
    }
}

/// A text, cut off after `N` characters, with control characters replaced by U+FFFD. `null` is the empty text, since
/// the agents of some systems send it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Text<const N: usize>(String);

impl<'de, const N: usize> Deserialize<'de> for Text<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor<const N: usize>;
        impl<const N: usize> Visitor<'_> for TextVisitor<N> {
            type Value = Text<N>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text")
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                let visible = |character: char| match character.is_control() {
                    true => char::REPLACEMENT_CHARACTER,
                    false => character,
                };
                Ok(Text(text.chars().take(N).map(visible).collect()))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Text::default())
            }
        }
        deserializer.deserialize_any(TextVisitor)
    }
}

/// The first `N` items of a list. `null` is the empty list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct List<T, const N: usize>(Vec<T>);

impl<T, const N: usize> Default for List<T, N> {
    fn default() -> Self {
        List(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for List<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor<T, const N: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for ListVisitor<T, N> {
            type Value = List<T, N>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut list = Vec::new();
                while list.len() < N {
                    match items.next_element()? {
                        Some(item) => list.push(item),
                        None => return Ok(List(list)),
                    }
                }
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(List(list))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(List::default())
            }
        }
        deserializer.deserialize_any(ListVisitor(PhantomData))
    }
}

/// A number, limited to the range of `i64`; a fraction is cut off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Integer(i64);

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        let unsigned = || number.as_u64().map(|_| i64::MAX);
        #[allow(
            clippy::cast_possible_truncation,
            reason = "the cast saturates, as intended"
        )]
        let float = || number.as_f64().map(|float| float as i64);
        Ok(Integer(
            number
                .as_i64()
                .or_else(unsigned)
                .or_else(float)
                .unwrap_or(0),
        ))
    }
}

#[cfg(test)]
mod tests;
