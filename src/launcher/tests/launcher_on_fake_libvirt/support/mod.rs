//! What the tests share: the launcher under test, its clients, and simulated guests, hooks and virt-handler.

pub(crate) mod command_client;
pub(crate) mod credentials_guest;
pub(crate) mod migration_commands;
pub(crate) mod migration_target_requests;
pub(crate) mod recording_virt_handler;
pub(crate) mod scripted_guest_agent;
pub(crate) mod scripted_hooks;
pub(crate) mod test_launcher;
