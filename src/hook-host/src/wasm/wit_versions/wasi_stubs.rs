//! Stubs that refuse, for the parts of WASI with access to the outside: sockets, name lookup, and files unless a
//! directory is granted.
//!
//! Toolchains import these interfaces even if a hook does not use them, so they must link. wasmtime's implementations
//! are replaced by stubs, so that guests cannot reach a bug in them. The first call that would open something returns
//! an error code, and without an open resource a guest can call nothing else.

use std::sync::Arc;

use wasmtime::component::types::{ComponentFunc, ComponentItem};
use wasmtime::component::{Component, Linker, Resource, ResourceAny, ResourceType, Type, Val};
use wasmtime::{Engine, StoreContextMut, bail};

use crate::wasm::store_state::StoreState;

/// Prefix of the interfaces of sockets and name lookup.
pub(super) const SOCKETS_PREFIX: &str = "wasi:sockets/";
/// Prefix of the interfaces of files.
pub(super) const FILES_PREFIX: &str = "wasi:filesystem/";

/// The interfaces that define resources, with the resources. Other interfaces only use these resources.
const RESOURCE_DEFINITIONS: &[(&str, &str)] = &[
    ("filesystem/types", "descriptor"),
    ("filesystem/types", "directory-entry-stream"),
    ("sockets/network", "network"),
    ("sockets/tcp", "tcp-socket"),
    ("sockets/udp", "udp-socket"),
    ("sockets/udp", "incoming-datagram-stream"),
    ("sockets/udp", "outgoing-datagram-stream"),
    ("sockets/ip-name-lookup", "resolve-address-stream"),
];

/// The error codes of WASI's sockets and files that mean a refusal.
const REFUSAL_CODES: &[&str] = &["access-denied", "access"];

/// The host type of the resources of stubs.
struct StubResource;

/// Copies the linker and replaces the component's imports of these packages by stubs. The stubs have the types that the
/// component declares. The caller must have checked that these are the types of `linker`, because arguments of other
/// types could cost the host many times their size.
pub(super) fn linker_with_stubs(
    packages: &[&str],
    linker: &Linker<StoreState>,
    engine: &Engine,
    component: &Component,
) -> wasmtime::Result<Linker<StoreState>> {
    let mut with_stubs = linker.clone();
    with_stubs.allow_shadowing(true);
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
        let mut stub = with_stubs.instance(interface)?;
        for (name, export) in instance.exports(engine) {
            match export.ty {
                ComponentItem::ComponentFunc(_) => {
                    let function_name: Arc<str> = format!("{interface}#{name}").into();
                    stub.func_new_async(name, move |mut store, function, arguments, results| {
                        let function_name = Arc::clone(&function_name);
                        Box::new(async move {
                            // Borrowed handles must be dropped before the call ends.
                            for value in arguments {
                                if let Val::Resource(handle) = value {
                                    handle.resource_drop_async(&mut store).await?;
                                }
                            }
                            set_refusal(&function_name, store, &function, results)
                        })
                    })?;
                }
                ComponentItem::Resource(_) if is_defined_by(interface, name) => {
                    stub.resource(name, ResourceType::host::<StubResource>(), |_, _| Ok(()))?;
                }
                _ => {}
            }
        }
    }
    Ok(with_stubs)
}

fn is_defined_by(interface: &str, resource: &str) -> bool {
    let name = interface.trim_start_matches("wasi:");
    let name = name.split('@').next().unwrap_or(name);
    RESOURCE_DEFINITIONS.contains(&(name, resource))
}

/// Sets the result of a stub: an empty list or option, a resource, or a refusal. A function whose result cannot express
/// one of them traps.
fn set_refusal(
    function_name: &str,
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
            let resource = Resource::<StubResource>::new_own(0);
            Val::Resource(ResourceAny::try_from_resource(resource, store)?)
        }
        Type::Result(result) => match result.err().as_ref().and_then(refusal_code) {
            Some(code) => Val::Result(Err(Some(Box::new(Val::Enum(code.to_owned()))))),
            None => bail!("{function_name} is not for hooks"),
        },
        _ => bail!("{function_name} is not for hooks"),
    };
    Ok(())
}

/// The code of an error enum that means a refusal.
fn refusal_code(codes: &Type) -> Option<&'static str> {
    let Type::Enum(codes) = codes else {
        return None;
    };
    let is_in_enum = |refusal: &&&str| codes.names().any(|code| code == **refusal);
    REFUSAL_CODES.iter().find(is_in_enum).copied()
}

#[cfg(test)]
mod tests {
    use wasmtime::Store;

    use super::*;
    use crate::Limits;
    use crate::wasm::CallContext;
    use crate::wasm::engine_config::{EngineRole, TargetMachine, engine};

    /// A component that imports functions which WASI's interface of this name does not have, so that only stubs link,
    /// and exports functions that call them. (The functions of WASI whose stubs trap need a resource, which no stub
    /// returns.)
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
    async fn stubs_return_a_refusal_or_trap() {
        let engine = engine(EngineRole::Compile(TargetMachine::This)).unwrap();
        let component = Component::new(&engine, wat::parse_str(CALLER).unwrap()).unwrap();
        let linker = super::super::linker(&engine).unwrap();
        let files_only = linker_with_stubs(&[FILES_PREFIX], &linker, &engine, &component).unwrap();
        assert!(
            files_only.instantiate_pre(&component).is_err(),
            "sockets are wasmtime's"
        );
        let with_stubs = linker_with_stubs(
            &[FILES_PREFIX, SOCKETS_PREFIX],
            &linker,
            &engine,
            &component,
        )
        .unwrap();
        let (context, limits) = (CallContext::default(), Limits::default());
        let state = {
            let clock = crate::pod_facts::CallDeadline::new(std::time::Instant::now(), None);
            let pod_facts = crate::pod_facts::PodFactReader::new(context.pod.clone(), clock);
            StoreState::new(Default::default(), &context, &limits, pod_facts).unwrap()
        };
        let mut store = Store::new(&engine, state);
        store.set_epoch_deadline(1_000_000);
        let instance = with_stubs
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
        // The result is an error, the second code of the enum.
        assert_eq!(call("open").await.unwrap(), 0x0101);
        let trap = format!("{:#}", call("number").await.unwrap_err());
        assert!(
            trap.contains("wasi:sockets/tcp@0.2.0#number is not for hooks"),
            "{trap}"
        );
    }
}
