//! Registration of the event callbacks and the close callback of a connection.
//!
//! Each registration has a [`CallbackKey`], which libvirt passes to [`release`](event_callbacks::release) once it no
//! longer calls the callback.

use std::ffi::c_int;
use std::mem;
use std::sync::Arc;

use virt_sys as sys;

use super::c_strings_and_errors;
use super::callback_registry::CallbackKey;
use super::event_callbacks::{self, closed, release};
use crate::error::Result;
use crate::event_handlers::EventHandlers;

/// The type that registration takes for the callback of any event.
type GenericCallback = sys::virConnectDomainEventGenericCallback;

/// Registers all event callbacks for all domains of a connection, and returns their ids.
///
/// Events that the daemon does not offer are skipped. Registration fails if the daemon does not offer lifecycle events,
/// or the connection ends meanwhile.
///
/// # Safety
/// `connection` is an open connection.
pub(super) unsafe fn register_events(
    connection: sys::virConnectPtr,
    handlers: &Arc<EventHandlers>,
) -> Result<Vec<c_int>> {
    let mut ids = Vec::new();
    for (event, callback) in callbacks_by_event() {
        // SAFETY: the caller vouches for the connection; `callbacks_by_event` pairs each event with a callback of
        // the signature that libvirt uses for it.
        let error = match unsafe { register_event(connection, event, callback, handlers) } {
            Ok(id) => {
                ids.push(id);
                continue;
            }
            Err(error) => error,
        };
        // SAFETY: the caller vouches for the connection.
        let alive = unsafe { sys::virConnectIsAlive(connection) } == 1;
        if event == sys::VIR_DOMAIN_EVENT_ID_LIFECYCLE || !alive {
            // SAFETY: these are the connection's own, and no other code has their ids.
            unsafe { deregister_events(connection, &ids) };
            return Err(error);
        }
        tracing::debug!(event, %error, "the daemon does not offer an event");
    }
    Ok(ids)
}

/// # Safety
/// `connection` is open and `callback` is what libvirt calls for `event`.
unsafe fn register_event(
    connection: sys::virConnectPtr,
    event: sys::virDomainEventID,
    callback: GenericCallback,
    handlers: &Arc<EventHandlers>,
) -> Result<c_int> {
    let key = CallbackKey::register(handlers);
    // SAFETY: the connection is open, a null domain means all of them, and the opaque is a number
    // to `callback` and `release`.
    let id = c_strings_and_errors::check(unsafe {
        sys::virConnectDomainEventRegisterAny(
            connection,
            std::ptr::null_mut(),
            event.cast_signed(),
            callback,
            key.opaque(),
            Some(release),
        )
    });
    if id.is_err() {
        key.release();
    }
    id
}

/// Deregisters event callbacks. A connection does not end while it has callbacks.
///
/// # Safety
/// `connection` is an open connection, and `ids` are callbacks of it, deregistered once.
pub(super) unsafe fn deregister_events(connection: sys::virConnectPtr, ids: &[c_int]) {
    for &id in ids {
        // SAFETY: the caller vouches for both. On a connection that is dead this only fails.
        unsafe { sys::virConnectDomainEventDeregisterAny(connection, id) };
    }
}

/// Registers the close callback. The caller releases its key together with the connection: a driver inside this process
/// (libvirt's test driver) never does.
///
/// # Safety
/// `connection` is an open connection.
pub(super) unsafe fn register_close(
    connection: sys::virConnectPtr,
    handlers: &Arc<EventHandlers>,
) -> Result<CallbackKey> {
    let key = CallbackKey::register(handlers);
    // SAFETY: the connection is open, and the opaque is a number to `closed` and `release`.
    let registered = c_strings_and_errors::check(unsafe {
        sys::virConnectRegisterCloseCallback(connection, Some(closed), key.opaque(), Some(release))
    });
    if registered.is_err() {
        key.release();
    }
    registered.map(|_| key)
}

/// Unregisters the close callback, before its connection is closed.
///
/// # Safety
/// `connection` is an open connection.
pub(super) unsafe fn unregister_close(connection: sys::virConnectPtr) {
    // SAFETY: the caller vouches for the connection. Without a close callback the call only fails.
    unsafe { sys::virConnectUnregisterCloseCallback(connection, Some(closed)) };
}

/// The events to register for, each with its callback.
fn callbacks_by_event() -> [(sys::virDomainEventID, GenericCallback); 11] {
    macro_rules! generic {
        ($callback:ident: $kind:ty) => {{
            let typed: $kind = Some(event_callbacks::$callback);
            // SAFETY: both are optional C function pointers; libvirt casts it back to `$kind`
            // for the event that the line names before it calls it.
            unsafe { mem::transmute::<$kind, GenericCallback>(typed) }
        }};
    }
    [
        (
            sys::VIR_DOMAIN_EVENT_ID_LIFECYCLE,
            generic!(lifecycle: sys::virConnectDomainEventCallback),
        ),
        (
            sys::VIR_DOMAIN_EVENT_ID_REBOOT,
            Some(event_callbacks::reboot),
        ),
        (
            sys::VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE,
            generic!(agent_lifecycle: sys::virConnectDomainEventAgentLifecycleCallback),
        ),
        (
            sys::VIR_DOMAIN_EVENT_ID_DEVICE_ADDED,
            generic!(device_added: sys::virConnectDomainEventDeviceAddedCallback),
        ),
        (
            sys::VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED,
            generic!(device_removed: sys::virConnectDomainEventDeviceRemovedCallback),
        ),
        (
            sys::VIR_DOMAIN_EVENT_ID_DEVICE_REMOVAL_FAILED,
            generic!(device_removal_failed: sys::virConnectDomainEventDeviceRemovalFailedCallback),
        ),
        (
            sys::VIR_DOMAIN_EVENT_ID_JOB_COMPLETED,
            generic!(job_completed: sys::virConnectDomainEventJobCompletedCallback),
        ),
        (
            sys::VIR_DOMAIN_EVENT_ID_MIGRATION_ITERATION,
            generic!(migration_iteration: sys::virConnectDomainEventMigrationIterationCallback),
        ),
        (
            sys::VIR_DOMAIN_EVENT_ID_IO_ERROR_REASON,
            generic!(io_error: sys::virConnectDomainEventIOErrorReasonCallback),
        ),
        (
            sys::VIR_DOMAIN_EVENT_ID_WATCHDOG,
            generic!(watchdog: sys::virConnectDomainEventWatchdogCallback),
        ),
        (
            sys::VIR_DOMAIN_EVENT_ID_MEMORY_DEVICE_SIZE_CHANGE,
            generic!(memory_device_size: sys::virConnectDomainEventMemoryDeviceSizeChangeCallback),
        ),
    ]
}
