//! Who is let in.

use std::collections::BTreeMap;

use psmc_signal::Client;

/// Clients of all services at most: psmcd has a peer for each.
const MAX_CLIENTS: usize = 10_000;

/// Lists that have come in full, and those of which parts are missing.
#[derive(Debug, Default)]
pub(super) struct ClientLists {
    lists: BTreeMap<String, Vec<Client>>,
    parts: BTreeMap<String, (u64, Vec<Client>)>,
}

impl ClientLists {
    pub(super) fn new(lists: BTreeMap<String, Vec<Client>>) -> Self {
        Self { lists, parts: BTreeMap::new() }
    }

    /// Takes a part of a list. A part of another revision begins anew.
    pub(super) fn handle_part(
        &mut self,
        service: &str,
        revision: u64,
        clients: Vec<Client>,
        is_last: bool,
    ) -> Result<(), String> {
        let (_, mut list) =
            self.parts.remove(service).filter(|(begun, _)| *begun == revision).unwrap_or_default();
        let others = self.lists.iter().filter(|(name, _)| *name != service).map(|(_, list)| list.len());
        let waiting = self.parts.values().map(|(_, list)| list.len());
        let count = others.chain(waiting).sum::<usize>() + list.len() + clients.len();
        if count > MAX_CLIENTS {
            return Err(format!("{count} clients are more than the {MAX_CLIENTS} that a gateway lets in"));
        }
        list.extend(clients);
        if is_last {
            self.lists.insert(service.to_owned(), list);
        } else {
            self.parts.insert(service.to_owned(), (revision, list));
        }
        Ok(())
    }

    /// The rest of what has begun will not come.
    pub(super) fn forget_parts(&mut self) {
        self.parts.clear();
    }

    pub(super) fn remove(&mut self, service: &str) {
        self.lists.remove(service);
    }

    /// All of them by name. Services of one gateway can share clients.
    pub(super) fn all(&self) -> BTreeMap<String, Client> {
        let clients = self.lists.values().flatten();
        clients.map(|client| (client.name.clone(), client.clone())).collect()
    }

    pub(super) fn by_service(&self) -> BTreeMap<String, Vec<Client>> {
        self.lists.clone()
    }
}
