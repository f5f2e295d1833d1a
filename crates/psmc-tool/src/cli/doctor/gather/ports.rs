//! Ports of this site that another program has.

use std::fs;
use std::io;
use std::net::SocketAddr;

use psmc_net::tls::tcp::{TcpError, listen_tcp};
use psmc_net::udp::{BindError, UdpBind, UdpPort};
use psmcd::config::Config;

use super::super::facts::TakenPort;

/// Those of a site whose daemon does not run. To be called in a runtime.
pub(super) fn taken(config: &Config) -> Vec<TakenPort> {
    if config.site.is_hidden {
        return Vec::new();
    }
    let address = config.site.listen.socket_addr();
    let udp = is_in_use(UdpPort::bind(&UdpBind { address, interface: None }), |error| match error {
        BindError::Address { source, .. }
        | BindError::Interface { source, .. }
        | BindError::Socket(source) => Some(source),
    });
    let tcp = is_in_use(listen_tcp(address), |error| match error {
        TcpError::Listen { source, .. } => Some(source),
        TcpError::Socket(_)
        | TcpError::Interface { .. }
        | TcpError::Local { .. }
        | TcpError::Connect { .. }
        | TcpError::TimedOut { .. } => None,
    });
    let found = [("UDP", "udp", udp), ("TCP", "tcp", tcp)].into_iter().filter(|(_, _, is_taken)| *is_taken);
    found
        .map(|(protocol, table, _)| TakenPort { protocol, port: address.port(), by: owner(table, address) })
        .collect()
}

fn is_in_use<T, E>(bound: Result<T, E>, source: impl FnOnce(E) -> Option<io::Error>) -> bool {
    let error = bound.err().and_then(source);
    error.is_some_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}

/// The program that has a port, if it can be seen.
fn owner(table: &str, address: SocketAddr) -> Option<String> {
    let tables = [table.to_owned(), format!("{table}6")];
    let text: String =
        tables.iter().filter_map(|table| fs::read_to_string(format!("/proc/net/{table}")).ok()).collect();
    let sockets: Vec<String> =
        inodes(&text, address.port()).map(|inode| format!("socket:[{inode}]")).collect();
    let has_it = |process: &fs::DirEntry| {
        let files = fs::read_dir(process.path().join("fd")).into_iter().flatten().filter_map(Result::ok);
        let mut links = files.filter_map(|file| fs::read_link(file.path()).ok());
        links.any(|link| sockets.iter().any(|socket| link.as_os_str() == socket.as_str()))
    };
    let process = fs::read_dir("/proc").ok()?.filter_map(Result::ok).find(has_it)?;
    let name = fs::read_to_string(process.path().join("comm")).ok()?;
    Some(format!("{} (process {})", name.trim(), process.file_name().to_string_lossy()))
}

/// The sockets that have this local port, and no other end (proc_pid_net(5)).
fn inodes(table: &str, port: u16) -> impl Iterator<Item = &str> {
    let listens = move |line: &&str| {
        let mut words = line.split_whitespace().skip(1);
        let has_port = words.next().is_some_and(|local| local.ends_with(&format!(":{port:04X}")));
        has_port && words.next().is_some_and(|remote| remote.ends_with(":0000"))
    };
    table.lines().filter(listens).filter_map(|line| line.split_whitespace().nth(9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_listens_is_told_from_who_is_connected() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 00000000:13FB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0 100 0 0 10 0\n   \
            1: 0100007F:13FB 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 4243 1 0 100 0 0 10 0\n";
        assert_eq!(inodes(table, 5115).collect::<Vec<_>>(), ["4242"]);
        assert_eq!(inodes(table, 5116).count(), 0);
    }
}
