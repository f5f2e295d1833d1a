//! HAProxy, by its stats socket: `show stat` (its Management Guide, §9.1 and §9.3).

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

/// How long HAProxy may take to answer each part: less than the time between two questions.
const PATIENCE: Duration = Duration::from_millis(300);

/// The longest answer that is read: a line has some 500 bytes, and there are thousands of servers at most.
const MAX_ANSWER: u64 = 4 << 20;

/// Why nothing can be said.
#[derive(Debug, Error)]
pub enum HaProxyError {
    /// It does not answer.
    #[error("cannot ask HAProxy at {}: is it running, with `stats socket` in `global`?", socket.display())]
    NoAnswer {
        /// Where.
        socket: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It answers something else.
    #[error("what answers at {} is no HAProxy", .0.display())]
    Malformed(PathBuf),
    /// It has no such backend.
    #[error("HAProxy has no backend {0}")]
    NoBackend(String),
}

/// How many requests wait for a server of this backend.
///
/// # Errors
/// [`HaProxyError`].
pub(super) fn waiting(socket: &Path, backend: &str) -> Result<u64, HaProxyError> {
    let answer =
        ask(socket).map_err(|source| HaProxyError::NoAnswer { socket: socket.to_owned(), source })?;
    match parse(&answer, backend) {
        Some(Some(waiting)) => Ok(waiting),
        Some(None) => Err(HaProxyError::NoBackend(backend.to_owned())),
        None => Err(HaProxyError::Malformed(socket.to_owned())),
    }
}

fn ask(socket: &Path) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(b"show stat\n")?;
    let mut answer = String::new();
    stream.take(MAX_ANSWER).read_to_string(&mut answer)?;
    Ok(answer)
}

/// `qcur` of the backend; `None` inside if it is not there, and outside if this is no answer. Columns are found by their names, for
/// later versions add some; names of proxies have no commas, and nothing that is quoted comes before.
fn parse(answer: &str, backend: &str) -> Option<Option<u64>> {
    let mut lines = answer.lines();
    let names: Vec<&str> = lines.next()?.strip_prefix("# ")?.split(',').collect();
    let place = |name: &str| names.iter().position(|of| *of == name);
    let (proxy, server, queue) = (place("pxname")?, place("svname")?, place("qcur")?);
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        if fields.get(proxy) == Some(&backend) && fields.get(server) == Some(&"BACKEND") {
            return Some(Some(fields.get(queue)?.parse().ok()?));
        }
    }
    Some(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "# pxname,svname,qcur,qmax,scur,smax,\nfront,FRONTEND,,,3,9,\napp,s1,2,7,1,1,\napp,BACKEND,5,30,6,40,\n\n";

    #[test]
    fn the_queue_of_a_backend_is_read() {
        assert_eq!(parse(ANSWER, "app"), Some(Some(5)));
        assert_eq!(parse(ANSWER, "front"), Some(None), "it waits nowhere");
        assert_eq!(parse(&ANSWER.replace(",5,30", ",many,30"), "app"), None);
        for bad in ["", "HTTP/1.1 400 Bad request\n", "# pxname,svname\napp,BACKEND\n"] {
            assert_eq!(parse(bad, "app"), None, "{bad}");
        }
    }
}
