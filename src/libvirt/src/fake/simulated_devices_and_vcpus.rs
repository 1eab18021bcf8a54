//! Changes of devices, virtual CPUs and IO threads in the running and the persistent configuration of a simulated domain.

use std::collections::BTreeSet;

use domain_xml::{Document, Element};

use super::errors::{qemu_error, xml_error};
use super::qemu_monitor;
use super::simulated_domain::{DefinitionXml, Events, SimulatedDomain};
use crate::domain::Affect;
use crate::error::{Error, Result, code, origin};
use crate::event::{Detail, Event, LifecycleEvent};

impl SimulatedDomain {
    pub(super) fn attach_device(&mut self, xml: &str, to: Affect) -> Result<Events> {
        let device = parse_device(xml)?;
        qemu_monitor::refuse_duplicate_id(self, &alias(&device))?;
        self.change_devices(to, |config| {
            if let Some(target) = disk_target(&device)
                && config.devices().any(|other| is_same(other, &device))
            {
                return Err(qemu_error(
                    code::OPERATION_FAILED,
                    format!("operation failed: target {target} already exists"),
                ));
            }
            if let Some(id) = missing_io_thread(&device, &config.io_threads()) {
                let message = format!(
                    "unsupported configuration: Disk iothread '{id}' not defined in iothreadid"
                );
                return Err(qemu_error(code::CONFIG_UNSUPPORTED, message));
            }
            config.devices_mut().append(device.clone());
            Ok(())
        })?;
        let added = Event::DeviceAdded {
            domain: self.name.clone(),
            alias: alias(&device),
        };
        Ok(self.device_events(to, Some(added)))
    }

    /// Detaches a device. If the guest keeps its devices, the device stays in the running configuration.
    pub(super) fn detach_device(&mut self, xml: &str, from: Affect) -> Result<Events> {
        let device = parse_device(xml)?;
        let keeps_devices = self.keeps_devices;
        let is_running = self.is_active();
        self.change_live_and_config(from, |config, is_live| {
            if !config.devices().any(|other| is_same(other, &device)) {
                return Err(device_missing(&device));
            }
            if !(is_live && keeps_devices) {
                config
                    .devices_mut()
                    .remove_children(|other| is_same(other, &device));
            }
            Ok(())
        })?;
        let is_gone = is_running && !keeps_devices;
        let removed = is_gone.then(|| self.device_removed(&device));
        if !is_gone {
            self.kept_devices.push(device);
        }
        Ok(self.device_events(from, removed))
    }

    /// Detaches the devices that the guest was asked to release and has kept.
    pub(super) fn release_devices(&mut self) -> Events {
        let kept = std::mem::take(&mut self.kept_devices);
        let mut events = Vec::new();
        for device in kept {
            if let Some(active) = &mut self.active {
                let devices = active.devices_mut();
                if devices.remove_children(|other| is_same(other, &device)) > 0 {
                    events.push(self.device_removed(&device));
                }
            }
        }
        events
    }

    fn device_removed(&self, device: &Element) -> Event {
        Event::DeviceRemoved {
            domain: self.name.clone(),
            alias: alias(device),
        }
    }

    pub(super) fn update_device(&mut self, xml: &str, of: Affect) -> Result<Events> {
        let device = parse_device(xml)?;
        self.change_devices(of, |config| {
            let devices = config.devices_mut();
            if devices.remove_children(|other| is_same(other, &device)) == 0 {
                return Err(device_missing(&device));
            }
            devices.append(device.clone());
            Ok(())
        })?;
        Ok(self.device_events(of, None))
    }

    pub(super) fn set_vcpus(&mut self, count: u32, of: Affect) -> Result<()> {
        self.change_devices(of, |config| {
            config.set_vcpus(count).map_err(|maximum| {
                let message = format!(
                    "invalid argument: requested vcpus is greater than max allowable vcpus for the \
                     live domain: {count} > {maximum}"
                );
                qemu_error(code::INVALID_ARG, message)
            })
        })
    }

