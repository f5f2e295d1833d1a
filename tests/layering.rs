//! The rule that keeps the crates apart: L0 <- L1, L0 <- L2, and only L3 sees both L1 and L2.
//!
//! `docs/decisions/0001-workspace-and-layers.md` says why.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where a crate stands, which is what it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    /// L0: bytes and types.
    Wire,
    /// L1: state machines and algorithms; no I/O, no clock, no threads, no chance of their own.
    Machines,
    /// L2: the operating system.
    Edge,
    /// L3: what is run.
    Programs,
}

/// Every crate there is or will be. One that is missing here fails the test, so that somebody gives it a place.
const LAYERS: &[(&str, Layer)] = &[
    ("psmc-wire", Layer::Wire),
    ("psmc-core", Layer::Machines),
    ("psmc-drain", Layer::Machines),
    ("psmc-select", Layer::Machines),
    ("psmc-shares", Layer::Machines),
    ("psmc-sim", Layer::Machines),
    ("psmc-tomography", Layer::Machines),
    ("psmc-net", Layer::Edge),
    ("psmc-testbed", Layer::Edge),
    ("psmc", Layer::Programs),
    ("psmc-api", Layer::Programs),
    ("psmc-coordinator", Layer::Programs),
    ("psmc-demo", Layer::Programs),
    ("psmc-dns", Layer::Programs),
    ("psmc-experiments", Layer::Programs),
    ("psmc-fetch", Layer::Programs),
    ("psmc-front", Layer::Programs),
    ("psmc-lab", Layer::Programs),
    ("psmc-guard", Layer::Programs),
    ("psmc-manual", Layer::Programs),
    ("psmc-service", Layer::Programs),
    ("psmc-shed", Layer::Programs),
    ("psmc-relay", Layer::Programs),
    ("psmc-resolver", Layer::Programs),
    ("psmc-routes", Layer::Programs),
    ("psmc-signal", Layer::Programs),
    ("psmc-stamp", Layer::Programs),
    ("psmc-toml", Layer::Programs),
    ("psmc-tool", Layer::Programs),
    ("psmcd", Layer::Programs),
];

/// Crates that bring the operating system, a clock, threads or chance with them, or blur errors: closed to L0 and L1.
const IMPURE: &[&str] = &[
    "anyhow",
    "chrono",
    "eyre",
    "getrandom",
    "libc",
    "mio",
    "nix",
    "quinn-udp",
    "rayon",
    "ring",
    "rtnetlink",
    "rustix",
    "rustls",
    "smol",
    "socket2",
    "tempfile",
    "time",
    "tun-rs",
];

/// Families of such crates, by how their names begin.
const IMPURE_FAMILIES: &[&str] = &["async-", "aws-lc-", "hickory-", "netlink-", "tokio", "windows"];

/// What the standard library offers of the same kind. Maps with random state belong here: their order differs from run to run.
const IMPURE_WORDS: &[&str] = &[
    "HashMap",
    "HashSet",
    "Instant::now",
    "RandomState",
    "SystemTime",
    "TcpListener",
    "TcpStream",
    "UdpSocket",
    "std::env",
    "std::fs",
    "std::process",
    "std::thread",
    "thread::spawn",
];

/// For each crate of the workspace the names of all crates it is linked with, at any depth.
type Graph = BTreeMap<String, BTreeSet<String>>;

#[test]
fn crates_depend_only_on_layers_below() {
    assert_no_breach(&breaches_of_graph(workspace_graph()));
}

#[test]
fn state_machines_use_no_clock_no_io_and_no_chance() {
    let root = workspace_root();
    let mut breaches = Vec::new();
    for (name, _) in LAYERS.iter().filter(|(_, layer)| is_pure(*layer)) {
        for file in rust_files(&root.join("crates").join(name).join("src")) {
            breaches.extend(breaches_of_source(&file.display().to_string(), &read(&file)));
        }
    }
    assert_no_breach(&breaches);
}

#[test]
fn only_the_edge_may_hold_unsafe_code() {
    let root = workspace_root();
    let directory_of = |name: &str| {
        if name == "psmc" { root.to_owned() } else { root.join("crates").join(name) }
    };
    let members = workspace_graph().keys();
    let breaches = members.filter_map(|name| {
        let manifest = read(&directory_of(name).join("Cargo.toml"));
        breach_of_manifest(name, &manifest)
    });
    assert_no_breach(&breaches.collect::<Vec<_>>());
}

