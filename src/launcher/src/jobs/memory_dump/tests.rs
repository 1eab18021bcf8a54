//! Tests of memory dumps: their requests and records, and whole dumps on the fake libvirt.

mod dump_jobs;
mod recorded_dumps;
mod requests_and_records;
