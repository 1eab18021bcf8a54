//! A hypervisor in memory.
