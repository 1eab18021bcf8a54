//! A domain's identity, state and statistics.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::Duration;

use virt_sys as sys;

use super::c_strings_and_errors::{c_string, check, check_pointer, last_error, take_string};
use super::domain_stats;
use super::handles::{Connection, RealDomain};
use super::typed_param_list::TypedParamList;
use crate::domain::{
    Affect, Agent, BlockInfo, BlockSize, Blocks, Checkpoints, Definition, DestroyMode, Devices,
    DirtyRate, DiskFault, Domain, FilePolicy, IoThreads, LaunchSecret, LaunchSecurity,
    LaunchSecurityInfo, Power, QemuMonitor, RebootMode, Screen, Screenshot, SevInfo, ShutdownMode,
    StartOptions, UndefineOptions, Vcpus, XmlKind,
};
use crate::domain_state::State;
use crate::error::{Error, Result, code, origin};
use crate::stats::{DirtyRateStats, DomainStats};
use crate::typed_params::{ParamValue, find};

impl Domain for RealDomain {
    fn name(&self) -> &str {
        self.name()
    }

    fn uuid(&self) -> &str {
        self.uuid()
    }

    fn is_connected(&self) -> bool {
        self.connection().is_alive()
    }

    fn state(&self) -> Result<State> {
        let (mut state, mut reason) = (0, 0);
        // SAFETY: the domain is valid, and the pointers to the results are valid.
        check(unsafe {
            sys::virDomainGetState(self.as_ptr(), &raw mut state, &raw mut reason, 0)
        })?;
        Ok(State::decode(state, reason))
    }

    fn stats(&self) -> Result<Option<DomainStats>> {
        domain_stats::read(self)
    }
}

impl Definition for RealDomain {
    fn xml(&self, kind: XmlKind) -> Result<String> {
        let flags = match kind {
            XmlKind::Active => 0,
            XmlKind::Inactive => sys::VIR_DOMAIN_XML_INACTIVE,
            XmlKind::Migratable => sys::VIR_DOMAIN_XML_MIGRATABLE,
        };
        // SAFETY: the domain is valid; the string it returns is the caller's.
        unsafe { take_string(sys::virDomainGetXMLDesc(self.as_ptr(), flags)) }
    }

    fn undefine(&self, options: UndefineOptions) -> Result<()> {
        // SAFETY: the domain is valid.
        let undefine = |flags| check(unsafe { sys::virDomainUndefineFlags(self.as_ptr(), flags) });
        match undefine(undefine_flags(options)) {
            // A driver that does not know the flags (libvirt's test driver) has no such files.
            Err(error) if error.code == code::INVALID_ARG => undefine(0),
            result => result,
        }
        .map(drop)
    }
}

fn undefine_flags(options: UndefineOptions) -> c_uint {
    let nvram = match options.nvram {
        FilePolicy::AsDefined => 0,
        FilePolicy::Keep => sys::VIR_DOMAIN_UNDEFINE_KEEP_NVRAM,
    };
    let tpm = match options.tpm {
        FilePolicy::AsDefined => 0,
        FilePolicy::Keep => sys::VIR_DOMAIN_UNDEFINE_KEEP_TPM,
    };
    // libvirt's metadata of checkpoints is removed with the definition.
    nvram | tpm | sys::VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
}

