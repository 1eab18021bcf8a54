//! Settings of a running VM that a sync does not change: compares the VM's values with those in the VMI now.

use std::collections::BTreeMap;

use kubevirt_api::vmi::Vmi;

use crate::convert::requested_vcpus;

/// The settings with which a VM runs and which a sync does not change. They come from VMIs and not from the domain,
/// which hooks may have changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunningSettings {
    vcpus: Option<u32>,
    /// The guest's memory in bytes.
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
            vcpus: requested_vcpus(vmi).ok(),
            memory: memory.and_then(|memory| Some(memory.guest.as_ref()?.value())),
            macs: interfaces
                .map(|interface| {
                    let mac = interface.mac_address.to_lowercase();
                    (interface.name.clone(), mac)
                })
                .collect(),
            caches: disks
                .map(|disk| (disk.name.clone(), disk.cache.clone()))
                .collect(),
        }
    }

    /// Records that the VM has the vCPUs of this VMI now.
    pub fn set_vcpus(&mut self, vmi: &Vmi) {
        self.vcpus = RunningSettings::of(vmi).vcpus;
    }

    /// Records that the VM has the memory of this VMI now.
    pub fn set_memory(&mut self, vmi: &Vmi) {
        self.memory = RunningSettings::of(vmi).memory;
    }

    /// The differences to the settings in `now`, which the running VM does not get. Settings of new devices are added
    /// to `self`, and those of removed devices are removed.
    pub fn unapplied(&mut self, now: &RunningSettings) -> Vec<String> {
        let mut differences = Vec::new();
        if let (Some(running), Some(wanted)) = (self.vcpus, now.vcpus)
            && running != wanted
        {
            differences.push(format!("{wanted} processors (it has {running})"));
        }
        if let (Some(running), Some(wanted)) = (self.memory, now.memory)
            && running != wanted
        {
            differences.push(format!("{wanted} bytes of memory (it has {running})"));
        }
        for (device, setting, running, wanted) in changed_device_settings(self, now) {
            differences.push(format!(
                "{setting} {wanted:?} of {device} (it has {running:?})"
            ));
        }
        update_devices(&mut self.macs, &now.macs);
        update_devices(&mut self.caches, &now.caches);
        differences
    }
}

/// Device, name of the setting, running value and wanted value of each setting that differs.
fn changed_device_settings<'a>(
    running: &'a RunningSettings,
    now: &'a RunningSettings,
) -> impl Iterator<Item = (&'a String, &'static str, &'a String, &'a String)> {
    let lists = [
        ("MAC address", &running.macs, &now.macs),
        ("cache mode", &running.caches, &now.caches),
    ];
    lists.into_iter().flat_map(|(setting, running, now)| {
        running.iter().filter_map(move |(device, value)| {
            let wanted = now.get(device).filter(|wanted| *wanted != value)?;
            Some((device, setting, value, wanted))
        })
    })
}

/// Removes devices that are gone, and adds the settings of new devices.
fn update_devices(running: &mut BTreeMap<String, String>, now: &BTreeMap<String, String>) {
    running.retain(|device, _| now.contains_key(device));
    for (device, value) in now {
        running
            .entry(device.clone())
            .or_insert_with(|| value.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn settings_with(edit: impl FnOnce(&mut Value)) -> RunningSettings {
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
        let mut running = settings_with(|_| {});
        assert_eq!(running.unapplied(&settings_with(|_| {})), [""; 0]);
        let changed = settings_with(|vmi| {
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
        assert_eq!(running.unapplied(&changed), expected);
        assert_eq!(
            running.unapplied(&changed),
            expected,
            "the VM keeps its settings"
        );
    }

    #[test]
    fn hotplugged_vcpus_and_memory_are_not_listed() {
        let json = json!({"metadata": {"name": "vm1", "namespace": "default", "uid": "1"},
            "spec": {"domain": {"cpu": {"sockets": 2}, "memory": {"guest": "2Gi"}}}});
        let vmi = Vmi::from_json(json.to_string().as_bytes()).unwrap();
        let now = RunningSettings::of(&vmi);
        let mut running = settings_with(|_| {});
        assert_eq!(running.unapplied(&now).len(), 2);
        running.set_vcpus(&vmi);
        running.set_memory(&vmi);
        assert_eq!(running.unapplied(&now), [""; 0]);
    }

    #[test]
    fn device_that_is_attached_again_may_have_other_settings() {
        let mut running = settings_with(|_| {});
        let unplugged = settings_with(|vmi| vmi["spec"]["domain"]["devices"] = json!({}));
        assert_eq!(running.unapplied(&unplugged), [""; 0]);
        let again = settings_with(|vmi| {
            vmi["spec"]["domain"]["devices"]["disks"][0]["cache"] = json!("writeback");
        });
        assert_eq!(running.unapplied(&again), [""; 0]);
    }
}
