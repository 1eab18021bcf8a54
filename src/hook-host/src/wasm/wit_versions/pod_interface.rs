//! The host's implementation of the interface `pod` of 0.1.1: facts about the pod.

use wasmtime::component::{HasSelf, Linker};

use crate::pod_facts::{FactError, Network, PodFact, network_status};
use crate::wasm::store_state::StoreState;
use bindings::virt_hook::hooks0_1_1::pod::{self, Error};

#[allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all)]
mod bindings {
    wasmtime::component::bindgen!({
        inline: "package virt-hook:host; world pod-host { import virt-hook:hooks/pod@0.1.1; }",
        path: ["../../hooks-sdk/wit/v0.1", "../../hooks-sdk/wit/v0.1.1"],
        world: "virt-hook:host/pod-host",
        imports: { default: async },
    });
}

/// The name of the interface with its version.
pub(super) const INTERFACE: &str = "virt-hook:hooks/pod@0.1.1";

/// The name of the interface in grants, without version.
pub(in crate::wasm) const NAME: &str = "virt-hook:hooks/pod";

pub(super) fn add_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    pod::add_to_linker::<StoreState, HasSelf<StoreState>>(linker, |state| state)
}

impl pod::Host for StoreState {
    async fn annotation(&mut self, key: String, wait: bool) -> Result<Option<String>, Error> {
        self.read_fact(PodFact::Annotation(key), wait).await
    }

    async fn label(&mut self, key: String, wait: bool) -> Result<Option<String>, Error> {
        self.read_fact(PodFact::Label(key), wait).await
    }

    async fn network_status(
        &mut self,
        name: String,
        wait: bool,
    ) -> Result<Vec<pod::Network>, Error> {
        let name = match (name.contains('/'), self.invocation_facts.get("namespace")) {
            (false, Some(namespace)) => format!("{namespace}/{name}"),
            _ => name,
        };
        let networks = self.networks(PodFact::Network(name), wait).await?;
        Ok(networks.into_iter().map(to_wit).collect())
    }

    async fn default_network(&mut self, wait: bool) -> Result<Option<pod::Network>, Error> {
        let networks = self.networks(PodFact::DefaultNetwork, wait).await?;
        Ok(networks.into_iter().next().map(to_wit))
    }

    async fn network_info(&mut self, wait: bool) -> Result<Option<String>, Error> {
        self.read_fact(PodFact::NetworkInfo, wait).await
    }
}

impl StoreState {
    /// The text of a fact, if the hook may read it.
    async fn read_fact(&mut self, fact: PodFact, wait: bool) -> Result<Option<String>, Error> {
        self.require_interface(NAME).map_err(Error::Denied)?;
        self.pod.ask(fact, wait).await.map_err(to_wit_error)
    }

    /// The networks in a fact.
    async fn networks(&mut self, fact: PodFact, wait: bool) -> Result<Vec<Network>, Error> {
        let name = fact.to_string();
        let Some(text) = self.read_fact(fact, wait).await? else {
            return Ok(Vec::new());
        };
        // Networks from files are checked already, but those from a record are not.
        network_status::parse(&text).map_err(|error| Error::Unreadable(format!("{name}: {error}")))
    }
}

fn to_wit(network: Network) -> pod::Network {
    pod::Network {
        name: network.name,
        pod_interface: network.pod_interface,
        ips: network.ips,
        mac: network.mac,
        is_default: network.is_default,
        json: network.json,
    }
}

fn to_wit_error(error: FactError) -> Error {
    match error {
        FactError::Denied(text) => Error::Denied(format!("denied: {text}")),
        FactError::Absent(text) => Error::Absent(text),
        FactError::Unreadable(text) => Error::Unreadable(text),
    }
}