impl Power for RealDomain {
    fn associate_fds(&self, group: &str, files: &[BorrowedFd<'_>]) -> Result<()> {
        let group = c_string("group of open files", group)?;
        let mut descriptors: Vec<c_int> = files.iter().map(AsRawFd::as_raw_fd).collect();
        let count = c_uint::try_from(descriptors.len()).unwrap_or(c_uint::MAX);
        // SAFETY: the domain is valid, the group NUL-terminated. The list has `count` file descriptors, whose files the
        // borrows keep open during the call; libvirt sends copies and keeps no descriptor.
        check(unsafe {
            sys::virDomainFDAssociate(
                self.as_ptr(),
                group.as_ptr(),
                count,
                descriptors.as_mut_ptr(),
                0,
            )
        })
        .map(drop)
    }

    fn start(&self, options: StartOptions) -> Result<()> {
        let flags = flag_if(options.paused, sys::VIR_DOMAIN_START_PAUSED)
            | flag_if(options.reset_nvram, sys::VIR_DOMAIN_START_RESET_NVRAM);
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainCreateWithFlags(self.as_ptr(), flags) }).map(drop)
    }

    fn suspend(&self) -> Result<()> {
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainSuspend(self.as_ptr()) }).map(drop)
    }

    fn resume(&self) -> Result<()> {
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainResume(self.as_ptr()) }).map(drop)
    }

    fn reset(&self) -> Result<()> {
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainReset(self.as_ptr(), 0) }).map(drop)
    }

    fn reboot(&self, mode: RebootMode) -> Result<()> {
        let flags = match mode {
            RebootMode::Acpi => sys::VIR_DOMAIN_REBOOT_ACPI_POWER_BTN,
            RebootMode::Agent => sys::VIR_DOMAIN_REBOOT_GUEST_AGENT,
        };
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainReboot(self.as_ptr(), flags) }).map(drop)
    }

    fn shutdown(&self, mode: ShutdownMode) -> Result<()> {
        let flags = match mode {
            ShutdownMode::Acpi => sys::VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN,
            ShutdownMode::Agent => sys::VIR_DOMAIN_SHUTDOWN_GUEST_AGENT,
        };
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainShutdownFlags(self.as_ptr(), flags) }).map(drop)
    }

    fn destroy(&self, mode: DestroyMode) -> Result<()> {
        let flags = match mode {
            DestroyMode::Forceful => sys::VIR_DOMAIN_DESTROY_DEFAULT,
            DestroyMode::Graceful => sys::VIR_DOMAIN_DESTROY_GRACEFUL,
        };
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainDestroyFlags(self.as_ptr(), flags) }).map(drop)
    }
}

fn flag_if(is_set: bool, flag: c_uint) -> c_uint {
    if is_set { flag } else { 0 }
}

impl Devices for RealDomain {
    fn attach_device(&self, xml: &str, to: Affect) -> Result<()> {
        let xml = c_string("device", xml)?;
        // SAFETY: the domain is valid, the XML NUL-terminated.
        check(unsafe {
            sys::virDomainAttachDeviceFlags(self.as_ptr(), xml.as_ptr(), affect_flags(to))
        })
        .map(drop)
    }

    fn detach_device(&self, xml: &str, from: Affect) -> Result<()> {
        let xml = c_string("device", xml)?;
        // SAFETY: the domain is valid, the XML NUL-terminated.
        check(unsafe {
            sys::virDomainDetachDeviceFlags(self.as_ptr(), xml.as_ptr(), affect_flags(from))
        })
        .map(drop)
    }

    fn update_device(&self, xml: &str, of: Affect) -> Result<()> {
        let xml = c_string("device", xml)?;
        // SAFETY: the domain is valid, the XML NUL-terminated.
        check(unsafe {
            sys::virDomainUpdateDeviceFlags(self.as_ptr(), xml.as_ptr(), affect_flags(of))
        })
        .map(drop)
    }
}

/// Asserts that the flags of device calls have the values of `VIR_DOMAIN_AFFECT_*`, which `affect_flags` returns.
const _: () = {
    let devices: [c_uint; 2] = [
        sys::VIR_DOMAIN_DEVICE_MODIFY_LIVE,
        sys::VIR_DOMAIN_DEVICE_MODIFY_CONFIG,
    ];
    let affected: [c_uint; 2] = [sys::VIR_DOMAIN_AFFECT_LIVE, sys::VIR_DOMAIN_AFFECT_CONFIG];
    assert!(devices[0] == affected[0] && devices[1] == affected[1]);
};

pub(super) fn affect_flags(of: Affect) -> c_uint {
    match of {
        Affect::Live => sys::VIR_DOMAIN_AFFECT_LIVE,
        Affect::Config => sys::VIR_DOMAIN_AFFECT_CONFIG,
        Affect::LiveAndConfig => sys::VIR_DOMAIN_AFFECT_LIVE | sys::VIR_DOMAIN_AFFECT_CONFIG,
    }
}

