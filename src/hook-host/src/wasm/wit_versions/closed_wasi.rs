//! Stubs for the parts of WASI that reach outside: sockets, name lookup, and files unless a directory is granted.
//!
//! Toolchains import these interfaces whether a hook uses them or not, so they must link. wasmtime's implementations are
//! replaced by functions that refuse, so that a fault in them cannot be reached: the first call that would open something
//! answers with an error code, and without something open there is nothing else to call.

use std::sync::Arc;

use wasmtime::component::types::{ComponentFunc, ComponentItem};
use wasmtime::component::{Component, Linker, Resource, ResourceAny, ResourceType, Type, Val};
use wasmtime::{Engine, StoreContextMut, bail};

use crate::wasm::store_state::StoreState;

/// The interfaces of sockets and name lookup.
pub(super) const SOCKETS: &str = "wasi:sockets/";
/// The interfaces of files.
pub(super) const FILES: &str = "wasi:filesystem/";

/// The interfaces that define resources; others mention the resources of these.
const RESOURCES: &[(&str, &str)] = &[
    ("filesystem/types", "descriptor"),
    ("filesystem/types", "directory-entry-stream"),
    ("sockets/network", "network"),
    ("sockets/tcp", "tcp-socket"),
    ("sockets/udp", "udp-socket"),
    ("sockets/udp", "incoming-datagram-stream"),
    ("sockets/udp", "outgoing-datagram-stream"),
    ("sockets/ip-name-lookup", "resolve-address-stream"),
];

/// The error codes that refuse, of WASI's sockets and files.
const REFUSALS: &[&str] = &["access-denied", "access"];

/// What a stub's resource stands for: nothing.
struct Nothing;

/// A copy of the linker in which the component's imports of these packages are stubs, with the types that the component
/// declares: those of `linker`, as the caller has checked. Arguments of other types cost the host many times their size.
pub(super) fn without(
    packages: &[&str],
    linker: &Linker<StoreState>,
    engine: &Engine,
    component: &Component,
) -> wasmtime::Result<Linker<StoreState>> {
    let mut closed = linker.clone();
    closed.allow_shadowing(true);
    for (interface, import) in component.component_type().imports(engine) {
        let ComponentItem::ComponentInstance(instance) = import.ty else {
            continue;
        };
        if !packages
            .iter()
            .any(|package| interface.starts_with(package))
        {
            continue;
        }
        let mut stub = closed.instance(interface)?;
        for (name, export) in instance.exports(engine) {
            match export.ty {
                ComponentItem::ComponentFunc(_) => {
                    let called: Arc<str> = format!("{interface}#{name}").into();
                    stub.func_new_async(name, move |mut store, function, given, results| {
                        let called = Arc::clone(&called);
                        Box::new(async move {
                            // A borrowed handle is given back before the call ends.
                            for value in given {
                                if let Val::Resource(handle) = value {
                                    handle.resource_drop_async(&mut store).await?;
                                }
                            }
                            refuse(&called, store, &function, results)
                        })
                    })?;
                }
                ComponentItem::Resource(_) if is_defined_by(interface, name) => {
                    stub.resource(name, ResourceType::host::<Nothing>(), |_, _| Ok(()))?;
                }
                _ => {}
            }
        }
    }
    Ok(closed)
}

fn is_defined_by(interface: &str, resource: &str) -> bool {
    let name = interface.trim_start_matches("wasi:");
    let name = name.split('@').next().unwrap_or(name);
    RESOURCES.contains(&(name, resource))
}

