//! Control sockets: Unix stream sockets that only their owner may connect to, with a file that goes away in the end.

use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixSocket};
use tracing::warn;

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another daemon is there.
    #[error("another daemon is using {}; stop it, or choose another name or control_socket", path.display())]
    InUse {
        /// The socket's path.
        path: PathBuf,
    },
    /// Something that is not a socket is in the way.
    #[error("{} exists and is not a socket; remove it, or choose another control_socket", path.display())]
    NotASocket {
        /// The socket's path.
        path: PathBuf,
    },
    /// The directory cannot be made.
    #[error("cannot make the directory {} for the control socket", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system refuses.
    #[error("cannot create the control socket {}", path.display())]
    Socket {
        /// The socket's path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The file of a bound socket; removed on drop, unless another has taken its place.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|found| identity(&found) == self.identity);
        if !ours {
            return;
        }
        if let Err(error) = fs::remove_file(&self.path) {
            warn!(%error, path = %self.path.display(), "cannot remove the control socket");
        }
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Listens on a socket at `path`, with room for `waiting` connections that are not accepted yet. A socket that a daemon
/// has left behind is replaced, its directory is made if need be.
///
/// # Errors
/// [`BindError`].
///
/// # Panics
/// Outside a tokio runtime.
pub fn bind(path: &Path, waiting: u32) -> Result<(UnixListener, SocketFile), BindError> {
    make_directory(path)?;
    make_way(path)?;
    let (listener, identity) = listen(path, waiting).map_err(|source| bind_error(path, source))?;
    Ok((listener, SocketFile { path: path.to_owned(), identity }))
}

fn bind_error(path: &Path, source: io::Error) -> BindError {
    let path = path.to_owned();
    if source.kind() == io::ErrorKind::AddrInUse {
        BindError::InUse { path }
    } else {
        BindError::Socket { path, source }
    }
}

fn make_directory(path: &Path) -> Result<(), BindError> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let made = DirBuilder::new().recursive(true).mode(0o755).create(directory);
    made.map_err(|source| BindError::Directory { path: directory.to_owned(), source })
}

/// Removes a socket that a daemon has left behind, and nothing else.
fn make_way(path: &Path) -> Result<(), BindError> {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !metadata.file_type().is_socket() {
        return Err(BindError::NotASocket { path: path.to_owned() });
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|source| BindError::Socket { path: path.to_owned(), source })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // Whoever it is: it listens, or we may not know.
        Ok(_) | Err(_) => Err(BindError::InUse { path: path.to_owned() }),
    }
}

/// There is no moment at which others could connect: on Linux `bind` gives the file the mode of the socket's own inode,
/// less the umask (`unix_bind_bsd()` in the kernel), and that mode is set before.
fn listen(path: &Path, waiting: u32) -> io::Result<(UnixListener, (u64, u64))> {
    let socket = UnixSocket::new_stream()?;
    let inode = File::from(socket.as_fd().try_clone_to_owned()?);
    inode.set_permissions(Permissions::from_mode(0o600))?;
    socket.bind(path)?;
    let identity = identity(&fs::symlink_metadata(path)?);
    Ok((socket.listen(waiting)?, identity))
}
