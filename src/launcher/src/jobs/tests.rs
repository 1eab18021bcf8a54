//! Tests of jobs on the fake libvirt.

#![allow(clippy::unwrap_used)]

mod memory_dump;
mod memory_dump_records;
mod running_vm;

pub(super) use running_vm::{DOMAIN, RunningVm, TEST_TIMEOUT};
