//! A web server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::Site;

/// nginx on a host; it ends on drop.
pub(crate) struct Nginx(Child);

impl Nginx {
    /// Starts it with these directives and its own files in the site's [folder](Self::folder). It is one process: a master that is
    /// killed leaves its workers behind.
    pub(crate) fn start(site: &Site, modules: &str, directives: &str) -> Self {
        let folder = Self::folder(site);
        let config = format!(
            "{modules}\ndaemon off;\nmaster_process off;\npid {0}/nginx.pid;\nerror_log {0}/nginx.log;\nevents {{}}\n{directives}\n",
            folder.display()
        );
        let file = site.file("nginx");
        fs::write(&file, config).unwrap();
        let mut command = Command::new("nginx");
        command.arg("-p").arg(&folder).arg("-c").arg(&file).stdin(Stdio::null());
        Self(site.namespace.spawn(&mut command).unwrap())
    }

    /// Where its files are.
    pub(crate) fn folder(site: &Site) -> PathBuf {
        site.file("toml").parent().map(Path::to_owned).unwrap()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
