//! Looks up the domain and reads from it, with its cached handle where possible.

use std::sync::Arc;

use libvirt::{Domain, State, XmlKind};

use super::call_class::{CallClass, QUICK};
use super::reconnecting_connection::Session;
use super::{CallError, Client, Inner};

impl Client {
    /// The domain, if libvirt knows it.
    pub async fn lookup(&self) -> Result<Option<Arc<dyn Domain>>, CallError> {
        self.lookup_named(self.domain_name()).await
    }

    /// The domain; an error if libvirt does not know it.
    pub(crate) async fn require_domain(&self) -> Result<Arc<dyn Domain>, CallError> {
        let domain = self.lookup().await?;
        domain.ok_or_else(|| CallError::no_domain(self.domain_name()))
    }

    async fn lookup_named(&self, name: &str) -> Result<Option<Arc<dyn Domain>>, CallError> {
        let name = name.to_owned();
        self.read("looking up the domain", QUICK, move |_, session| {
            Ok(session.hypervisor.lookup(&name)?)
        })
        .await
    }

    /// The domain with its state, if libvirt knows it. This takes one call if the cached handle is valid.
    pub(crate) async fn lookup_with_state(
        &self,
    ) -> Result<Option<(Arc<dyn Domain>, State)>, CallError> {
        let read_state = |inner: &Inner, session: &Session| {
            let read = |domain: &Arc<dyn Domain>| Ok((Arc::clone(domain), domain.state()?));
            Ok(inner.handle.read(session, &inner.domain_name, read)?)
        };
        self.read("asking for the domain's state", QUICK, read_state)
            .await
    }

    /// The domain's handle, or a new one if its connection was lost.
    pub(super) async fn connected_handle(
        &self,
        domain: &Arc<dyn Domain>,
    ) -> Result<Arc<dyn Domain>, CallError> {
        if domain.is_connected() {
            return Ok(Arc::clone(domain));
        }
        let domain_again = self.lookup_named(domain.name()).await?;
        domain_again.ok_or_else(|| CallError::no_domain(domain.name()))
    }

    /// The domain's state.
    pub async fn state_of(&self, domain: &Arc<dyn Domain>) -> Result<State, CallError> {
        let name = domain.name().to_owned();
        let state = move |inner: &Inner, session: &Session| {
            let state = inner.handle.read(session, &name, |domain| domain.state())?;
            state.ok_or_else(|| CallError::no_domain(&name))
        };
        self.read("asking for the domain's state", QUICK, state)
            .await
    }

    /// The domain's XML.
    pub async fn xml(&self, domain: &Arc<dyn Domain>, kind: XmlKind) -> Result<String, CallError> {
        let read = move |domain: &dyn Domain| domain.xml(kind);
        let what = "reading the domain's description";
        self.on(domain, what, QUICK, read).await
    }

    /// Runs `work`, which makes read-only calls, on the domain; `None` when there is no such domain. The domain is not
    /// looked up if the cached handle is valid. When the calls fail since the connection broke, they are repeated once
    /// on the new connection.
    pub(crate) async fn query<T, F>(
        &self,
        what: &'static str,
        class: CallClass,
        work: F,
    ) -> Result<Option<T>, CallError>
    where
        T: Send + 'static,
        F: Fn(&dyn Domain) -> libvirt::Result<T> + Clone + Send + 'static,
    {
        let query = move |inner: &Inner, session: &Session| {
            let read = |domain: &Arc<dyn Domain>| work(&**domain);
            Ok(inner.handle.read(session, &inner.domain_name, read)?)
        };
        self.read(what, class, query).await
    }
}
