//! The real driver: calls to libvirt's C library, and all code that handles its pointers.

mod c_strings_and_errors;
mod domain;
mod domain_jobs;
mod domain_stats;
mod events;
mod handles;
mod hypervisor_connection;
mod typed_param_list;

pub use hypervisor_connection::{connect, library_version};

/// Limits the C library to `count` arenas. Must be called before the process has threads.
///
/// glibc creates an arena for nearly every thread that allocates, up to eight per CPU, and freed memory stays in its
/// arena: a burst of calls would leave megabytes behind. A launcher allocates too little for its threads to contend for
/// an arena.
pub fn limit_malloc_arenas(count: u8) {
    // SAFETY: mallopt sets a parameter of the allocator and takes no pointers. A value that the C library does not
    // accept changes nothing.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, count.into()) };
}
