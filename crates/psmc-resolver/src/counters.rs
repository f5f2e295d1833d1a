//! What the resolver has done.

psmc_service::counters! {
    /// Questions that came in.
    questions,
    /// Requests that could not be parsed, or are none that a resolver answers.
    malformed,
    /// Answers out of the cache.
    cache_hits,
    /// Answers out of the cache that had expired, for no upstream server answered.
    stale,
    /// Questions that waited for the answer to the same question of another.
    merged,
    /// Questions that were put to the upstream servers.
    forwarded,
    /// Questions that no upstream server answered.
    failed,
    /// Questions that were refused because too many were under way: of their source, of their domain, or of all.
    limited,
    /// Datagrams and connections that were dropped because too many were being served.
    overloaded,
    /// Names with alternate routes whose answers waited until the tunnel could be used.
    awaited,
    /// Of those, the ones that waited in vain.
    awaited_in_vain,
    /// Sets of routes that were believed.
    routes_believed,
    /// Sets that their service has not signed.
    routes_forged,
    /// Sets that are older than one that was seen.
    routes_replayed,
    /// Sets that have expired, or claim to last too long.
    routes_expired,
    /// Sets that are sealed to other groups of clients.
    routes_of_other_groups,
    /// Records that are no sets.
    routes_malformed,
    /// Sets that were handed to psmcd.
    routes_handed,
    /// Sets that psmcd has refused, or could not be told.
    routes_not_handed,
    /// Sets that could not be kept on disk.
    routes_not_kept,
    /// Looks for routes in DNS.
    checks,
    /// Those of them that no name server answered.
    checks_failed,
    /// Routes that a coordinator sent.
    routes_told,
}
