//! hook-host.
