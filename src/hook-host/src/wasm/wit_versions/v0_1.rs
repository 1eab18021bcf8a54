//! The adapter for the WIT line `virt-hook:hooks@0.1`.

use wasmtime::Store;
use wasmtime::component::{
    Component, ComponentNamedList, ComponentType, HasSelf, Lift, Linker, Lower,
};

use super::optional_exports::OptionalExports;

use crate::wasm::call_types::{Answer, Call, CallError};
use crate::wasm::store_state::StoreState;
use crate::{HookPoint, LogLevel};
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

/// The first version of this line; its interfaces are those that every module has.
pub(super) const FIRST_VERSION: &str = "0.1.0";
/// The newest version of this line that the host implements.
pub(super) const NEWEST_VERSION: &str = "0.1.1";
/// The interfaces of the first version that a module may import.
pub(super) const IMPORTS: [&str; 2] = ["types", "host"];

/// A component that is linked against this line.
#[derive(Clone)]
pub(in crate::wasm) struct Binding {
    hook: bindings::HookPre<StoreState>,
    optional: OptionalExports,
}

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
        Ok(Self {
            hook: bindings::HookPre::new(pre)?,
            optional: OptionalExports::from_component(component),
        })
    }

    /// The interface that the component would have to export to be called at the hook point, if it does not.
    pub(super) fn missing_interface(&self, point: HookPoint) -> Option<&'static str> {
        self.optional.missing_interface(point)
    }

    /// The compiled component.
    pub(super) fn component(&self) -> &Component {
        self.hook.instance_pre().component()
    }

    pub(super) async fn describe(&self, store: &mut Store<StoreState>) -> wasmtime::Result<String> {
        let hook = self.instance(store).await?;
        hook.virt_hook_hooks_handler().call_describe(store).await
    }

    /// Calls a hook point on a fresh instance. The outer error is a trap, the inner error is a veto or failure of the
    /// hook.
    pub(super) async fn call(
        &self,
        store: &mut Store<StoreState>,
        call: &Call<'_>,
    ) -> wasmtime::Result<Result<Answer, CallError>> {
        let answer = match call {
            Call::PreStart { vmi } => {
                let hook = self.instance(store).await?;
                let answer = hook.virt_hook_hooks_handler().call_pre_start(store, vmi);
                answer.await?.map(|()| Answer::Done)
            }
            Call::PreCloudInitIso {
                vmi,
                data_source,
                documents,
            } => {
                let hook = self.instance(store).await?;
                let handler = hook.virt_hook_hooks_handler();
                let answer = handler.call_pre_cloud_init_iso(store, vmi, data_source, documents);
                answer.await?.map(Answer::Documents)
            }
            Call::OnDefineDomain { vmi, domain_xml } => {
                let hook = self.instance(store).await?;
                let handler = hook.virt_hook_hooks_handler();
                let answer = handler.call_on_define_domain(store, vmi, domain_xml);
                answer.await?.map(Answer::DomainXml)
            }
            Call::OnAttachDevice { vmi, device_xml } => {
                let input = (*vmi, *device_xml);
                let answer = self.call_optional(store, call.point(), input);
                answer.await?.map(Answer::DeviceXml)
            }
            Call::PreMigrationSource { vmi, parameters } => {
                let input = (*vmi, *parameters);
                let answer = self.call_optional(store, call.point(), input);
                answer.await?.map(Answer::Parameters)
            }
            Call::Shutdown => {
                let hook = self.instance(store).await?;
                let answer = hook.virt_hook_hooks_handler().call_shutdown(store);
                answer.await?.map(|()| Answer::Done)
            }
        };
        Ok(answer.map_err(call_error))
    }

    async fn instance(&self, store: &mut Store<StoreState>) -> wasmtime::Result<bindings::Hook> {
        self.hook.instantiate_async(store).await
    }

    /// Calls the function of an optional hook point.
    async fn call_optional<Input, Output>(
        &self,
        store: &mut Store<StoreState>,
        point: HookPoint,
        input: Input,
    ) -> wasmtime::Result<Result<Output, types::Error>>
    where
        Input: ComponentNamedList + Lower,
        Output: ComponentType + Lift + Send + Sync + 'static,
    {
        let function = self.optional.function(point)?;
        let instance = self
            .hook
            .instance_pre()
            .instantiate_async(&mut *store)
            .await?;
        let function = instance
            .get_typed_func::<Input, (Result<Output, types::Error>,)>(&mut *store, function)?;
        let (answer,) = function.call_async(store, input).await?;
        Ok(answer)
    }
}

fn call_error(error: handler::Error) -> CallError {
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
        self.invocation_facts.get(key.as_str()).cloned()
    }

    fn config(&mut self, key: String) -> Option<String> {
        self.config.get(&key).cloned()
    }
}
