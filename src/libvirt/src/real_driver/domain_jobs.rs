//! Memory dumps of a domain, and the progress and abort of its jobs.

use virt_sys as sys;

use super::c_strings_and_errors::{c_string, check};
use super::handles::RealDomain;
use super::typed_param_list;
use super::typed_param_list::TypedParamList;
use crate::domain_jobs::{CompletedJob, JobStats, Jobs, Migration, MigrationRequest};
use crate::error::Result;
use crate::typed_params::ParamValue;

impl Jobs for RealDomain {
    fn core_dump_memory(&self, path: &str) -> Result<()> {
        let path = c_string("path of the memory dump", path)?;
        // SAFETY: the domain is valid, the path NUL-terminated and alive during the call.
        check(unsafe {
            sys::virDomainCoreDumpWithFormat(
                self.as_ptr(),
                path.as_ptr(),
                sys::VIR_DOMAIN_CORE_DUMP_FORMAT_RAW,
                sys::VIR_DUMP_MEMORY_ONLY,
            )
        })
        .map(drop)
    }

    fn abort_job(&self) -> Result<()> {
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainAbortJob(self.as_ptr()) }).map(drop)
    }

    fn job_stats(&self) -> Result<JobStats> {
        let (job_type, params) = read_stats(self, 0)?;
        Ok(JobStats::from_typed_params(job_type, &params))
    }

    fn completed_job(&self) -> Result<CompletedJob> {
        let flags = sys::VIR_DOMAIN_JOB_STATS_COMPLETED | sys::VIR_DOMAIN_JOB_STATS_KEEP_COMPLETED;
        let (job_type, params) = read_stats(self, flags)?;
        Ok(CompletedJob::from_typed_params(job_type, &params))
    }
}

fn read_stats(
    domain: &RealDomain,
    flags: sys::virDomainGetJobStatsFlags,
) -> Result<(i32, Vec<(String, ParamValue)>)> {
    let (mut job_type, mut count) = (0, 0);
    let mut list: sys::virTypedParameterPtr = std::ptr::null_mut();
    // SAFETY: the domain is valid, and the pointers to the results are valid.
    check(unsafe {
        sys::virDomainGetJobStats(
            domain.as_ptr(),
            &raw mut job_type,
            &raw mut list,
            &raw mut count,
            flags,
        )
    })?;
    // SAFETY: libvirt has allocated `count` parameters, or none, which are freed below.
    let params = unsafe { typed_param_list::copy(list, count) };
    // SAFETY: the list is the caller's to free (null is accepted) and not used again.
    unsafe { sys::virTypedParamsFree(list, count) };
    Ok((job_type, params))
}

impl Migration for RealDomain {
    fn migrate(&self, destination: &str, request: &MigrationRequest) -> Result<()> {
        let destination = c_string("URI of the migration's target", destination)?;
        let mut params = typed_params(request)?;
        let (list, count) = params.as_ptr();
        // SAFETY: the domain is valid, the URI NUL-terminated, and the list has `count` initialised parameters; all
        // live during the call, and libvirt keeps no pointer to them.
        check(unsafe {
            sys::virDomainMigrateToURI3(
                self.as_ptr(),
                destination.as_ptr(),
                list,
                count,
                request.flags.bits(),
            )
        })
        .map(drop)
    }

    fn set_max_downtime(&self, milliseconds: u64) -> Result<()> {
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainMigrateSetMaxDowntime(self.as_ptr(), milliseconds, 0) })
            .map(drop)
    }

    fn start_post_copy(&self) -> Result<()> {
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainMigrateStartPostCopy(self.as_ptr(), 0) }).map(drop)
    }
}

fn typed_params(request: &MigrationRequest) -> Result<TypedParamList> {
    let MigrationRequest {
        flags: _,
        uri,
        destination_name,
        destination_xml,
        persistent_xml,
        bandwidth,
        parallel_connections,
        compression,
        disks,
        disks_uri,
    } = request;
    let mut params = TypedParamList::new()?;
    let texts = [
        (sys::VIR_MIGRATE_PARAM_URI, uri),
        (sys::VIR_MIGRATE_PARAM_DEST_NAME, destination_name),
        (sys::VIR_MIGRATE_PARAM_DEST_XML, destination_xml),
        (sys::VIR_MIGRATE_PARAM_PERSIST_XML, persistent_xml),
        (sys::VIR_MIGRATE_PARAM_COMPRESSION, compression),
        (sys::VIR_MIGRATE_PARAM_DISKS_URI, disks_uri),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            params.add_text(name, text)?;
        }
    }
    if let Some(bandwidth) = bandwidth {
        params.add_u64(sys::VIR_MIGRATE_PARAM_BANDWIDTH, *bandwidth)?;
    }
    if let Some(connections) = parallel_connections {
        params.add_i32(sys::VIR_MIGRATE_PARAM_PARALLEL_CONNECTIONS, *connections)?;
    }
    for disk in disks {
        params.add_text(sys::VIR_MIGRATE_PARAM_MIGRATE_DISKS, disk)?;
        params.add_text(sys::VIR_MIGRATE_PARAM_MIGRATE_DISKS_DETECT_ZEROES, disk)?;
    }
    Ok(params)
}