impl Blocks for RealDomain {
    fn block_infos(&self) -> Result<BTreeMap<String, BlockInfo>> {
        let blocks = domain_stats::read_blocks(self)?.into_iter();
        let known = blocks.filter_map(|block| {
            let info = BlockInfo {
                capacity: block.capacity?,
                allocation: block.allocation.unwrap_or_default(),
                physical: block.physical.unwrap_or_default(),
            };
            Some((block.path?, info))
        });
        Ok(known.collect())
    }

    fn disk_errors(&self) -> Result<BTreeMap<String, DiskFault>> {
        const EMPTY: sys::virDomainDiskError = sys::virDomainDiskError {
            disk: ptr::null_mut(),
            error: sys::VIR_DOMAIN_DISK_ERROR_NONE.cast_signed(),
        };
        // SAFETY: the domain is valid; without an array libvirt only counts the disks.
        let disks =
            check(unsafe { sys::virDomainGetDiskErrors(self.as_ptr(), ptr::null_mut(), 0, 0) })?;
        let mut errors = vec![EMPTY; usize::try_from(disks).unwrap_or_default()];
        // libvirt refuses an empty array.
        if errors.is_empty() {
            return Ok(BTreeMap::new());
        }
        let array_length = c_uint::try_from(errors.len()).unwrap_or_default();
        // SAFETY: the domain is valid, and the array has `array_length` elements.
        let filled = check(unsafe {
            sys::virDomainGetDiskErrors(self.as_ptr(), errors.as_mut_ptr(), array_length, 0)
        })?;
        let filled = usize::try_from(filled).unwrap_or_default();
        let disk_error = |error: sys::virDomainDiskError| -> Result<(String, DiskFault)> {
            // SAFETY: libvirt has set this element; the caller owns the string of its name.
            let target = unsafe { take_string(error.disk) }?;
            let is_full = c_uint::try_from(error.error) == Ok(sys::VIR_DOMAIN_DISK_ERROR_NO_SPACE);
            let kind = match is_full {
                true => DiskFault::NoSpace,
                false => DiskFault::Other,
            };
            Ok((target, kind))
        };
        errors.into_iter().take(filled).map(disk_error).collect()
    }

    fn resize_block(&self, disk: &str, to: BlockSize) -> Result<()> {
        let disk = c_string("disk", disk)?;
        let (bytes, flags) = match to {
            BlockSize::Bytes(bytes) => (bytes, sys::VIR_DOMAIN_BLOCK_RESIZE_BYTES),
            // libvirt itself reads the size of the block device.
            BlockSize::Device => (
                0,
                sys::VIR_DOMAIN_BLOCK_RESIZE_BYTES | sys::VIR_DOMAIN_BLOCK_RESIZE_CAPACITY,
            ),
        };
        // SAFETY: the domain is valid, the disk NUL-terminated.
        check(unsafe { sys::virDomainBlockResize(self.as_ptr(), disk.as_ptr(), bytes, flags) })
            .map(drop)
    }
}

/// More CPUs than any host has. A higher CPU number is an error of the caller.
const MAX_HOST_CPUS: u32 = 1 << 16;

impl Vcpus for RealDomain {
    fn set_vcpus(&self, count: u32, of: Affect) -> Result<()> {
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainSetVcpusFlags(self.as_ptr(), count, affect_flags(of)) })
            .map(drop)
    }

    fn pin_vcpu(&self, vcpu: u32, cpus: &[u32], of: Affect) -> Result<()> {
        let mut map = cpu_map(cpus)?;
        // SAFETY: the domain is valid, and the map has the length that is passed.
        check(unsafe {
            sys::virDomainPinVcpuFlags(
                self.as_ptr(),
                vcpu,
                map.as_mut_ptr(),
                map_length(&map),
                affect_flags(of),
            )
        })
        .map(drop)
    }

    fn pin_emulator(&self, cpus: &[u32], of: Affect) -> Result<()> {
        let mut map = cpu_map(cpus)?;
        // SAFETY: the domain is valid, and the map has the length that is passed.
        check(unsafe {
            sys::virDomainPinEmulator(
                self.as_ptr(),
                map.as_mut_ptr(),
                map_length(&map),
                affect_flags(of),
            )
        })
        .map(drop)
    }
}

