//! The real thing: everything that touches a libvirt pointer.

mod blocks;
mod call;
mod callbacks;
mod connection;
mod event_loop;
mod figures;
mod guest;
mod guest_stats;
mod targets;

pub use connection::connect;
