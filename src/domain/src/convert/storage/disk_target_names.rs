//! Assigns target names to disks: `vda`, `sdb`, ... Names in the VMI's status are kept.

use std::collections::{HashMap, HashSet};

use kubevirt_api::vmi::{Disk, Vmi};

use crate::convert::error::ConvertError;

/// The number of names per prefix, which have at most three letters after it.
const MAX_NAMES: usize = 26 + 26 * 26 + 26 * 26 * 26;

/// The names in use.
pub(crate) struct DeviceNames<'a> {
    /// Names from the VMI's status, by prefix and disk.
    recorded: HashMap<(&'static str, &'a str), &'a str>,
    /// Indices of the names assigned here, by prefix and disk. A disk that is listed twice has one name.
    assigned: HashMap<(&'static str, &'a str), usize>,
    /// All names in use, with their prefix. The names of different prefixes are independent.
    used: HashSet<(&'static str, String)>,
    /// The next index of each prefix. All names with a lower index are in use.
    next: HashMap<&'static str, usize>,
}

/// The name of a target, and its index among the names with its prefix.
pub(crate) struct DeviceName {
    pub(crate) name: String,
    pub(crate) index: usize,
}

impl<'a> DeviceNames<'a> {
    pub(crate) fn new(vmi: &'a Vmi) -> Self {
        let mut names = Self {
            recorded: HashMap::new(),
            assigned: HashMap::new(),
            used: HashSet::new(),
            next: HashMap::new(),
        };
        let statuses = vmi.status.volume_status.iter();
        let targets: HashMap<_, _> = statuses
            .filter(|status| !status.target.is_empty())
            .map(|status| (status.name.as_str(), status.target.as_str()))
            .collect();
        for disk in &vmi.spec.domain.devices.disks {
            let target = targets.get(disk.name.as_str());
            if let (Some(prefix), Some(target)) = (prefix(disk.bus()), target) {
                names.recorded.insert((prefix, &disk.name), target);
                names.used.insert((prefix, (*target).to_owned()));
            }
        }
        names
    }

    /// The disk's name from the status, or the first unused name with the prefix of its bus.
    pub(crate) fn take(&mut self, disk: &'a Disk, field: &str) -> Result<DeviceName, ConvertError> {
        let prefix = prefix(disk.bus()).ok_or_else(|| ConvertError::Value {
            field: field.to_owned(),
            value: disk.bus().to_owned(),
            allowed: "virtio, sata, scsi or usb",
        })?;
        if let Some(name) = self.recorded.get(&(prefix, disk.name.as_str())) {
            let index = name
                .strip_prefix(prefix)
                .and_then(index_of)
                .unwrap_or_default();
            return Ok(DeviceName {
                name: (*name).to_owned(),
                index,
            });
        }
        if let Some(index) = self.assigned.get(&(prefix, disk.name.as_str())).copied() {
            return Ok(DeviceName {
                name: name_at(prefix, index),
                index,
            });
        }
        let next = self.next.entry(prefix).or_default();
        let (index, name) = (*next..MAX_NAMES)
            .map(|index| (index, (prefix, name_at(prefix, index))))
            .find(|(_, name)| !self.used.contains(name))
            .ok_or_else(|| {
                ConvertError::invalid(format!("{field}: there is no device name left"))
            })?;
        *next = index + 1;
        self.assigned.insert((prefix, &disk.name), index);
        Ok(DeviceName {
            name: name.1,
            index,
        })
    }
}

fn prefix(bus: &str) -> Option<&'static str> {
    match bus {
        "virtio" => Some("vd"),
        "sata" | "scsi" | "usb" => Some("sd"),
        _ => None,
    }
}

/// The name with this index: `a` to `z`, then `aa` and so on, as in the kernel.
fn name_at(prefix: &str, mut index: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(char::from(
            b'a' + u8::try_from(index % 26).unwrap_or_default(),
        ));
        match (index / 26).checked_sub(1) {
            Some(rest) => index = rest,
            None => break,
        }
    }
    prefix.chars().chain(letters.into_iter().rev()).collect()
}

fn index_of(letters: &str) -> Option<usize> {
    if letters.is_empty() || letters.len() > 3 {
        return None;
    }
    letters
        .bytes()
        .try_fold(0, |index, letter| {
            letter
                .is_ascii_lowercase()
                .then(|| index * 26 + usize::from(letter - b'a') + 1)
        })
        .map(|index| index - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbered_as_in_the_kernel() {
        let names = [
            (0, "vda"),
            (25, "vdz"),
            (26, "vdaa"),
            (701, "vdzz"),
            (702, "vdaaa"),
        ];
        for (index, name) in names {
            assert_eq!(name_at("vd", index), name);
            assert_eq!(index_of(&name[2..]), Some(index));
        }
        assert_eq!(index_of("A"), None);
        assert_eq!(index_of(""), None);
    }
}