/// libvirt's bit map of host CPUs: CPU 0 is the lowest bit of the first byte.
fn cpu_map(cpus: &[u32]) -> Result<Vec<u8>> {
    let last = cpus.iter().max().copied().unwrap_or_default();
    if last >= MAX_HOST_CPUS {
        return Err(Error::invalid_argument(&format!(
            "the host has no processor {last}"
        )));
    }
    let mut map = vec![0; usize::try_from(last / 8).unwrap_or_default() + 1];
    for cpu in cpus {
        let byte = usize::try_from(cpu / 8).ok();
        if let Some(byte) = byte.and_then(|byte| map.get_mut(byte)) {
            *byte |= 1 << (cpu % 8);
        }
    }
    Ok(map)
}

fn map_length(map: &[u8]) -> i32 {
    i32::try_from(map.len()).unwrap_or(i32::MAX)
}

impl IoThreads for RealDomain {
    fn add_io_thread(&self, id: u32, to: Affect) -> Result<()> {
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainAddIOThread(self.as_ptr(), id, affect_flags(to)) }).map(drop)
    }
}

impl Agent for RealDomain {
    fn agent_command(&self, json: &str, timeout: Duration) -> Result<String> {
        let command = c_string("agent command", json)?;
        let seconds = agent_seconds(timeout);
        // SAFETY: the domain is valid, the command NUL-terminated; the caller owns the response.
        unsafe {
            take_string(sys::virDomainQemuAgentCommand(
                self.as_ptr(),
                command.as_ptr(),
                seconds,
                0,
            ))
        }
    }

    fn set_agent_timeout(&self, timeout: Duration) -> Result<()> {
        let seconds = agent_seconds(timeout);
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainAgentSetResponseTimeout(self.as_ptr(), seconds, 0) }).map(drop)
    }

    fn set_time(&self, now: Duration) -> Result<()> {
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainSetTime(self.as_ptr(), seconds, now.subsec_nanos(), 0) })
            .map(drop)
    }
}

/// The timeout in whole seconds, rounded up. libvirt takes 0 as "do not wait", -1 as its own default, and -2 as "for ever".
fn agent_seconds(timeout: Duration) -> i32 {
    let rounded_up = timeout
        .as_secs()
        .saturating_add(u64::from(timeout.subsec_nanos() > 0));
    i32::try_from(rounded_up.max(1)).unwrap_or(i32::MAX)
}

impl QemuMonitor for RealDomain {
    fn qemu_command(&self, command: &str) -> Result<String> {
        let command = c_string("monitor command", command)?;
        let mut answer = ptr::null_mut();
        // SAFETY: the domain is valid, the command NUL-terminated, and the pointer to the answer is valid.
        check(unsafe {
            sys::virDomainQemuMonitorCommand(
                self.as_ptr(),
                command.as_ptr(),
                &raw mut answer,
                sys::VIR_DOMAIN_QEMU_MONITOR_COMMAND_DEFAULT,
            )
        })?;
        // SAFETY: libvirt has allocated the NUL-terminated answer for the caller.
        unsafe { take_string(answer) }
    }
}

impl Screen for RealDomain {
    fn screenshot(&self, limit: usize) -> Result<Screenshot> {
        let stream = ReadStream::new(self.connection())?;
        // SAFETY: domain and stream are valid and of one connection; the caller owns the media type.
        let mime = unsafe {
            take_string(sys::virDomainScreenshot(
                self.as_ptr(),
                stream.as_ptr(),
                0,
                0,
            ))
        }?;
        let data = stream.read(limit)?;
        Ok(Screenshot { mime, data })
    }
}

/// Maximum payload of one message of a stream, in bytes.
const CHUNK_SIZE: usize = 256 * 1024;