    pub(super) fn add_io_thread(&mut self, id: u32, to: Affect) -> Result<()> {
        self.change_devices(to, |config| match config.add_io_thread(id) {
            true => Ok(()),
            false => {
                let message =
                    format!("invalid argument: an IOThread is already using iothread_id '{id}'");
                // libvirt's code for definitions reports this, not its QEMU driver.
                Err(Error {
                    code: code::INVALID_ARG,
                    domain: origin::DOMAIN,
                    message,
                })
            }
        })
    }

    pub(super) fn pin(&mut self, vcpu: Option<u32>, cpus: &[u32]) -> Result<()> {
        self.must_run()?;
        self.pins.insert(vcpu, cpus.to_vec());
        Ok(())
    }

    /// Changes the configurations, or none of them if a change fails.
    fn change_devices(
        &mut self,
        of: Affect,
        change: impl Fn(&mut DefinitionXml) -> Result<()>,
    ) -> Result<()> {
        self.change_live_and_config(of, |config, _| change(config))
    }

    /// As [`Self::change_devices`]. `change` is also told whether it gets the running configuration.
    fn change_live_and_config(
        &mut self,
        of: Affect,
        change: impl Fn(&mut DefinitionXml, bool) -> Result<()>,
    ) -> Result<()> {
        let (live, persistent) = affected(of);
        if live {
            self.must_run()?;
            self.must_be_idle()?;
        }
        let (mut active, mut inactive) = (self.active.clone(), self.inactive.clone());
        if let Some(inactive) = inactive.as_mut().filter(|_| persistent) {
            change(inactive, false)?;
        }
        if let Some(active) = active.as_mut().filter(|_| live) {
            change(active, true)?;
        }
        (self.active, self.inactive) = (active, inactive);
        Ok(())
    }

    /// The events of a change in libvirt's order: the definition's event comes before the device's.
    fn device_events(&self, of: Affect, device: Option<Event>) -> Events {
        let (_, persistent) = affected(of);
        let updated = persistent.then(|| self.lifecycle(LifecycleEvent::Defined, Detail::Updated));
        updated.into_iter().chain(device).collect()
    }
}

/// Whether a call changes the running and the persistent configuration.
fn affected(of: Affect) -> (bool, bool) {
    match of {
        Affect::Live => (true, false),
        Affect::Config => (false, true),
        Affect::LiveAndConfig => (true, true),
    }
}

fn device_missing(device: &Element) -> Error {
    let message = format!("device not found: no such device {}", alias(device));
    qemu_error(code::DEVICE_MISSING, message)
}

fn parse_device(xml: &str) -> Result<Element> {
    let document = Document::parse(xml).map_err(|error| xml_error(&error.to_string()))?;
    Ok(document.root().clone())
}

fn alias(device: &Element) -> String {
    let alias = device.child("alias").and_then(|alias| alias.attr("name"));
    alias.unwrap_or_default().into_owned()
}

/// An IO thread of a disk that is not among these.
fn missing_io_thread(device: &Element, ids: &BTreeSet<u32>) -> Option<u32> {
    let driver = device.child("driver").filter(|_| device.is("disk"))?;
    let pool = driver.child("iothreads").into_iter();
    let pool = pool.flat_map(|pool| pool.children_named("iothread"));
    let pool = pool.filter_map(|thread| thread.attr("id"));
    let mut used = driver.attr("iothread").into_iter().chain(pool);
    used.find_map(|id| id.parse().ok().filter(|id| !ids.contains(id)))
}

fn disk_target(device: &Element) -> Option<String> {
    let target = device.child("target").filter(|_| device.is("disk"))?;
    Some(target.attr("dev")?.into_owned())
}

/// Whether two elements describe the same device: libvirt identifies a disk by its target, other devices by their
/// alias.
fn is_same(device: &Element, other: &Element) -> bool {
    device.tag_name() == other.tag_name()
        && match disk_target(device) {
            Some(target) => disk_target(other) == Some(target),
            None => alias(device) == alias(other),
        }
}
