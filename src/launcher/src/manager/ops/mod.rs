//! The operations, one file per verb. Each is a function of the VM; the driver decides when it runs.

mod delete;
mod kill;
mod pause;
mod reset;
mod shutdown;
mod soft_reboot;
mod sync;
mod unpause;

pub use delete::delete;
pub use kill::kill;
pub use pause::pause;
pub use reset::reset;
pub use shutdown::shutdown;
pub use soft_reboot::soft_reboot;
pub use sync::{SyncRequest, sync};
pub use unpause::unpause;
