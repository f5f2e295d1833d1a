//! A client of psmcd's socket: which paths each peer has, and what they carry.
//!
//! ```sh
//! sudo cargo run -p psmc-api --example paths -- /run/psmc/van.sock
//! ```

use std::env;
use std::path::Path;
use std::process::ExitCode;

use psmc_api::{Client, ClientError};

fn main() -> ExitCode {
    match print_paths(env::args().nth(1).as_deref().map(Path::new)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // It says what to do.
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Asks the daemon at that socket, or the only one on this machine.
fn print_paths(socket: Option<&Path>) -> Result<(), ClientError> {
    let mut client = match socket {
        Some(path) => Client::connect(path)?,
        None => Client::connect_to_only_site()?,
    };
    for peer in client.paths(None)? {
        println!("{}", peer.peer);
        for path in peer.paths {
            println!("  {:<12} {:<10} {:>12} bytes sent", path.name, path.state.to_string(), path.tx_bytes);
        }
    }
    Ok(())
}

#[test]
fn a_daemon_that_is_not_there_is_named() {
    let error = print_paths(Some(Path::new("/nonexistent/van.sock"))).err();
    let said = error.map(|error| error.to_string()).unwrap_or_default();
    assert!(said.contains("no psmcd answers on /nonexistent/van.sock"), "{said}");
}
