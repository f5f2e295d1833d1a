//! nginx behind, curl in front: what is asked for comes as if there were nothing between.

use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::harness::{Front, curl, free_address, wait_for};

/// Debian's nginx, with a folder.
pub(crate) struct Nginx {
    pub(crate) address: SocketAddr,
    child: Child,
    _directory: TempDir,
}

impl Nginx {
    /// With one more word on its listener, in the way of its version.
    pub(crate) fn start(protocol: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let address = free_address();
        let root = directory.path();
        let h2 = if protocol == "http2 on" { " http2" } else { "" };
        let config = format!(
            "user root;\ndaemon off;\nworker_processes 1;\npid {0}/pid;\nerror_log {0}/error.log;\n\
             events {{ worker_connections 256; }}\nhttp {{\n access_log off;\n if_modified_since before;\n client_body_temp_path {0}/body;\n \
             proxy_temp_path {0}/proxy;\n fastcgi_temp_path {0}/fastcgi;\n uwsgi_temp_path {0}/uwsgi;\n scgi_temp_path {0}/scgi;\n \
             server {{ listen {address}{h2}; root {0}; location /moved {{ return 301 /file.txt; }} }}\n}}\n",
            root.display()
        );
        fs::write(root.join("nginx.conf"), config).unwrap();
        fs::write(root.join("file.txt"), "from nginx\n").unwrap();
        fs::write(root.join("large.bin"), vec![b'x'; 3_000_000]).unwrap();
        let mut command = Command::new("/usr/sbin/nginx");
        command.arg("-c").arg(root.join("nginx.conf")).stderr(Stdio::null());
        let child = command.spawn().expect("nginx is installed");
        wait_for("nginx", || std::net::TcpStream::connect(address).ok());
        Self { address, child, _directory: directory }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // It tells its workers.
        let _ = Command::new("kill").args(["-s", "TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

#[test]
fn what_nginx_says_comes_through() {
    let nginx = Nginx::start("");
    let front = Front::start(&[nginx.address], "", "");
    let through = |args: &[&str], path: &str| {
        let answers = [front.address, nginx.address].map(|address| {
            let url = format!("http://{address}{path}");
            let mut all = vec!["--include", "--header", "Host: test"];
            all.extend(args);
            all.push(&url);
            // Who closes a connection when is between two neighbours.
            let answer = curl(&all).to_lowercase();
            let lines: Vec<String> = answer
                .lines()
                .filter(|line| !line.starts_with("connection:") && !line.starts_with("date:"))
                .map(str::to_owned)
                .collect();
            lines
        });
        let [front, mut nginx] = answers;
        let (mut front, body) = (front, nginx.len());
        front.sort();
        nginx.sort();
        assert_eq!((&front, front.len()), (&nginx, body), "{args:?} {path}");
        front.join("\n")
    };
    assert!(through(&[], "/file.txt").contains("from nginx"));
    assert!(through(&["--head"], "/file.txt").contains("content-length: 11"));
    assert!(through(&["--range", "5-9"], "/file.txt").contains("206 partial content"));
    assert!(
        through(&["--header", "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"], "/file.txt")
            .contains("304 not modified")
    );
    through(&[], "/missing");
    through(&[], "/moved");
    through(&["--request", "OPTIONS"], "/file.txt");
    through(&["--data", "a=b"], "/file.txt");
    assert!(curl(&[&front.url("/large.bin")]).bytes().filter(|byte| *byte == b'x').count() == 3_000_000);
}

#[test]
fn connections_to_servers_are_kept() {
    let nginx = Nginx::start("");
    let front = Front::start(&[nginx.address], "", "");
    let url = front.url("/file.txt");
    let urls = vec![url.as_str(); 20];
    assert_eq!(curl(&urls), "from nginx\n".repeat(20));
    let server = &front.status()["servers"][0];
    assert_eq!((server["connects"].as_u64(), server["idle"].as_u64()), (Some(1), Some(1)), "{server}");
}
