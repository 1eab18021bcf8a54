//! Tests the rules for optional interfaces with `node`, an interface that exists only in these tests.

use std::collections::BTreeSet;

use wasmtime::StoreContextMut;
use wasmtime::component::Linker;

use super::optional_imports::OptionalInterface;
use crate::wasm::store_state::StoreState;
use crate::wasm::{Answer, Call, CallContext, CallError, LoadError, LoadOptions, Module};

#[path = "../../../tests/fixture/handwritten_guest.rs"]
#[allow(dead_code, unreachable_pub)]
mod handwritten_guest;

const NAME: &str = "virt-hook:hooks/node";
const WIT: &str = "interface node { read: func(key: string) -> result<string, string>; }";

/// An interface of a later patch version than the host's.
pub(super) const NODE: OptionalInterface = OptionalInterface {
    name: "virt-hook:hooks/node@0.1.2",
    add_to_linker,
};

fn add_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    linker.instance(NODE.name)?.func_wrap(
        "read",
        |store: StoreContextMut<'_, StoreState>, (key,): (String,)| {
            let granted = store.data().require_interface(NAME);
            Ok((granted.map(|()| format!("the {key} of this node")),))
        },
    )
}

/// A guest that calls the interface at OnDefineDomain and fails with the answer as its message.
fn node_reader() -> handwritten_guest::HandwrittenGuest {
    handwritten_guest::HandwrittenGuest {
        imports: r#"(import "virt-hook:hooks/node@0.1.0" "read" (func $read (param i32 i32 i32)))"#,
        fields: r#"(data (i32.const 512) "name")"#,
        define: "(call $read (i32.const 512) (i32.const 4) (i32.const 48))
            (i32.store (i32.const 32) (i32.const 1))
            (i32.store (i32.const 36) (i32.const 1))
            (i32.store (i32.const 40) (i32.load (i32.const 52)))
            (i32.store (i32.const 44) (i32.load (i32.const 56)))
            (return (i32.const 32))",
        ..handwritten_guest::HandwrittenGuest::default()
    }
}

async fn load(version: &str) -> Result<Module, LoadError> {
    let module = node_reader().module_for(version, WIT, "import node;");
    Module::from_bytes(&module, "node-reader", LoadOptions::default()).await
}

async fn define(module: &Module, interfaces: &[&str]) -> Result<Answer, CallError> {
    let context = CallContext {
        interfaces: interfaces
            .iter()
            .map(ToString::to_string)
            .collect::<BTreeSet<_>>(),
        ..CallContext::default()
    };
    let call = Call::OnDefineDomain {
        vmi: "{}",
        domain_xml: "<domain/>",
    };
    module.call(&context, &call).await.result
}

#[tokio::test]
async fn an_optional_interface_without_a_grant_links_and_returns_denied() {
    let module = load("0.1.2").await.unwrap();
    let denied = define(&module, &[]).await.unwrap_err();
    let expected = "denied: virt-hook:hooks/node is not granted to this hook";
    assert_eq!(denied, CallError::Failed(expected.to_owned()));
}

#[tokio::test]
async fn a_granted_optional_interface_can_be_called() {
    let module = load("0.1.2").await.unwrap();
    let answer = define(&module, &[NAME]).await.unwrap_err();
    assert_eq!(
        answer,
        CallError::Failed("the name of this node".to_owned())
    );
}

#[tokio::test]
async fn a_newer_optional_interface_than_the_hosts_is_refused_with_its_name() {
    let error = load("0.1.3").await.err().unwrap().to_string();
    assert!(
        error.contains("it needs the interface virt-hook:hooks/node@0.1.3"),
        "{error}"
    );
}
