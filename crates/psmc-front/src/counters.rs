//! What has happened since the start.

psmc_service::counters! {
    /// Connections of clients.
    connections,
    /// TLS handshakes, and heads of the PROXY protocol, that failed.
    failed_handshakes,
    /// Requests.
    requests,
    /// Those that were not what HTTP has, or broke a limit.
    malformed,
    /// Those that were refused because they would have waited in vain.
    refused,
    /// Those whose server could not be reached, or gave no answer.
    unreachable,
    /// Those whose server took too long.
    timed_out,
    /// Those that were sent once more, for a connection that was kept had been closed.
    repeated,
    /// Answers that were complete.
    complete,
    /// Answers that ended before their end, which their clients could see.
    cut,
    /// Answers whose clients went away.
    abandoned,
    /// Connections that went on with another protocol.
    upgraded,
}
