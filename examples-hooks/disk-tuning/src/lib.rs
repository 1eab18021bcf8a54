//! Tunes the virtio disks of a virtual machine by its annotations: queues, cache, IO threads.

use hooks_sdk::{
    Context, Description, Device, Domain, Element, Hook, HookPoint, Result, Vmi, veto,
};

/// Queues of each disk: a number, or `vcpus` for one per vCPU.
const QUEUES: &str = "disk-tuning.example.com/queues";
/// The cache mode of each disk, in libvirt's words.
const CACHE: &str = "disk-tuning.example.com/cache";
/// The number of IO threads that the disks share round-robin.
const IO_THREADS: &str = "disk-tuning.example.com/io-threads";

const CACHE_MODES: [&str; 6] = [
    "default",
    "none",
    "writethrough",
    "writeback",
    "directsync",
    "unsafe",
];

/// The hook.
#[derive(Debug, Default)]
pub struct DiskTuning;

impl Hook for DiskTuning {
    const HOOK_POINTS: &'static [HookPoint] =
        &[HookPoint::OnDefineDomain, HookPoint::OnAttachDevice];

    fn describe(description: Description) -> Description {
        description.with_paths([
            "/domain/iothreads",
            "/domain/devices/disk/driver/@cache",
            "/domain/devices/disk/driver/@iothread",
            "/domain/devices/disk/driver/@queues",
        ])
    }

    fn on_define_domain(&self, vmi: &Vmi, domain: &mut Domain) -> Result {
        let tuning = Tuning::of(vmi)?;
        if let Some(threads) = tuning.io_threads {
            domain.set("iothreads", threads.to_string())?;
        }
        let disks = domain.devices_of_mut("disk");
        for (at, disk) in disks.filter(|disk| is_on_virtio(disk)).enumerate() {
            // KubeVirt gives every disk its driver.
            let Some(driver) = disk.child_mut("driver") else {
                continue;
            };
            tuning.apply_to(driver);
            if let Some(threads) = tuning.io_threads {
                driver.set_attr("iothread", (at as u64 % threads + 1).to_string());
            }
        }
        Ok(())
    }

    /// A disk that is attached later has the same queues and cache. Its IO threads would have to be those of the boot,
    /// which this hook does not see here.
    fn on_attach_device(&self, vmi: &Vmi, device: &mut Device) -> Result {
        if device.is("disk") && is_on_virtio(device) {
            let tuning = Tuning::of(vmi)?;
            tuning.apply_to(device.ensure_child("driver"));
        }
        Ok(())
    }
}

fn is_on_virtio(disk: &Element) -> bool {
    matches!(disk.value("target/@bus"), Ok(Some(bus)) if bus == "virtio")
}

struct Tuning<'v> {
    queues: Option<u64>,
    cache: Option<&'v str>,
    io_threads: Option<u64>,
}

impl<'v> Tuning<'v> {
    fn apply_to(&self, driver: &mut Element) {
        if let Some(queues) = self.queues {
            driver.set_attr("queues", queues.to_string());
        }
        if let Some(cache) = self.cache {
            driver.set_attr("cache", cache);
        }
    }

    fn of(vmi: &'v Vmi) -> Result<Tuning<'v>> {
        let queues = match vmi.annotation(QUEUES) {
            Some("vcpus") => Some(vmi.vcpus()),
            other => other.map(|text| count(QUEUES, text)).transpose()?,
        };
        let io_threads = vmi
            .annotation(IO_THREADS)
            .map(|text| count(IO_THREADS, text));
        let cache = vmi.annotation(CACHE);
        if let Some(unknown) = cache.filter(|mode| !CACHE_MODES.contains(mode)) {
            let known = CACHE_MODES.join(", ");
            return Err(veto(format!("{CACHE} is {unknown:?}, none of {known}")));
        }
        Ok(Tuning {
            queues,
            cache,
            io_threads: io_threads.transpose()?,
        })
    }
}

fn count(annotation: &str, text: &str) -> Result<u64> {
    let count: u64 = text.trim().parse().context(annotation)?;
    if (1..=64).contains(&count) {
        Ok(count)
    } else {
        Err(veto(format!(
            "{annotation} is {count}, not within 1 and 64"
        )))
    }
}

hooks_sdk::export!(DiskTuning);
