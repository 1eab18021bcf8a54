//! Why a command is refused.

/// Why a command is not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommandRefusal {
    /// A kill or delete came in between.
    #[error("the virtual machine is being ended")]
    Ending,
    /// The launcher itself ends.
    #[error("the launcher is exiting")]
    Exiting,
    /// The domain has been deleted, and a launcher runs one VM in its life.
    #[error("the virtual machine has ended, and its launcher is exiting")]
    Gone,
    /// virt-handler decides from a notification that is out of date.
    #[error(
        "the virtual machine has just been started, and the notification of it is on its way to virt-handler; \
         it is not deleted"
    )]
    StartUnreported,
    /// A VM that is to arrive by a migration is not started a second time.
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
    /// The VM belongs to its next pod soon.
    #[error(
        "the virtual machine is being migrated to another pod; try again when the migration has ended"
    )]
    MigratesAway,
    /// Far more requests are waiting than virt-handler ever sends.
    #[error("too many requests are waiting; try again")]
    Busy,
}
