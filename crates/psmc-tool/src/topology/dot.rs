//! DOT, the language of Graphviz: nodes, edges, attributes and their defaults; no subgraphs.

mod tokens;

use psmc_select::Draft;

use super::Malformed;
use super::attributes::{Attributes, add_link, add_node, set_graph};
use tokens::{Token, Tokens};

pub(super) fn parse(text: &str) -> Result<Draft, Malformed> {
    let mut parser =
        Parser { tokens: Tokens::new(text), nodes: Vec::new(), edges: Vec::new(), ..Parser::default() };
    let parsed = parser.graph().and_then(|()| parser.draft());
    parsed.map_err(|reason| Malformed::Line { line: parser.tokens.line(), reason })
}

/// What was read so far.
#[derive(Default)]
struct Parser<'a> {
    tokens: Tokens<'a>,
    is_directed: bool,
    graph: Attributes,
    node_defaults: Attributes,
    edge_defaults: Attributes,
    /// Nodes that have statements of their own.
    nodes: Vec<(String, Attributes)>,
    edges: Vec<(String, String, Attributes)>,
}

impl Parser<'_> {
    /// `[strict] (graph | digraph) [name] { statements }`
    fn graph(&mut self) -> Result<(), String> {
        let mut kind = self.tokens.word()?;
        if kind == "strict" {
            kind = self.tokens.word()?;
        }
        self.is_directed = match kind.as_str() {
            "graph" => false,
            "digraph" => true,
            other => return Err(format!("a graph begins with `graph` or `digraph`, not {other:?}")),
        };
        if self.tokens.peek()? != Some(Token::Sign('{')) {
            self.tokens.word()?;
        }
        self.tokens.expect('{')?;
        while !self.tokens.take('}')? {
            self.statement()?;
        }
        Ok(())
    }

    fn statement(&mut self) -> Result<(), String> {
        if self.tokens.take(';')? {
            return Ok(());
        }
        let first = self.tokens.word()?;
        if self.tokens.take('=')? {
            let value = self.tokens.word()?;
            self.graph.insert(first, value);
            return Ok(());
        }
        match first.as_str() {
            "graph" => self.attributes_into(|parser| &mut parser.graph),
            "node" => self.attributes_into(|parser| &mut parser.node_defaults),
            "edge" => self.attributes_into(|parser| &mut parser.edge_defaults),
            "subgraph" => {
                Err("subgraphs are not read here; write their nodes and edges without them".to_owned())
            }
            _ => self.node_or_edges(first),
        }
    }

    fn attributes_into(&mut self, which: fn(&mut Self) -> &mut Attributes) -> Result<(), String> {
        let attributes = self.attributes()?;
        which(self).extend(attributes);
        Ok(())
    }

    /// A node, or a chain of nodes that edges join.
    fn node_or_edges(&mut self, first: String) -> Result<(), String> {
        let mut chain = vec![first];
        while self.tokens.take_edge(self.is_directed)? {
            chain.push(self.tokens.word()?);
        }
        let attributes = self.attributes()?;
        let with = |defaults: &Attributes| {
            let mut all = defaults.clone();
            all.extend(attributes.clone());
            all
        };
        if let [node] = chain.as_slice() {
            self.nodes.push((node.clone(), with(&self.node_defaults)));
        }
        for ends in chain.windows(2) {
            self.edges.push((ends[0].clone(), ends[1].clone(), with(&self.edge_defaults)));
        }
        Ok(())
    }

    /// Any number of `[key = value, …]`.
    fn attributes(&mut self) -> Result<Attributes, String> {
        let mut attributes = Attributes::new();
        while self.tokens.take('[')? {
            while !self.tokens.take(']')? {
                let key = self.tokens.word()?;
                self.tokens.expect('=')?;
                attributes.insert(key, self.tokens.word()?);
                let _separated = self.tokens.take(',')? || self.tokens.take(';')?;
            }
        }
        Ok(attributes)
    }

    fn draft(&self) -> Result<Draft, String> {
        let mut draft = Draft::default();
        set_graph(&mut draft, &self.graph)?;
        for (name, attributes) in &self.nodes {
            add_node(&mut draft, name, attributes)?;
        }
        for (from, to, attributes) in &self.edges {
            add_link(&mut draft, (from, to), self.is_directed, attributes)?;
        }
        Ok(draft)
    }
}
