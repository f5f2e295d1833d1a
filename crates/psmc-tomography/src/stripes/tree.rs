//! The tree of the ways from a source to receivers.

/// A tree: node 0 is the source, and nodes without children are receivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Of each node, that of the source being itself.
    parents: Vec<usize>,
    children: Vec<usize>,
}

/// Why something does not fit to a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// A node comes before its parent.
    #[error("the parent of node {0} is node {1}; number parents before their children")]
    ParentAfterChild(usize, usize),
    /// There is nowhere to send probes to.
    #[error("a tree needs a node besides its source")]
    OnlySource,
    /// A stripe went to something else.
    #[error("a stripe went to nodes {0} and {1}; it must go to two different receivers of the tree")]
    NotTwoReceivers(usize, usize),
}

impl Tree {
    /// Where probes are sent from.
    pub const SOURCE: usize = 0;

    /// A tree by the parent of each node but the source, that of node 1 first. Parents come before their children.
    ///
    /// # Errors
    /// [`TreeError::ParentAfterChild`] or [`TreeError::OnlySource`].
    pub fn new(parents: &[usize]) -> Result<Self, TreeError> {
        if parents.is_empty() {
            return Err(TreeError::OnlySource);
        }
        let mut children = vec![0; parents.len() + 1];
        for (place, &parent) in parents.iter().enumerate() {
            let node = place + 1;
            if parent >= node {
                return Err(TreeError::ParentAfterChild(node, parent));
            }
            children[parent] += 1;
        }
        let parents = std::iter::once(Self::SOURCE).chain(parents.iter().copied()).collect();
        Ok(Self { parents, children })
    }

    /// How many nodes there are, with the source.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.parents.len()
    }

    /// Whether a node is there, and has no children.
    #[must_use]
    pub fn is_receiver(&self, node: usize) -> bool {
        self.children.get(node) == Some(&0)
    }

    /// The parent of a node that is there; that of the source is itself.
    pub(super) fn parent(&self, node: usize) -> usize {
        self.parents[node]
    }

    /// How many children a node has that is there.
    pub(super) fn children(&self, node: usize) -> usize {
        self.children[node]
    }

    /// Where the ways to two nodes part.
    pub(super) fn branch_point(&self, mut left: usize, mut right: usize) -> usize {
        // A parent has a smaller number than its child.
        while left != right {
            if left > right { left = self.parents[left] } else { right = self.parents[right] }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_part_where_they_do() {
        let tree = Tree::new(&[0, 1, 1, 2, 2, 0]).unwrap();
        assert_eq!((0..7).filter(|&node| tree.is_receiver(node)).collect::<Vec<_>>(), [3, 4, 5, 6]);
        assert_eq!([(4, 5), (3, 4), (5, 6)].map(|(left, right)| tree.branch_point(left, right)), [2, 1, 0]);
        assert!(!tree.is_receiver(7));
    }

    #[test]
    fn no_node_is_its_own_ancestor() {
        assert_eq!(Tree::new(&[]), Err(TreeError::OnlySource));
        assert_eq!(Tree::new(&[0, 3, 2]), Err(TreeError::ParentAfterChild(2, 3)));
        assert_eq!(Tree::new(&[1]), Err(TreeError::ParentAfterChild(1, 1)));
    }
}
