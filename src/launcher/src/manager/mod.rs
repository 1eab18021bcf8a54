//! The virtual machine.

mod requests;
mod state;

pub use state::{Sight, VmState};
