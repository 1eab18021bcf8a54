//! Devices of a simulated domain: found as libvirt finds them, in the running and the persistent configuration.

use domain_xml::{Document, Element};

use super::definition_xml::{DefinitionXml, xml_error};
use super::qemu_monitor;
use super::simulated_domain::{Events, SimulatedDomain};
use crate::devices::Affect;
use crate::error::{Error, Result, code, origin};
use crate::event::{Detail, Event, LifecycleEvent};

impl SimulatedDomain {
    pub(super) fn attach_device(&mut self, xml: &str, to: Affect) -> Result<Events> {
        let device = parse(xml)?;
        qemu_monitor::must_not_have(self, &alias(&device))?;
        self.change_devices(to, |config| {
            if let Some(target) = disk_target(&device)
                && config.devices().any(|one| is_same(one, &device))
            {
                return Err(Error {
                    code: code::OPERATION_FAILED,
                    domain: origin::QEMU,
                    message: format!("operation failed: target {target} already exists"),
                });
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

    /// A guest that keeps its devices is asked, and the device stays in the running configuration.
    pub(super) fn detach_device(&mut self, xml: &str, from: Affect) -> Result<Events> {
        let device = parse(xml)?;
        let keeps = self.keeps_devices;
        let is_running = self.is_active();
        self.change_devices_of(from, |config, is_live| {
            let found = config.devices().any(|one| is_same(one, &device));
            if !found {
                return Err(Error {
                    code: code::DEVICE_MISSING,
                    domain: origin::QEMU,
                    message: format!("device not found: no such device {}", alias(&device)),
                });
            }
            if !(is_live && keeps) {
                config
                    .devices_mut()
                    .remove_children(|one| is_same(one, &device));
            }
            Ok(())
        })?;
        let is_gone = is_running && !keeps;
        let removed = is_gone.then(|| self.removed(&device));
        if !is_gone {
            self.kept_devices.push(device);
        }
        Ok(self.device_events(from, removed))
    }

    /// The guest lets go of the devices that it has kept.
    pub(super) fn release_devices(&mut self) -> Events {
        let kept = std::mem::take(&mut self.kept_devices);
        let mut events = Vec::new();
        for device in kept {
            if let Some(active) = &mut self.active {
                let devices = active.devices_mut();
                if devices.remove_children(|one| is_same(one, &device)) > 0 {
                    events.push(self.removed(&device));
                }
            }
        }
        events
    }

    fn removed(&self, device: &Element) -> Event {
        Event::DeviceRemoved {
            domain: self.name.clone(),
            alias: alias(device),
        }
    }

    pub(super) fn update_device(&mut self, xml: &str, of: Affect) -> Result<Events> {
        let device = parse(xml)?;
        self.change_devices(of, |config| {
            let devices = config.devices_mut();
            if devices.remove_children(|one| is_same(one, &device)) == 0 {
                return Err(Error {
                    code: code::DEVICE_MISSING,
                    domain: origin::QEMU,
                    message: format!("device not found: no such device {}", alias(&device)),
                });
            }
            devices.append(device.clone());
            Ok(())
        })?;
        Ok(self.device_events(of, None))
    }

    pub(super) fn set_vcpus(&mut self, count: u32, of: Affect) -> Result<()> {
        self.change_devices(of, |config| {
            config.set_vcpus(count).map_err(|maximum| Error {
                code: code::INVALID_ARG,
                domain: origin::QEMU,
                message: format!(
                    "invalid argument: requested vcpus is greater than max allowable vcpus for the live \
                     domain: {count} > {maximum}"
                ),
            })
        })
    }

    pub(super) fn pin(&mut self, vcpu: Option<u32>, cpus: &[u32]) -> Result<()> {
        self.must_run()?;
        self.pins.insert(vcpu, cpus.to_vec());
        Ok(())
    }

    fn change_devices(
        &mut self,
        of: Affect,
        change: impl Fn(&mut DefinitionXml) -> Result<()>,
    ) -> Result<()> {
        self.change_devices_of(of, |config, _| change(config))
    }

    /// Changes copies of the configurations, and keeps them only if every change succeeds.
    fn change_devices_of(
        &mut self,
        of: Affect,
        change: impl Fn(&mut DefinitionXml, bool) -> Result<()>,
    ) -> Result<()> {
        let (live, config) = affected(of);
        if live {
            self.must_run()?;
            self.must_be_idle()?;
        }
        let (mut active, mut inactive) = (self.active.clone(), self.inactive.clone());
        if let Some(inactive) = inactive.as_mut().filter(|_| config) {
            change(inactive, false)?;
        }
        if let Some(active) = active.as_mut().filter(|_| live) {
            change(active, true)?;
        }
        (self.active, self.inactive) = (active, inactive);
        Ok(())
    }

    /// libvirt's order: the persistent configuration is saved before the event of the device arrives.
    fn device_events(&self, of: Affect, device: Option<Event>) -> Events {
        let (_, config) = affected(of);
        let updated = config.then(|| self.lifecycle(LifecycleEvent::Defined, Detail::Updated));
        updated.into_iter().chain(device).collect()
    }
}

/// Whether the running and the persistent configuration are meant.
fn affected(of: Affect) -> (bool, bool) {
    match of {
        Affect::Live => (true, false),
        Affect::Config => (false, true),
        Affect::LiveAndConfig => (true, true),
    }
}

fn parse(xml: &str) -> Result<Element> {
    let document = Document::parse(xml).map_err(|error| xml_error(&error.to_string()))?;
    Ok(document.root().clone())
}

fn alias(device: &Element) -> String {
    let alias = device.child("alias").and_then(|alias| alias.attr("name"));
    alias.unwrap_or_default().into_owned()
}

fn disk_target(device: &Element) -> Option<String> {
    let target = device.child("target").filter(|_| device.is("disk"))?;
    Some(target.attr("dev")?.into_owned())
}

/// A disk is found by its target, any other device by its alias.
fn is_same(one: &Element, other: &Element) -> bool {
    one.name() == other.name()
        && match disk_target(one) {
            Some(target) => disk_target(other) == Some(target),
            None => alias(one) == alias(other),
        }
}