/// The answer that says that there is nothing, or that it is refused.
fn refuse(
    called: &str,
    store: StoreContextMut<'_, StoreState>,
    function: &ComponentFunc,
    results: &mut [Val],
) -> wasmtime::Result<()> {
    let (Some(result), Some(kind)) = (results.first_mut(), function.results().next()) else {
        return Ok(());
    };
    *result = match kind {
        Type::List(_) => Val::List(Vec::new()),
        Type::Option(_) => Val::Option(None),
        Type::Own(_) => {
            let nothing = Resource::<Nothing>::new_own(0);
            Val::Resource(ResourceAny::try_from_resource(nothing, store)?)
        }
        Type::Result(result) => match result.err().as_ref().and_then(refusal) {
            Some(code) => Val::Result(Err(Some(Box::new(Val::Enum(code.to_owned()))))),
            None => bail!("{called} is not for hooks"),
        },
        _ => bail!("{called} is not for hooks"),
    };
    Ok(())
}

fn refusal(codes: &Type) -> Option<&'static str> {
    let Type::Enum(codes) = codes else {
        return None;
    };
    let known = |refusal: &&&str| codes.names().any(|code| code == **refusal);
    REFUSALS.iter().find(known).copied()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use wasmtime::Store;

    use super::*;
    use crate::Limits;
    use crate::wasm::CallContext;
    use crate::wasm::engine_config::{EngineRole, TargetMachine, engine};

    /// Imports functions that WASI's own interface of this name does not have, so that only stubs link, and calls them.
    /// Functions of WASI that a stub answers with a trap need a resource that no stub gives.
    const CALLER: &str = r#"(component
        (import "wasi:sockets/tcp@0.2.0" (instance $host
            (type $codes (enum "unknown" "access-denied"))
            (export "error-code" (type $code (eq $codes)))
            (export "open" (func (result (result (error $code)))))
            (export "number" (func (result u32)))))
        (core module $memory (memory (export "memory") 1))
        (core instance $memory (instantiate $memory))
        (core func $open (canon lower (func $host "open") (memory $memory "memory")))
        (core func $number (canon lower (func $host "number")))
        (core module $caller
            (import "host" "open" (func $open (param i32)))
            (import "host" "number" (func $number (result i32)))
            (import "host" "memory" (memory 1))
            (func (export "open") (result i32)
                (call $open (i32.const 0)) (i32.load16_u (i32.const 0)))
            (func (export "number") (result i32) (call $number)))
        (core instance $caller (instantiate $caller (with "host" (instance
            (export "open" (func $open)) (export "number" (func $number))
            (export "memory" (memory $memory "memory"))))))
        (func (export "open") (result u32) (canon lift (core func $caller "open")))
        (func (export "number") (result u32) (canon lift (core func $caller "number"))))"#;

    #[tokio::test]
    async fn what_reaches_outside_is_a_stub_that_refuses() {
        let engine = engine(EngineRole::Compile(TargetMachine::This)).unwrap();
        let component = Component::new(&engine, wat::parse_str(CALLER).unwrap()).unwrap();
        let linker = super::super::linker(&engine).unwrap();
        let files = without(&[FILES], &linker, &engine, &component).unwrap();
        assert!(files.instantiate_pre(&component).is_err(), "wasmtime's own");
        let closed = without(&[FILES, SOCKETS], &linker, &engine, &component).unwrap();
        let (context, limits) = (CallContext::default(), Limits::default());
        let state = {
            let clock = crate::pod_facts::CallClock::new(std::time::Instant::now(), None);
            let questions = crate::pod_facts::PodFactReader::new(context.pod.clone(), clock);
            StoreState::new(Default::default(), &context, &limits, questions).unwrap()
        };
        let mut store = Store::new(&engine, state);
        store.set_epoch_deadline(1_000_000);
        let instance = closed
            .instantiate_async(&mut store, &component)
            .await
            .unwrap();
        let mut call = async |name| {
            let function = instance
                .get_typed_func::<(), (u32,)>(&mut store, name)
                .unwrap();
            function
                .call_async(&mut store, ())
                .await
                .map(|(value,)| value)
        };
        // An error, the second of the codes.
        assert_eq!(call("open").await.unwrap(), 0x0101);
        let trap = format!("{:#}", call("number").await.unwrap_err());
        assert!(
            trap.contains("wasi:sockets/tcp@0.2.0#number is not for hooks"),
            "{trap}"
        );
    }
}
