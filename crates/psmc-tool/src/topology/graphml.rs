//! GraphML, as yEd, NetworkX, Gephi and the Topology Zoo write it.

use psmc_select::Draft;
use roxmltree::{Document, Node};

use super::{Attributes, Malformed, add_link, add_node, set_graph};

pub(super) fn parse(text: &str) -> Result<Draft, Malformed> {
    let document = Document::parse(text)?;
    let reader = Reader { document: &document, keys: Key::all(&document) };
    let Some(graph) = document.descendants().find(|node| node.has_tag_name_local("graph")) else {
        return Err(
            reader.complain(document.root_element(), "there is no <graph>; is this GraphML?".to_owned())
        );
    };
    let mut draft = Draft::default();
    set_graph(&mut draft, &reader.data(graph)).map_err(|reason| reader.complain(graph, reason))?;
    let is_directed = graph.attribute("edgedefault") == Some("directed");
    for element in graph.children().filter(Node::is_element) {
        let added = match element.tag_name().name() {
            "node" => reader.add_node(&mut draft, element),
            "edge" => reader.add_edge(&mut draft, element, is_directed),
            _ => Ok(()),
        };
        added.map_err(|reason| reader.complain(element, reason))?;
    }
    Ok(draft)
}

struct Reader<'a> {
    document: &'a Document<'a>,
    keys: Vec<Key<'a>>,
}

/// What the document declares that elements can have.
struct Key<'a> {
    id: &'a str,
    name: &'a str,
    /// `node`, `edge`, `graph`, or, for any of them, `all`.
    domain: &'a str,
    default: Option<&'a str>,
}

impl<'a> Key<'a> {
    fn all(document: &'a Document<'a>) -> Vec<Self> {
        let elements = document.descendants().filter(|node| node.has_tag_name_local("key"));
        let key = |element: Node<'a, 'a>| {
            let default = element.children().find(|node| node.has_tag_name_local("default"));
            Some(Self {
                id: element.attribute("id")?,
                name: element.attribute("attr.name")?,
                domain: element.attribute("for").unwrap_or("all"),
                default: default.and_then(|node| node.text()),
            })
        };
        elements.filter_map(key).collect()
    }
}

impl<'a> Reader<'a> {
    fn add_node(&self, draft: &mut Draft, element: Node<'a, 'a>) -> Result<(), String> {
        add_node(draft, required(element, "id")?, &self.data(element))
    }

    fn add_edge(&self, draft: &mut Draft, element: Node<'a, 'a>, by_default: bool) -> Result<(), String> {
        let ends = (required(element, "source")?, required(element, "target")?);
        let directed = element.attribute("directed").map_or(by_default, |directed| directed == "true");
        add_link(draft, ends, directed, &self.data(element))
    }

    /// The data of an element, by the names that the keys of the document give them; defaults first.
    fn data(&self, element: Node<'a, 'a>) -> Attributes {
        let domain = element.tag_name().name();
        let fitting = || self.keys.iter().filter(|key| key.domain == domain || key.domain == "all");
        let mut attributes = Attributes::new();
        let mut set = |key: &Key<'_>, text: &str| {
            attributes.insert(key.name.to_owned(), text.trim().to_owned());
        };
        for key in fitting() {
            key.default.into_iter().for_each(|text| set(key, text));
        }
        for data in element.children().filter(|node| node.has_tag_name_local("data")) {
            let key = fitting().find(|key| data.attribute("key") == Some(key.id));
            if let Some((key, text)) = key.zip(data.text()) {
                set(key, text);
            }
        }
        attributes
    }

    fn complain(&self, element: Node<'a, 'a>, reason: String) -> Malformed {
        let line = self.document.text_pos_at(element.range().start).row;
        Malformed::Line { line: line as usize, reason }
    }
}

fn required<'a>(element: Node<'a, 'a>, key: &str) -> Result<&'a str, String> {
    let missing = || format!("<{}> has no {key}; add it", element.tag_name().name());
    element.attribute(key).ok_or_else(missing)
}

/// Whether an element has a name, in whatever namespace.
trait LocalName {
    fn has_tag_name_local(&self, name: &str) -> bool;
}

impl LocalName for Node<'_, '_> {
    fn has_tag_name_local(&self, name: &str) -> bool {
        self.is_element() && self.tag_name().name() == name
    }
}
