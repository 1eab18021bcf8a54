//! The C library's heaps, which libvirt's client library and Rust share.

/// Has the C library keep at most `count` heaps. To be called before there are threads.
///
/// glibc makes one for nearly every thread that allocates, up to eight per processor, and what is freed stays with
/// the heap it came from: a burst of calls would leave megabytes behind. A launcher allocates too little for its
/// threads to get into each other's way.
pub fn limit_malloc_arenas(count: u8) {
    // SAFETY: mallopt sets a parameter of the allocator and takes no pointers. A value that the C library does not
    // take changes nothing.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, count.into()) };
}
