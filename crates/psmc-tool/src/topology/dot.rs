//! DOT, the language of Graphviz: nodes, edges, attributes and their defaults; no subgraphs.

use psmc_select::Draft;

use super::{Attributes, Malformed, add_link, add_node, set_graph};

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

/// A word, with or without quotes, or a sign.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Sign(char),
    /// `--`, or, if directed, `->`.
    Edge {
        directed: bool,
    },
}

/// The text that is left to read.
#[derive(Default)]
struct Tokens<'a> {
    text: &'a str,
    rest: &'a str,
    peeked: Option<Token>,
}

impl<'a> Tokens<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, rest: text, peeked: None }
    }

    /// The line that was read last, from 1.
    fn line(&self) -> usize {
        let read = &self.text[..self.text.len() - self.rest.len()];
        read.trim_end().bytes().filter(|byte| *byte == b'\n').count() + 1
    }

    /// What comes next; `None` at the end.
    fn peek(&mut self) -> Result<Option<Token>, String> {
        if self.peeked.is_none() {
            self.peeked = self.read()?;
        }
        Ok(self.peeked.clone())
    }

    fn word(&mut self) -> Result<String, String> {
        match self.peek()? {
            Some(Token::Word(word)) => {
                self.peeked = None;
                Ok(word)
            }
            Some(Token::Sign(sign)) => Err(format!("a name should stand here, not {sign:?}")),
            Some(Token::Edge { .. }) => Err("a name should stand here, not an edge".to_owned()),
            None => Err("the file ends in the middle of the graph; is it complete?".to_owned()),
        }
    }

    /// Takes a sign if it comes next.
    fn take(&mut self, sign: char) -> Result<bool, String> {
        let is_next = self.peek()? == Some(Token::Sign(sign));
        if is_next {
            self.peeked = None;
        } else if self.peeked.is_none() {
            return Err(format!("the file ends where a {sign:?} should be; is it complete?"));
        }
        Ok(is_next)
    }

    fn expect(&mut self, sign: char) -> Result<(), String> {
        if self.take(sign)? { Ok(()) } else { Err(format!("a {sign:?} should stand here")) }
    }

    /// Takes an edge if it comes next. It must be of the graph's kind.
    fn take_edge(&mut self, is_directed: bool) -> Result<bool, String> {
        let Some(Token::Edge { directed }) = self.peek()? else { return Ok(false) };
        if directed != is_directed {
            return Err(
                "edges are -> in a digraph and -- in a graph; correct the one or the other".to_owned()
            );
        }
        self.peeked = None;
        Ok(true)
    }

    fn read(&mut self) -> Result<Option<Token>, String> {
        self.skip_comments()?;
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        for (sign, directed) in [("--", false), ("->", true)] {
            if let Some(rest) = self.rest.strip_prefix(sign) {
                self.rest = rest;
                return Ok(Some(Token::Edge { directed }));
            }
        }
        if first == '"' {
            return self.quoted().map(Some);
        }
        if "{}[]=;,:".contains(first) {
            self.rest = &self.rest[first.len_utf8()..];
            return Ok(Some(Token::Sign(first)));
        }
        let is_part = |c: char| c.is_alphanumeric() || "_.+".contains(c) || (c == '-' && first == '-');
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        if end == 0 {
            return Err(format!("{first:?} means nothing here; put names with signs in quotes"));
        }
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(Some(Token::Word(word.to_owned())))
    }

    fn quoted(&mut self) -> Result<Token, String> {
        let mut word = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((place, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[place + 1..];
                    return Ok(Token::Word(word));
                }
                '\\' => word.extend(chars.next().map(|(_, escaped)| escaped)),
                _ => word.push(c),
            }
        }
        Err("a quote is not closed".to_owned())
    }

    /// Spaces, `// …`, `# …` and `/* … */`.
    fn skip_comments(&mut self) -> Result<(), String> {
        loop {
            self.rest = self.rest.trim_start();
            if self.rest.starts_with("//") || self.rest.starts_with('#') {
                self.rest = self.rest.find('\n').map_or("", |end| &self.rest[end..]);
            } else if let Some(comment) = self.rest.strip_prefix("/*") {
                let end = comment.find("*/").ok_or("a comment is not closed")?;
                self.rest = &comment[end + 2..];
            } else {
                return Ok(());
            }
        }
    }
}
