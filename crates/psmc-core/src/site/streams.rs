//! Which TCP connections a site ends.

use psmc_wire::frame::StreamOpening;
use psmc_wire::ip::tcp::Syn;

use super::Site;
use crate::classify;
use crate::ids::PeerId;

impl Site {
    /// The connection that `packet` begins, and the peer to whom it leads, if it is to be ended at the sites: of a class, or to a peer,
    /// for which that is configured, and that does so itself. What is signed (TCP-AO, MD5) nobody else can end. What is not ended is
    /// given to [`handle_packet`](Self::handle_packet).
    #[must_use]
    pub fn connection_to_split(&self, packet: &[u8]) -> Option<(PeerId, StreamOpening)> {
        let syn = Syn::parse(packet).filter(|syn| !syn.is_signed())?;
        let peer = self.shared.routes.lookup_destination(syn.server().ip())?;
        let headers = classify::classify(packet, self.shared.flow_key).ok()?;
        let is_split = self.peers.get(&peer)?.splits(&headers, &self.shared);
        let opening = StreamOpening { client: syn.client(), server: syn.server(), dscp: syn.dscp() };
        is_split.then_some((peer, opening))
    }
}
