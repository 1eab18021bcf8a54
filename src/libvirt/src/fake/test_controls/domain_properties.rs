//! What a test sets or reads of a simulated domain or its host: state, definition, disks, devices, launch security.

use super::FakeDaemon;
use crate::disk_sizes_and_errors::BlockInfo;
use crate::domain_state::State;
use crate::fake::definition_xml::DefinitionXml;
use crate::fake::simulated_domain::SimulatedDomain;
use crate::launch_security::{LaunchSecret, LaunchSecurityInfo, SevInfo};
use crate::screenshot::Screenshot;
use crate::stats::DomainStats;

impl FakeDaemon {
    /// The domain's state, also while the daemon is stopped.
    pub fn state(&self, domain: &str) -> Option<State> {
        self.daemon.with_domain(domain, |domain| domain.state)
    }

    /// Sets the statistics of the domain. Name and UUID are filled in when they are read.
    pub fn set_stats(&self, domain: &str, stats: DomainStats) {
        self.daemon
            .with_domain(domain, |domain| domain.stats = stats);
    }

    /// Sets the picture of the domain's screen. By default there is none.
    pub fn set_screenshot(&self, domain: &str, screenshot: Screenshot) {
        self.daemon.with_domain(domain, |domain| {
            domain.screenshot = Some(screenshot);
        });
    }

    /// Sets the result of the next measurement of the dirty rate, in MiB/s.
    pub fn set_dirty_rate(&self, domain: &str, mib_per_second: i64) {
        self.daemon.with_domain(domain, |domain| {
            domain.dirty_rate.next_mib = mib_per_second;
        });
    }

    /// Gives the host SEV firmware.
    pub fn set_sev_info(&self, info: SevInfo) {
        self.daemon
            .controls(|controls| controls.sev_info = Some(info));
    }

    /// Gives the domain launch security.
    pub fn set_launch_security(&self, domain: &str, info: LaunchSecurityInfo) {
        self.daemon.with_domain(domain, |domain| {
            domain.launch_security.info = Some(info);
        });
    }

    /// The secret that was written into the guest's memory.
    pub fn launch_secret(&self, domain: &str) -> Option<LaunchSecret> {
        let secret = |domain: &mut SimulatedDomain| domain.launch_security.secret.clone();
        self.daemon.with_domain(domain, secret).flatten()
    }

    /// The number of file descriptors of a group that are associated with the domain.
    pub fn associated_fds(&self, domain: &str, group: &str) -> usize {
        let count = |domain: &mut SimulatedDomain| domain.associated_fds.get(group).copied();
        self.daemon
            .with_domain(domain, count)
            .flatten()
            .unwrap_or_default()
    }

    /// Adds a disk, or sets its sizes.
    pub fn set_block_info(&self, domain: &str, disk: &str, info: BlockInfo) {
        self.daemon.with_domain(domain, |domain| {
            domain.blocks.insert(disk.to_owned(), info);
        });
    }

    /// The sizes of a disk.
    pub fn block_info(&self, domain: &str, disk: &str) -> Option<BlockInfo> {
        let block = |domain: &mut SimulatedDomain| domain.blocks.get(disk).copied();
        self.daemon.with_domain(domain, block).flatten()
    }

    /// The host CPUs that the virtual CPU `vcpu` is pinned to; for `None` those of QEMU's own threads.
    pub fn pins(&self, domain: &str, vcpu: Option<u32>) -> Option<Vec<u32>> {
        let pins = |domain: &mut SimulatedDomain| domain.pins.get(&vcpu).cloned();
        self.daemon.with_domain(domain, pins).flatten()
    }

    /// Adds a device to QEMU that the daemon does not know, as when a daemon has died while it attached the device.
    pub fn leave_device(&self, domain: &str, alias: &str) {
        self.daemon.with_domain(domain, |domain| {
            domain.leftover_devices.insert(alias.to_owned());
        });
    }

    /// The names of the checkpoints that the daemon knows.
    pub fn checkpoints(&self, domain: &str) -> Vec<String> {
        let checkpoints = |domain: &mut SimulatedDomain| domain.checkpoints.clone();
        self.daemon
            .with_domain(domain, checkpoints)
            .unwrap_or_default()
    }

    /// Sets the bitmaps of the image `file`.
    pub fn set_bitmaps(&self, domain: &str, file: &str, bitmaps: &[&str]) {
        let names = bitmaps.iter().map(|name| (*name).to_owned()).collect();
        self.daemon.with_domain(domain, |domain| {
            domain.bitmaps.insert(file.to_owned(), names);
        });
    }

    /// The XML of the domain's persistent configuration.
    pub fn inactive_xml(&self, domain: &str) -> Option<String> {
        let xml =
            |domain: &mut SimulatedDomain| domain.inactive.as_ref().map(DefinitionXml::render);
        self.daemon.with_domain(domain, xml).flatten()
    }
}
