//! Others that measure the way to this site by STAMP, if its file lets them.

use std::io;
use std::net::SocketAddr;

use psmc_stamp::{Reflector, Settings};
use tokio::task::JoinHandle;

/// Why nobody is answered.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot answer STAMP at UDP {listen}: `ss -ulpn` shows which program uses the port; below 1024 it takes root, or the capability \
     CAP_NET_BIND_SERVICE"
)]
pub struct ReflectorError {
    listen: SocketAddr,
    source: io::Error,
}

/// The reflector, if there is one. It ends with this.
#[derive(Debug, Default)]
pub(super) struct Reflection {
    running: Option<JoinHandle<()>>,
}

impl Reflection {
    /// Answers as these settings say from now on, or nobody.
    pub(super) async fn allow(&mut self, settings: Option<&Settings>) -> Result<(), ReflectorError> {
        if let Some(running) = self.running.take() {
            running.abort();
            // Its port is free once it has ended.
            let _ = running.await;
        }
        let Some(settings) = settings else { return Ok(()) };
        let failed = |source| ReflectorError { listen: settings.listen, source };
        let reflector = Reflector::bind(settings).map_err(failed)?;
        self.running = Some(tokio::spawn(reflector.run()));
        Ok(())
    }
}

impl Drop for Reflection {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.abort();
        }
    }
}
