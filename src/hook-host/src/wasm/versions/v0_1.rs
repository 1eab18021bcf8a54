//! Adapter between the host and WIT line `virt-hook:hooks@0.1`.

use wasmtime::Store;
use wasmtime::component::{Component, HasSelf, Linker};

use crate::LogLevel;
use crate::wasm::module_call::{Answer, Call, CallError};
use crate::wasm::store_state::StoreState;
use bindings::exports::virt_hook::hooks::handler;
use bindings::virt_hook::hooks::{host, types};

#[allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all)]
mod bindings {
    wasmtime::component::bindgen!({
        path: "../../hooks-sdk/wit/v0.1",
        world: "hook",
        exports: { default: async },
    });
}

/// The newest version of this line that the host implements.
pub(super) const VERSION: &str = "0.1.0";
/// The interfaces that a hook of this line may import.
pub(super) const IMPORTS: [&str; 2] = ["types", "host"];

/// A linked component that exports the interfaces of this line.
#[derive(Clone)]
pub(in crate::wasm) struct Binding(bindings::HookPre<StoreState>);

pub(super) fn add_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    bindings::Hook::add_to_linker::<StoreState, HasSelf<StoreState>>(linker, |state| state)
}

impl Binding {
    /// Links a component against this line.
    pub(super) fn new(
        linker: &Linker<StoreState>,
        component: &Component,
    ) -> wasmtime::Result<Self> {
        let pre = linker.instantiate_pre(component)?;
        bindings::HookPre::new(pre).map(Self)
    }

    /// The component itself.
    pub(super) fn component(&self) -> &Component {
        self.0.instance_pre().component()
    }

    pub(super) async fn describe(&self, store: &mut Store<StoreState>) -> wasmtime::Result<String> {
        let hook = self.0.instantiate_async(&mut *store).await?;
        hook.virt_hook_hooks_handler().call_describe(store).await
    }

    /// Calls a hook point on a fresh instance. The outer error is a trap, the inner one the hook's own.
    pub(super) async fn call(
        &self,
        store: &mut Store<StoreState>,
        call: &Call<'_>,
    ) -> wasmtime::Result<Result<Answer, CallError>> {
        let hook = self.0.instantiate_async(&mut *store).await?;
        let handler = hook.virt_hook_hooks_handler();
        let answer = match call {
            Call::PreStart { vmi } => handler
                .call_pre_start(store, vmi)
                .await?
                .map(|()| Answer::Done),
            Call::PreCloudInitIso {
                vmi,
                data_source,
                documents,
            } => handler
                .call_pre_cloud_init_iso(store, vmi, data_source, documents)
                .await?
                .map(Answer::Documents),
            Call::OnDefineDomain { vmi, domain_xml } => handler
                .call_on_define_domain(store, vmi, domain_xml)
                .await?
                .map(Answer::DomainXml),
            Call::Shutdown => handler.call_shutdown(store).await?.map(|()| Answer::Done),
        };
        Ok(answer.map_err(refusal))
    }
}

fn refusal(error: handler::Error) -> CallError {
    match error {
        types::Error::Veto(text) => CallError::Veto(text),
        types::Error::Failed(text) => CallError::Failed(text),
    }
}

impl types::Host for StoreState {}

impl host::Host for StoreState {
    fn log(&mut self, level: host::Level, message: String) {
        let level = match level {
            host::Level::Debug => LogLevel::Debug,
            host::Level::Info => LogLevel::Info,
            host::Level::Warn => LogLevel::Warn,
            host::Level::Error => LogLevel::Error,
        };
        self.log.log(level, &message);
    }

    fn invocation(&mut self, key: String) -> Option<String> {
        self.facts.get(key.as_str()).cloned()
    }

    fn config(&mut self, key: String) -> Option<String> {
        self.config.get(&key).cloned()
    }
}
