//! What the server has done.

psmc_service::counters! {
    /// Questions that were answered.
    answered,
    /// Updates that changed a zone.
    updated,
    /// Transfers to secondaries.
    transferred,
    /// Requests that were refused: names of other zones, missing permission, wrong signatures, replays.
    refused,
    /// Requests that could not be parsed.
    malformed,
    /// Datagrams that got no response, or a short one, because too many came from their network.
    limited,
    /// Requests and connections that were dropped because too many were being served.
    overloaded,
}
