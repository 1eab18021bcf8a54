//! The reasons to refuse a command.

/// Why a command was refused without being run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommandRefusal {
    /// A kill or delete was requested while this command ran or waited.
    #[error("the virtual machine is being ended")]
    Ending,
    /// The launcher is exiting.
    #[error("the launcher is exiting")]
    Exiting,
    /// The domain is gone, and a launcher runs only one VM.
    #[error("the virtual machine has ended, and its launcher is exiting")]
    Gone,
    /// virt-handler has not accepted the notification of the start, so its request relies on an older one.
    #[error(
        "the virtual machine has just been started, and the notification of it is on its way to virt-handler; \
         it is not deleted"
    )]
    StartUnreported,
    /// The VM is to arrive by a migration: to start it here would run it twice.
    #[error(
        "this launcher waits for the virtual machine to arrive by a migration, and does not start it; if the migration \
         has failed, its pod is deleted"
    )]
    AwaitsMigration,
    /// The guest is not in this pod yet.
    #[error(
        "the virtual machine has not arrived in this pod yet; try again when its migration has ended"
    )]
    NotArrived,
    /// The VM is being migrated to another pod.
    #[error(
        "the virtual machine is being migrated to another pod; try again when the migration has ended"
    )]
    MigratesAway,
    /// The same command was requested with other arguments before, and has not ended.
    #[error(
        "the same request with other arguments is being carried out; try again when it has ended"
    )]
    OtherArguments,
    /// The queue is full: it holds far more requests than virt-handler has in flight.
    #[error("too many requests are waiting; try again")]
    Busy,
}
