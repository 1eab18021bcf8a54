//! Target names of disks: `vda`, `sdb`, ... Names from the VMI's status are kept.

use std::collections::{HashMap, HashSet};

use kubevirt_api::vmi::{Disk, Vmi};

use crate::convert::error::ConvertError;

/// Names have at most three letters.
const MAX_DISKS: usize = 26 + 26 * 26 + 26 * 26 * 26;

/// The names in use.
pub(crate) struct DeviceNames<'a> {
    /// Names from the status, by prefix and disk.
    recorded: HashMap<(&'static str, &'a str), &'a str>,
    /// Indices by prefix and disk; a disk that is listed twice has one name.
    given: HashMap<(&'static str, &'a str), usize>,
    /// All names with their prefix, since names on another bus are independent.
    used: HashSet<(&'static str, String)>,
    /// The next index of each prefix; no name before it is free.
    next: HashMap<&'static str, usize>,
}

/// A target's name, and its index among those of its prefix.
pub(crate) struct DeviceName {
    pub(crate) name: String,
    pub(crate) index: usize,
}

impl<'a> DeviceNames<'a> {
    pub(crate) fn new(vmi: &'a Vmi) -> Self {
        let mut names = Self {
            recorded: HashMap::new(),
            given: HashMap::new(),
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

    /// The disk's name from the status, or the first free name of its bus.
    pub(crate) fn take(&mut self, disk: &'a Disk, field: &str) -> Result<DeviceName, ConvertError> {
        let prefix = prefix(disk.bus()).ok_or_else(|| ConvertError::Value {
            field: field.to_owned(),
            value: disk.bus().to_owned(),
            allowed: "virtio, sata, scsi or usb",
        })?;
        if let Some(name) = self.recorded.get(&(prefix, disk.name.as_str())) {
            let index = name
                .strip_prefix(prefix)
                .and_then(index)
                .unwrap_or_default();
            return Ok(DeviceName {
                name: (*name).to_owned(),
                index,
            });
        }
        if let Some(index) = self.given.get(&(prefix, disk.name.as_str())).copied() {
            return Ok(DeviceName {
                name: format(prefix, index),
                index,
            });
        }
        let next = self.next.entry(prefix).or_default();
        let (index, name) = (*next..MAX_DISKS)
            .map(|index| (index, (prefix, format(prefix, index))))
            .find(|(_, name)| !self.used.contains(name))
            .ok_or_else(|| {
                ConvertError::refused(format!("{field}: there is no device name left"))
            })?;
        *next = index + 1;
        self.given.insert((prefix, &disk.name), index);
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

/// `a` to `z`, then `aa`, as in the kernel.
fn format(prefix: &str, mut index: usize) -> String {
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

fn index(letters: &str) -> Option<usize> {
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
    fn names_are_counted_like_those_of_the_kernel() {
        let names = [
            (0, "vda"),
            (25, "vdz"),
            (26, "vdaa"),
            (701, "vdzz"),
            (702, "vdaaa"),
        ];
        for (place, name) in names {
            assert_eq!(format("vd", place), name);
            assert_eq!(index(&name[2..]), Some(place));
        }
        assert_eq!(index("A"), None);
        assert_eq!(index(""), None);
    }
}
