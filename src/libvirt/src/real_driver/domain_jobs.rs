//! Memory dumps of a domain, and the progress and abort of its jobs.

use virt_sys as sys;

use super::c_strings_and_errors::{c_string, check};
use super::domain_handle::RealDomain;
use super::typed_param_conversion;
use crate::domain_jobs::{CompletedJob, JobStats, Jobs};
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
    let params = unsafe { typed_param_conversion::copy(list, count) };
    // SAFETY: the list is the caller's to free (null is accepted) and not used again.
    unsafe { sys::virTypedParamsFree(list, count) };
    Ok((job_type, params))
}
