//! Settings of a running VM that a sync does not change: the values with which the VM runs, and those of the VMI now.

use std::collections::BTreeMap;

use kubevirt_api::vmi::Vmi;

use crate::convert::requested_vcpus;

/// Settings that a sync leaves as they are. They are compared between VMIs, since hooks may have changed the domain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunningSettings {
    processors: Option<u32>,
    /// The guest's memory, in bytes.
    memory: Option<i64>,
    /// MAC addresses by interface.
    macs: BTreeMap<String, String>,
    /// Cache modes by disk.
    caches: BTreeMap<String, String>,
}

impl RunningSettings {
    /// The settings in this VMI.
    pub fn of(vmi: &Vmi) -> RunningSettings {
        let domain = &vmi.spec.domain;
        let memory = domain.memory.as_ref();
        let interfaces = domain.devices.interfaces.iter();
        let disks = domain.devices.disks.iter();
        RunningSettings {
            processors: requested_vcpus(vmi).ok(),
            memory: memory.and_then(|memory| Some(memory.guest.as_ref()?.value())),
            macs: interfaces
                .map(|one| (one.name.clone(), one.mac_address.to_lowercase()))
                .collect(),
            caches: disks
                .map(|disk| (disk.name.clone(), disk.cache.clone()))
                .collect(),
        }
    }

    /// The VM has the processors of this VMI now.
    pub fn set_processors(&mut self, vmi: &Vmi) {
        self.processors = RunningSettings::of(vmi).processors;
    }

    /// The VM has the memory of this VMI now.
    pub fn set_memory(&mut self, vmi: &Vmi) {
        self.memory = RunningSettings::of(vmi).memory;
    }

    /// The settings that differ in `now`, and that the running VM keeps. Settings of new devices are added to `self`, those
    /// of removed devices are removed.
    pub fn unapplied(&mut self, now: &RunningSettings) -> Vec<String> {
        let mut found = Vec::new();
        if let (Some(runs), Some(wanted)) = (self.processors, now.processors)
            && runs != wanted
        {
            found.push(format!("{wanted} processors (it has {runs})"));
        }
        if let (Some(runs), Some(wanted)) = (self.memory, now.memory)
            && runs != wanted
        {
            found.push(format!("{wanted} bytes of memory (it has {runs})"));
        }
        for (device, what, runs, wanted) in devices(self, now) {
            found.push(format!("{what} {wanted:?} of {device} (it has {runs:?})"));
        }
        follow(&mut self.macs, &now.macs);
        follow(&mut self.caches, &now.caches);
        found
    }
}

fn devices<'a>(
    runs: &'a RunningSettings,
    now: &'a RunningSettings,
) -> impl Iterator<Item = (&'a String, &'static str, &'a String, &'a String)> {
    let lists = [
        ("MAC address", &runs.macs, &now.macs),
        ("cache mode", &runs.caches, &now.caches),
    ];
    lists.into_iter().flat_map(|(what, runs, now)| {
        runs.iter().filter_map(move |(device, setting)| {
            let wanted = now.get(device).filter(|wanted| *wanted != setting)?;
            Some((device, what, setting, wanted))
        })
    })
}

fn follow(runs: &mut BTreeMap<String, String>, now: &BTreeMap<String, String>) {
    runs.retain(|device, _| now.contains_key(device));
    for (device, setting) in now {
        runs.entry(device.clone())
            .or_insert_with(|| setting.clone());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn settings(edit: impl FnOnce(&mut Value)) -> RunningSettings {
        let mut vmi = json!({
            "metadata": {"name": "vm1", "namespace": "default", "uid": "1"},
            "spec": {"domain": {"cpu": {"sockets": 1}, "memory": {"guest": "1Gi"}, "devices": {
                "interfaces": [{"name": "blue", "macAddress": "02:00:00:00:00:AB"}],
                "disks": [{"name": "data", "cache": "none"}],
            }}},
        });
        edit(&mut vmi);
        RunningSettings::of(&Vmi::from_json(vmi.to_string().as_bytes()).unwrap())
    }

    #[test]
    fn each_changed_setting_is_listed() {
        let mut runs = settings(|_| {});
        assert_eq!(runs.unapplied(&settings(|_| {})), [""; 0]);
        let changed = settings(|vmi| {
            let domain = &mut vmi["spec"]["domain"];
            domain["cpu"]["sockets"] = json!(2);
            domain["memory"]["guest"] = json!("2Gi");
            domain["devices"]["interfaces"][0]["macAddress"] = json!("02:00:00:00:00:AC");
            domain["devices"]["disks"][0]["cache"] = json!("writeback");
        });
        let expected = [
            "2 processors (it has 1)",
            "2147483648 bytes of memory (it has 1073741824)",
            "MAC address \"02:00:00:00:00:ac\" of blue (it has \"02:00:00:00:00:ab\")",
            "cache mode \"writeback\" of data (it has \"none\")",
        ];
        assert_eq!(runs.unapplied(&changed), expected);
        assert_eq!(
            runs.unapplied(&changed),
            expected,
            "the VM keeps its settings"
        );
    }

    #[test]
    fn hotplugged_cpus_and_memory_are_applied_settings() {
        let json = json!({"metadata": {"name": "vm1", "namespace": "default", "uid": "1"},
            "spec": {"domain": {"cpu": {"sockets": 2}, "memory": {"guest": "2Gi"}}}});
        let vmi = Vmi::from_json(json.to_string().as_bytes()).unwrap();
        let now = RunningSettings::of(&vmi);
        let mut runs = settings(|_| {});
        assert_eq!(runs.unapplied(&now).len(), 2);
        runs.set_processors(&vmi);
        runs.set_memory(&vmi);
        assert_eq!(runs.unapplied(&now), [""; 0]);
    }

    #[test]
    fn device_that_is_plugged_again_may_have_other_settings() {
        let mut runs = settings(|_| {});
        let unplugged = settings(|vmi| vmi["spec"]["domain"]["devices"] = json!({}));
        assert_eq!(runs.unapplied(&unplugged), [""; 0]);
        let again = settings(|vmi| {
            vmi["spec"]["domain"]["devices"]["disks"][0]["cache"] = json!("writeback");
        });
        assert_eq!(runs.unapplied(&again), [""; 0]);
    }
}
