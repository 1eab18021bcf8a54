//! Assigns IO threads of the running domain to disks that are attached. The conversion numbers threads by the disks
//! that the VMI has now, while the domain has the threads of its start. Threads that are missing are to be added to the
//! running domain, which libvirt can.

use std::collections::{BTreeMap, BTreeSet};

use kubevirt_api::vmi::Vmi;

use super::live_domain::LiveDomain;
use crate::convert::has_dedicated_io_thread;
use crate::libvirt_spec::{Disk, DiskDriver};

/// The IO threads of the running domain, with those that the disks to attach add.
pub(super) struct LiveIoThreads {
    ids: BTreeSet<u32>,
    /// The number of disks and controllers of each thread.
    users: BTreeMap<u32, usize>,
    /// Threads that serve one disk only.
    dedicated: BTreeSet<u32>,
    /// The volumes of which the VMI wants a thread of their own.
    volumes_with_dedicated: BTreeSet<String>,
}

impl LiveIoThreads {
    pub(super) fn of(vmi: &Vmi, live: &LiveDomain) -> LiveIoThreads {
        let disks = vmi.spec.domain.devices.disks.iter();
        let with_dedicated = disks.filter(|disk| has_dedicated_io_thread(disk));
        let mut threads = LiveIoThreads {
            ids: live.io_thread_ids(),
            users: BTreeMap::new(),
            dedicated: BTreeSet::new(),
            volumes_with_dedicated: with_dedicated.map(|disk| disk.name.clone()).collect(),
        };
        for id in live.io_threads_of_controllers() {
            threads.add_user(id);
        }
        for disk in live.disks() {
            let disk = disk.spec;
            for id in thread_ids(disk.driver.as_ref()) {
                threads.add_user(id);
                if threads.has_dedicated(&disk) {
                    threads.dedicated.insert(id);
                }
            }
        }
        threads
    }

    /// Gives the disk threads that the running domain has, if the disk is to have any. Returns the threads that must be
    /// added to the domain first.
    pub(super) fn assign(&mut self, disk: &mut Disk) -> Vec<u32> {
        let is_dedicated = self.has_dedicated(disk);
        let Some(driver) = disk.driver.as_mut() else {
            return Vec::new();
        };
        if let Some(pool) = &mut driver.io_threads {
            pool.io_thread
                .retain(|thread| self.ids.contains(&thread.id));
            if pool.io_thread.is_empty() {
                driver.io_threads = None;
            }
        }
        let Some(wanted) = driver.io_thread.and_then(|id| u32::try_from(id).ok()) else {
            return Vec::new();
        };
        let id = match is_dedicated {
            true => self.unused(wanted),
            false => self.shared(wanted),
        };
        driver.io_thread = Some(id.into());
        self.add_user(id);
        if is_dedicated {
            self.dedicated.insert(id);
        }
        match self.ids.insert(id) {
            true => vec![id],
            false => Vec::new(),
        }
    }

    /// A thread that nothing uses: the wanted one, another one of the domain, or a new one.
    fn unused(&self, wanted: u32) -> u32 {
        let is_unused = |id: &u32| !self.users.contains_key(id);
        if self.ids.contains(&wanted) && is_unused(&wanted) {
            return wanted;
        }
        let live = self.ids.iter().copied().find(is_unused);
        live.unwrap_or_else(|| self.new_id(wanted))
    }

    /// A thread for disks without a dedicated one: the wanted one, the one of the domain that serves the fewest, or a
    /// new one.
    fn shared(&self, wanted: u32) -> u32 {
        if !self.dedicated.contains(&wanted) {
            return wanted;
        }
        let shared = self.ids.difference(&self.dedicated).copied();
        let least_used = shared.min_by_key(|id| self.users.get(id).copied().unwrap_or_default());
        least_used.unwrap_or_else(|| self.new_id(wanted))
    }

    /// The wanted id if the domain lacks it, or the lowest that it lacks.
    fn new_id(&self, wanted: u32) -> u32 {
        let mut ids = std::iter::once(wanted).chain(1..=u32::MAX);
        ids.find(|id| *id > 0 && !self.ids.contains(id))
            .unwrap_or(wanted)
    }

    fn add_user(&mut self, id: u32) {
        *self.users.entry(id).or_default() += 1;
    }

    fn has_dedicated(&self, disk: &Disk) -> bool {
        let alias = disk.alias.as_ref();
        alias.is_some_and(|alias| self.volumes_with_dedicated.contains(&alias.name))
    }
}

/// The threads that serve a disk.
fn thread_ids(driver: Option<&DiskDriver>) -> Vec<u32> {
    let Some(driver) = driver else {
        return Vec::new();
    };
    let one = driver.io_thread.and_then(|id| u32::try_from(id).ok());
    let pool = driver.io_threads.iter().flat_map(|pool| &pool.io_thread);
    one.into_iter()
        .chain(pool.map(|thread| thread.id))
        .collect()
}
