//! TLS for the HTTP library, whose own TLS takes no other rules about certificates.

use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport,
    TransportAdapter,
};

/// Makes TLS connections with one configuration, or none without a configuration.
#[derive(Debug)]
pub(crate) struct TlsConnector {
    config: Option<Arc<ClientConfig>>,
}

impl TlsConnector {
    pub(crate) fn new(config: Option<ClientConfig>) -> Self {
        Self {
            config: config.map(Arc::new),
        }
    }
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Either<In, TlsTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        connected: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        let Some(transport) = connected else {
            return Ok(None);
        };
        if !details.needs_tls() || transport.is_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let Some(config) = &self.config else {
            return Err(Error::Tls(
                "an https address with --plain-http needs --ca FILE",
            ));
        };
        let host = details.uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host)
            .map_err(|_| Error::Tls("the host is no name that a certificate can have"))?;
        let mut connection = ClientConnection::new(Arc::clone(config), name.to_owned())?;
        let transport: Box<dyn Transport> = Box::new(transport);
        let mut socket = TransportAdapter::new(transport, Arc::clone(&details.current_time));
        socket.set_timeout(details.timeout);
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        let buffers = LazyBuffers::new(
            details.config.input_buffer_size(),
            details.config.output_buffer_size(),
        );
        let stream = StreamOwned::new(connection, socket);
        Ok(Some(Either::B(TlsTransport { buffers, stream })))
    }
}

/// A TLS connection.
pub(crate) struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.get_mut().set_timeout(timeout);
        let output = self.buffers.output();
        let output = output.get(..amount).unwrap_or(output);
        self.stream.write_all(output)?;
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.get_mut().set_timeout(timeout);
        let count = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connection = self.stream.get_ref().inner();
        formatter
            .debug_tuple("TlsTransport")
            .field(connection)
            .finish()
    }
}