/// A module can be read, and tested, with those that it uses: with a cycle, those would be all.
#[test]
fn modules_of_the_core_form_no_cycle() {
    let (graph, breaches) = modules(&workspace_root().join("crates/psmc-core/src"));
    assert_no_breach(&breaches);
    assert_eq!(cycle(&graph), None, "each of these modules uses the next one, and the last one the first");
}

fn assert_no_breach(breaches: &[String]) {
    assert!(breaches.is_empty(), "the layers are breached:\n{}", breaches.join("\n"));
}

fn is_pure(layer: Layer) -> bool {
    match layer {
        Layer::Wire | Layer::Machines => true,
        Layer::Edge | Layer::Programs => false,
    }
}

fn layer_of(name: &str) -> Option<Layer> {
    LAYERS.iter().find(|(known, _)| *known == name).map(|(_, layer)| *layer)
}

fn breaches_of_graph(graph: &Graph) -> Vec<String> {
    let mut breaches = Vec::new();
    for (name, dependencies) in graph {
        let Some(layer) = layer_of(name) else {
            breaches.push(format!("{name} has no layer: give it one in LAYERS of tests/layering.rs"));
            continue;
        };
        let forbidden = dependencies.iter().filter(|dependency| !may_use(layer, graph, dependency));
        breaches
            .extend(forbidden.map(|dependency| format!("{name} ({layer:?}) must not reach {dependency}")));
    }
    breaches
}

/// Whether a crate of `layer` may be linked with `dependency`, a crate of the workspace or of others.
fn may_use(layer: Layer, graph: &Graph, dependency: &str) -> bool {
    if !graph.contains_key(dependency) {
        return !is_pure(layer) || !is_impure(dependency);
    }
    match (layer, layer_of(dependency)) {
        (Layer::Programs, _) | (Layer::Machines | Layer::Edge, Some(Layer::Wire)) => true,
        (Layer::Machines, Some(below)) => below == Layer::Machines,
        (Layer::Edge, Some(below)) => below == Layer::Edge,
        (Layer::Wire, Some(_)) | (Layer::Wire | Layer::Machines | Layer::Edge, None) => false,
    }
}

fn is_impure(name: &str) -> bool {
    IMPURE.contains(&name) || IMPURE_FAMILIES.iter().any(|family| name.starts_with(family))
}

/// Impure words in the code of a file; comments and the module of tests at its end may hold them.
fn breaches_of_source(file: &str, text: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    for (index, line) in code_of(text).lines().enumerate() {
        let statement = line.split("//").next().unwrap_or_default();
        let words = IMPURE_WORDS.iter().filter(|word| statement.contains(**word));
        breaches.extend(words.map(|word| format!("{file}:{}: {word} must not stand here", index + 1)));
    }
    breaches
}

/// A file without the module of tests at its end.
fn code_of(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// Every crate takes the lints of the workspace, which forbid unsafe code; the edge denies it, block by block.
fn breach_of_manifest(name: &str, manifest: &str) -> Option<String> {
    let table: toml::Table = match manifest.parse() {
        Ok(table) => table,
        Err(error) => return Some(format!("{name}: {error}")),
    };
    let lints = table.get("lints");
    let inherited = lints.and_then(|lints| lints.get("workspace")?.as_bool()) == Some(true);
    let unsafe_code = lints.and_then(|lints| lints.get("rust")?.get("unsafe_code")?.as_str());
    let edge = layer_of(name) == Some(Layer::Edge) && unsafe_code == Some("deny");
    (!inherited && !edge).then(|| format!("{name}: its Cargo.toml lacks `[lints] workspace = true`"))
}

/// The graph of this workspace, which cargo is asked for once.
fn workspace_graph() -> &'static Graph {
    static GRAPH: OnceLock<Graph> = OnceLock::new();
    GRAPH.get_or_init(|| {
        let members = cargo_tree(&["--workspace", "--depth", "0"]);
        members.into_iter().map(|name| (name.clone(), linked_with(&name))).collect()
    })
}

