//! Tests of memory dumps: their requests and records, and whole dumps on the fake libvirt.

#![allow(clippy::unwrap_used)]

mod dump_jobs;
mod recorded_dumps;
mod requests_and_records;
