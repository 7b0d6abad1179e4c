//! Channel ends of the service's processes.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use everwarp_process::{ChannelError, Endpoint, HostError};

use super::connection::Connection;
use crate::protocol::{Reply, ToEngine};

/// An end that the service keeps, until its last clone is dropped.
#[derive(Debug)]
struct EndNumber {
    connection: Arc<Connection>,
    number: u32,
}

impl Drop for EndNumber {
    fn drop(&mut self) {
        // After the connection has ended there is no end any more.
        let end = self.number;
        drop(self.connection.tell(&ToEngine::CloseEnd { end }));
    }
}

/// An end of a channel.
#[derive(Clone, Debug)]
pub(super) struct RemoteEnd(Arc<EndNumber>);

fn lost(error: HostError) -> ChannelError {
    ChannelError::Lost(error.to_string())
}

impl RemoteEnd {
    pub(super) fn new(connection: &Arc<Connection>, number: u32) -> Self {
        let connection = Arc::clone(connection);
        Self(Arc::new(EndNumber { connection, number }))
    }

    /// Its number, if it belongs to this connection.
    pub(super) fn number_on(&self, connection: &Arc<Connection>) -> Option<u32> {
        Arc::ptr_eq(&self.0.connection, connection).then_some(self.0.number)
    }
}

impl Endpoint for RemoteEnd {
    fn duplicate(&self) -> Box<dyn Endpoint> {
        Box::new(self.clone())
    }

    fn send(&self, message: &[u8], timeout: Option<Duration>) -> Result<(), ChannelError> {
        if message.len() > everwarp_process::gpu::MESSAGE_BYTES as usize {
            return Err(ChannelError::Size);
        }
        let message = message.to_vec().into();
        let reply = self.0.connection.ask(|request| ToEngine::SendMessage {
            request,
            end: self.0.number,
            message,
            timeout,
        });
        match reply.map_err(lost)? {
            Reply::Sent { result } => result.map_err(Into::into),
            _ => Err(lost(self.0.connection.garbled("another reply"))),
        }
    }

    fn receive(&self, timeout: Option<Duration>) -> Result<Vec<u8>, ChannelError> {
        let reply = self.0.connection.ask(|request| ToEngine::ReceiveMessage {
            request,
            end: self.0.number,
            timeout,
        });
        match reply.map_err(lost)? {
            Reply::Received { result } => result.map(|bytes| bytes.to_vec()).map_err(Into::into),
            _ => Err(lost(self.0.connection.garbled("another reply"))),
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