/// A blocking stream. Dropping it aborts the stream if it was not read to its end.
pub(super) struct ReadStream {
    raw: sys::virStreamPtr,
    complete: bool,
}

impl ReadStream {
    pub(super) fn new(connection: &Connection) -> Result<ReadStream> {
        // SAFETY: the connection is open; the stream keeps its own reference to it.
        let raw = check_pointer(unsafe { sys::virStreamNew(connection.as_ptr(), 0) })?;
        Ok(ReadStream {
            raw,
            complete: false,
        })
    }

    /// The pointer for the call that fills the stream. It is valid as long as `self`.
    pub(super) fn as_ptr(&self) -> sys::virStreamPtr {
        self.raw
    }

    /// Reads the stream to its end. Fails if it has more than `limit` bytes.
    pub(super) fn read(mut self, limit: usize) -> Result<Vec<u8>> {
        let mut data = Vec::new();
        let mut chunk = vec![0_u8; CHUNK_SIZE];
        loop {
            // SAFETY: the stream is valid, and the buffer has as many bytes as the length says.
            let count = unsafe {
                sys::virStreamRecv(self.raw, chunk.as_mut_ptr().cast::<c_char>(), chunk.len())
            };
            let count = usize::try_from(count).map_err(|_| last_error())?;
            if count == 0 {
                break;
            }
            data.extend_from_slice(chunk.get(..count).unwrap_or_default());
            if data.len() > limit {
                return Err(Error {
                    code: code::OPERATION_FAILED,
                    domain: origin::NONE,
                    message: format!("operation failed: more than {limit} bytes were sent"),
                });
            }
        }
        self.complete = true;
        // SAFETY: the stream is valid and was read to its end.
        match unsafe { sys::virStreamFinish(self.raw) } {
            0.. => Ok(data),
            _ => Err(last_error()),
        }
    }
}

impl Drop for ReadStream {
    fn drop(&mut self) {
        if !self.complete {
            // SAFETY: the stream is valid; aborting a stream without data only returns an error.
            unsafe { sys::virStreamAbort(self.raw) };
        }
        // SAFETY: the reference is this value's own, and this is its last use.
        unsafe { sys::virStreamFree(self.raw) };
    }
}

fn text(params: &[(String, ParamValue)], name: &CStr) -> String {
    let text = find(params, name).and_then(ParamValue::as_str);
    text.unwrap_or_default().to_owned()
}

fn number(params: &[(String, ParamValue)], name: &CStr) -> u64 {
    find(params, name).and_then(ParamValue::as_u64).unwrap_or(0)
}

/// The SEV firmware of the connection's host.
pub(super) fn sev_info(connection: &Connection) -> Result<SevInfo> {
    let mut params = TypedParamList::new()?;
    let (list, count) = params.receive();
    // SAFETY: the connection is open, and the pointers to the list and its length are valid.
    check(unsafe { sys::virNodeGetSEVInfo(connection.as_ptr(), list, count, 0) })?;
    let params = params.copy();
    Ok(SevInfo {
        pdh: text(&params, sys::VIR_NODE_SEV_PDH),
        cert_chain: text(&params, sys::VIR_NODE_SEV_CERT_CHAIN),
    })
}

impl LaunchSecurity for RealDomain {
    fn launch_security_info(&self) -> Result<LaunchSecurityInfo> {
        let mut params = TypedParamList::new()?;
        let (list, count) = params.receive();
        // SAFETY: the domain is valid, and the pointers to the list and its length are valid.
        check(unsafe { sys::virDomainGetLaunchSecurityInfo(self.as_ptr(), list, count, 0) })?;
        let params = params.copy();
        Ok(LaunchSecurityInfo {
            measurement: text(&params, sys::VIR_DOMAIN_LAUNCH_SECURITY_SEV_MEASUREMENT),
            api_major: number(&params, sys::VIR_DOMAIN_LAUNCH_SECURITY_SEV_API_MAJOR),
            api_minor: number(&params, sys::VIR_DOMAIN_LAUNCH_SECURITY_SEV_API_MINOR),
            build_id: number(&params, sys::VIR_DOMAIN_LAUNCH_SECURITY_SEV_BUILD_ID),
            policy: number(&params, sys::VIR_DOMAIN_LAUNCH_SECURITY_SEV_POLICY),
        })
    }