fn linked_with(name: &str) -> BTreeSet<String> {
    let mut names = cargo_tree(&["--package", name]);
    names.remove(name);
    names
}

/// The names in cargo's tree of what is linked: procedural macros and tests may use what they like.
fn cargo_tree(arguments: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .current_dir(workspace_root())
        .args(["tree", "--quiet", "--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"])
        .args(arguments)
        .output()
        .expect("cargo started this test, so it can be run");
    assert!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("names of packages are ASCII");
    text.lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// For each top module of the crate in `src` the others that it uses; and the breaches of what makes that visible.
fn modules(src: &Path) -> (Graph, Vec<String>) {
    let is_module = |line: &&str| line.starts_with("mod ") || line.starts_with("pub mod ");
    let root = read(&src.join("lib.rs"));
    let names =
        root.lines().filter(is_module).filter_map(|line| line.strip_suffix(';')?.split(' ').next_back());
    let mut graph: Graph = names.map(|name| (name.to_owned(), BTreeSet::new())).collect();
    let mut breaches = Vec::new();
    for file in rust_files(src).iter().filter(|file| !file.ends_with("lib.rs")) {
        let inside = file.strip_prefix(src).expect("it was found there").with_extension("");
        let place: Vec<_> = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        for used in used_modules(code_of(&read(file)), place.len()) {
            if !graph.contains_key(&used) {
                breaches.push(format!("{}: name {used} by its module", file.display()));
            } else if used != place[0] {
                graph.entry(place[0].clone()).or_default().insert(used);
            }
        }
    }
    (graph, breaches)
}

/// What the code of a module at this depth names in the root of its crate: after `crate::`, or as many `super::`.
fn used_modules(code: &str, depth: usize) -> BTreeSet<String> {
    let statements: Vec<_> = code.lines().filter_map(|line| line.split("//").next()).collect();
    let text = statements.join(" ");
    let roots = ["crate::".to_owned(), "super::".repeat(depth)];
    let paths = roots.iter().flat_map(|root| text.split(root.as_str()).skip(1));
    paths.flat_map(first_names).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The first name of a path, or of each one in a group: `a` of `a::B`, and `a` and `c` of `{a::{B, D}, c}`.
fn first_names(path: &str) -> Vec<&str> {
    let name_at =
        |text: &'_ str| text.find(|it: char| !it.is_alphanumeric() && it != '_').unwrap_or(text.len());
    let Some(group) = path.strip_prefix('{') else {
        return vec![&path[..name_at(path)]];
    };
    let mut names = Vec::new();
    let (mut depth, mut begin) = (0, 0);
    for (index, char) in group.char_indices() {
        match char {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                let item = group[begin..index].trim_start();
                names.push(&item[..name_at(item)]);
                begin = index + 1;
                if char == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

/// A cycle in a graph, if there is one: each uses the next, and the last one the first.
fn cycle(graph: &Graph) -> Option<Vec<&str>> {
    let mut rest: BTreeSet<&str> = graph.keys().map(String::as_str).collect();
    // What uses nothing of the rest is on no cycle.
    while let Some(end) =
        rest.iter().copied().find(|name| graph[*name].iter().all(|used| !rest.contains(used.as_str())))
    {
        rest.remove(end);
    }
    let mut way = vec![*rest.first()?];
    loop {
        let used = graph[way[way.len() - 1]].iter().find(|used| rest.contains(used.as_str()))?;
        if let Some(begin) = way.iter().position(|name| name == used) {
            return Some(way.split_off(begin));
        }
        way.push(used);
    }
}

fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The Rust files below `dir`, those that hold only tests left out; none if there is no such directory.
fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.expect("a directory that opens can be listed").path();
        let is_tests = path.file_stem().is_some_and(|stem| stem == "tests");
        if path.is_dir() && !is_tests {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") && !is_tests {
            files.push(path);
        }
    }
    files
}

fn graph(edges: &[(&str, &[&str])]) -> Graph {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    edges.iter().map(|(name, dependencies)| ((*name).to_owned(), owned(dependencies))).collect()
}

#[test]
fn a_good_graph_has_no_breach() {
    let good = graph(&[
        ("psmc-wire", &["thiserror"]),
        ("psmc-core", &["psmc-wire", "thiserror"]),
        ("psmc-sim", &["psmc-core", "psmc-wire"]),
        ("psmc-net", &["psmc-wire", "tokio", "libc"]),
        ("psmcd", &["psmc-core", "psmc-net", "psmc-wire", "tokio"]),
    ]);
    assert_eq!(breaches_of_graph(&good), Vec::<String>::new());
}

#[test]
fn each_bad_edge_is_a_breach() {
    let crates = ["psmc-wire", "psmc-core", "psmc-net", "psmcd"];
    let bad_edges = [
        ("psmc-wire", "psmc-core"),
        ("psmc-wire", "psmc-net"),
        ("psmc-wire", "getrandom"),
        ("psmc-core", "psmc-net"),
        ("psmc-core", "psmcd"),
        ("psmc-core", "tokio-util"),
        ("psmc-core", "libc"),
        ("psmc-core", "hickory-proto"),
        ("psmc-net", "psmc-core"),
        ("psmc-net", "psmcd"),
    ];
    for (from, to) in bad_edges {
        let mut bad: Graph = crates.iter().map(|name| ((*name).to_owned(), BTreeSet::new())).collect();
        bad.entry(from.to_owned()).or_default().insert(to.to_owned());
        assert_eq!(breaches_of_graph(&bad).len(), 1, "{from} -> {to}");
    }
}

#[test]
fn a_crate_without_a_layer_is_a_breach() {
    assert_eq!(breaches_of_graph(&graph(&[("psmc-news", &[])])).len(), 1);
}

#[test]
fn the_real_graph_is_seen() {
    let graph = workspace_graph();
    assert!(graph["psmc-core"].contains("psmc-wire"), "{graph:?}");
    assert!(graph["psmc-net"].contains("tokio"), "{graph:?}");
    let core = workspace_root().join("crates/psmc-core/src");
    assert!(!rust_files(&core).is_empty());
    let (modules, _) = modules(&core);
    assert!(modules["site"].contains("session") && modules["session"].contains("path"), "{modules:?}");
}

#[test]
fn impure_words_are_found_in_code_only() {
    let text = "use std::time::Instant;\n// Instant::now would lie\nlet now = Instant::now();\n\
                #[cfg(test)]\nmod tests {\n    let map = HashMap::new();\n}\n";
    assert_eq!(breaches_of_source("x.rs", text), ["x.rs:3: Instant::now must not stand here"]);
}

#[test]
fn a_manifest_without_the_lints_is_a_breach() {
    let inherited = "[lints]\nworkspace = true\n";
    let denied = "[lints.rust]\nunsafe_code = \"deny\"\n";
    assert_eq!(breach_of_manifest("psmc-core", inherited), None);
    assert_eq!(breach_of_manifest("psmc-net", denied), None);
    assert!(breach_of_manifest("psmc-core", denied).is_some());
    assert!(breach_of_manifest("psmc-core", "[package]\n").is_some());
    assert!(breach_of_manifest("psmc-net", "[lints.rust]\nunsafe_code = \"allow\"\n").is_some());
}

#[test]
fn a_cycle_of_modules_is_found() {
    let tree = [("site", &["session", "path"][..]), ("session", &["path"]), ("path", &[])];
    assert_eq!(cycle(&graph(&tree)), None);
    let of_two =
        [("site", &["session"][..]), ("session", &["path"]), ("path", &["clock", "session"]), ("clock", &[])];
    assert_eq!(cycle(&graph(&of_two)), Some(vec!["path", "session"]));
    let of_three = [("a", &["b"][..]), ("b", &["c"]), ("c", &["a"])];
    assert_eq!(cycle(&graph(&of_three)), Some(vec!["a", "b", "c"]));
}

#[test]
fn modules_are_found_where_the_root_is_meant() {
    let code = "use crate::batch::Batch;\nuse crate::{clock, path::{Path, Via}, slab::Slab};\n// crate::comment\n\
                use super::rtt::Rtt;\nlet it = super::super::mss::clamp(crate::config::X);\n";
    let used = |depth| used_modules(code, depth).into_iter().collect::<Vec<_>>();
    assert_eq!(used(3), ["batch", "clock", "config", "path", "slab"]);
    assert_eq!(used(2), ["batch", "clock", "config", "mss", "path", "slab"]);
}
