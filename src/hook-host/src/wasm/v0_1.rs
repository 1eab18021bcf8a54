//! `kubevirt:hooks@0.1`: the thin adapter between this line of the contract and the host.

use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime::{Engine, Store};

use super::call::{Answer, Call, CallError};
use super::state::State;
use crate::LogLevel;
use bindings::exports::kubevirt::hooks::handler;
use bindings::kubevirt::hooks::{host, types};

#[allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all)]
mod bindings {
    wasmtime::component::bindgen!({
        path: "../../hooks-sdk/wit/v0.1",
        world: "hook",
        exports: { default: async },
    });
}

/// The interface that makes a component a hook of this line.
const HANDLER: &str = "kubevirt:hooks/handler@0.1.0";

/// A component whose imports are satisfied and whose exports are this line's.
#[derive(Clone)]
pub(super) struct Hook(bindings::HookPre<State>);

pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    bindings::Hook::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

impl Hook {
    /// Checks a component against this line. The error says what is missing.
    pub(super) fn new(
        engine: &Engine,
        linker: &Linker<State>,
        component: &Component,
    ) -> Result<Self, String> {
        has_handler(engine, component)?;
        let pre = linker
            .instantiate_pre(component)
            .map_err(|error| format!("{error:#}"))?;
        bindings::HookPre::new(pre)
            .map(Self)
            .map_err(|error| format!("{error:#}"))
    }

    /// The component itself.
    pub(super) fn component(&self) -> &Component {
        self.0.instance_pre().component()
    }

    pub(super) async fn describe(&self, store: &mut Store<State>) -> wasmtime::Result<String> {
        let hook = self.0.instantiate_async(&mut *store).await?;
        hook.kubevirt_hooks_handler().call_describe(store).await
    }

    /// One call on a fresh instance. The outer error is a crash, the inner one the hook's word.
    pub(super) async fn call(
        &self,
        store: &mut Store<State>,
        call: &Call<'_>,
    ) -> wasmtime::Result<Result<Answer, CallError>> {
        let hook = self.0.instantiate_async(&mut *store).await?;
        let handler = hook.kubevirt_hooks_handler();
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

/// wasmtime would say this too, but not what the component exports instead.
fn has_handler(engine: &Engine, component: &Component) -> Result<(), String> {
    let component = component.component_type();
    if component.get_export(engine, HANDLER).is_some() {
        return Ok(());
    }
    let names: Vec<_> = component
        .exports(engine)
        .map(|(name, _)| name.to_owned())
        .take(8)
        .collect();
    let instead = if names.is_empty() {
        "nothing".to_owned()
    } else {
        names.join(", ")
    };
    Err(format!(
        "the export {HANDLER} is missing; it exports {instead}: build it with the SDK, or from the \
         WIT, of kubevirt:hooks@0.1"
    ))
}

fn refusal(error: handler::Error) -> CallError {
    match error {
        types::Error::Veto(text) => CallError::Veto(text),
        types::Error::Failed(text) => CallError::Failed(text),
    }
}

impl types::Host for State {}

impl host::Host for State {
    fn log(&mut self, level: host::Level, message: String) {
        let level = match level {
            host::Level::Debug => LogLevel::Debug,
            host::Level::Info => LogLevel::Info,
            host::Level::Warn => LogLevel::Warn,
            host::Level::Error => LogLevel::Error,
        };
        self.journal.log(level, &message);
    }

    fn invocation(&mut self, key: String) -> Option<String> {
        self.facts.get(key.as_str()).cloned()
    }

    fn config(&mut self, key: String) -> Option<String> {
        self.config.get(&key).cloned()
    }
}