    fn set_launch_secret(&self, secret: &LaunchSecret) -> Result<()> {
        let mut params = TypedParamList::new()?;
        params.add_text(
            sys::VIR_DOMAIN_LAUNCH_SECURITY_SEV_SECRET_HEADER,
            &secret.header,
        )?;
        params.add_text(sys::VIR_DOMAIN_LAUNCH_SECURITY_SEV_SECRET, &secret.secret)?;
        let (list, count) = params.as_ptr();
        // SAFETY: the domain is valid, the list has as many parameters as the count says, and libvirt copies them.
        check(unsafe {
            sys::virDomainSetLaunchSecurityState(self.as_ptr(), list, count.cast_signed(), 0)
        })
        .map(drop)
    }
}

impl DirtyRate for RealDomain {
    fn start_dirty_rate_calculation(&self, period: Duration) -> Result<()> {
        let seconds = c_int::try_from(period.as_secs().max(1)).unwrap_or(c_int::MAX);
        let flags = sys::VIR_DOMAIN_DIRTYRATE_MODE_PAGE_SAMPLING;
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainStartDirtyRateCalc(self.as_ptr(), seconds, flags) }).map(drop)
    }

    fn dirty_rate(&self) -> Result<Option<DirtyRateStats>> {
        domain_stats::read_dirty_rate(self)
    }
}

impl Checkpoints for RealDomain {
    fn begin_backup(&self, backup_xml: &str, checkpoint_xml: &str) -> Result<()> {
        let backup = c_string("description of the backup", backup_xml)?;
        let checkpoint = c_string("description of the checkpoint", checkpoint_xml)?;
        // SAFETY: the domain is valid, both texts NUL-terminated and alive during the call.
        check(unsafe {
            sys::virDomainBackupBegin(self.as_ptr(), backup.as_ptr(), checkpoint.as_ptr(), 0)
        })
        .map(drop)
    }

    fn redefine_checkpoint(&self, xml: &str) -> Result<()> {
        let xml = c_string("description of the checkpoint", xml)?;
        let flags = sys::VIR_DOMAIN_CHECKPOINT_CREATE_REDEFINE
            | sys::VIR_DOMAIN_CHECKPOINT_CREATE_REDEFINE_VALIDATE;
        // SAFETY: the domain is valid, the text NUL-terminated and alive during the call.
        let checkpoint = check_pointer(unsafe {
            sys::virDomainCheckpointCreateXML(self.as_ptr(), xml.as_ptr(), flags)
        })?;
        // SAFETY: the checkpoint's reference is the caller's, and this is its last use.
        unsafe { sys::virDomainCheckpointFree(checkpoint) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undefine_keep_passes_the_flags_of_kubevirt() {
        // As KubeVirt's manager passes them.
        let expected =
            sys::VIR_DOMAIN_UNDEFINE_KEEP_NVRAM | sys::VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA;
        assert_eq!(undefine_flags(UndefineOptions::KEEP), expected);
    }

    #[test]
    fn cpu_map_has_a_bit_for_each_cpu() {
        assert_eq!(cpu_map(&[0]).unwrap(), [1]);
        assert_eq!(cpu_map(&[1, 8, 15]).unwrap(), [2, 0x81]);
        assert_eq!(cpu_map(&[]).unwrap(), [0]);
        assert!(cpu_map(&[u32::MAX]).is_err());
    }

    #[test]
    fn agent_timeouts_are_whole_seconds_of_at_least_one() {
        assert_eq!(agent_seconds(Duration::ZERO), 1);
        assert_eq!(agent_seconds(Duration::from_millis(1)), 1);
        assert_eq!(agent_seconds(Duration::from_millis(1001)), 2);
        assert_eq!(agent_seconds(Duration::MAX), i32::MAX);
    }
}
