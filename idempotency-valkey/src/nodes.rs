//! The servers of a store: one, or those of a cluster. That it is a cluster is learnt from the servers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::Value;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::address::Address;
use crate::connection::{Connector, PING, Server};
use crate::key::slot;
use crate::reply::{list, number};

/// The servers of a store.
pub(crate) struct Nodes {
    connector: Arc<Connector>,
    /// The server of the URL.
    seed: Arc<Server>,
    known: Mutex<Known>,
    /// Held while the slots are asked for, so that concurrent requests ask once.
    asking: tokio::sync::Mutex<()>,
}

/// What the servers said of the cluster.
#[derive(Default)]
struct Known {
    /// Without that of the URL.
    servers: HashMap<Address, Arc<Server>>,
    /// Empty without a cluster. In order.
    slots: Vec<Slots>,
    /// Counts how often the slots were learnt.
    learnt: u64,
}

/// The first and the last slot of a primary.
struct Slots {
    first: u16,
    last: u16,
    primary: Arc<Server>,
}

impl Nodes {
    pub(crate) fn new(connector: Connector) -> Self {
        let connector = Arc::new(connector);
        let address = connector.target.address.clone();
        Self {
            seed: Arc::new(Server::new(address, Arc::clone(&connector))),
            connector,
            known: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the server of the URL.
    pub(crate) fn seed(&self) -> &Arc<Server> {
        &self.seed
    }

    /// Returns the server of a key, or the one of the URL if its server is not known.
    pub(crate) fn of_key(&self, key: &str) -> Arc<Server> {
        match self.is_cluster() {
            true => self.of_slot(slot(key)),
            false => Arc::clone(&self.seed),
        }
    }

    fn of_slot(&self, slot: u16) -> Arc<Server> {
        let known = self.known();
        let at = known.slots.partition_point(|slots| slots.last < slot);
        let slots = known.slots.get(at).filter(|slots| slots.first <= slot);
        Arc::clone(slots.map_or(&self.seed, |slots| &slots.primary))
    }

    /// Returns the server with this address.
    pub(crate) fn server(&self, address: Address) -> Arc<Server> {
        self.server_in(&mut self.known(), address)
    }

    fn server_in(&self, known: &mut Known, address: Address) -> Arc<Server> {
        if address == self.seed.address {
            return Arc::clone(&self.seed);
        }
        let server = known.servers.entry(address);
        Arc::clone(server.or_insert_with_key(|address| {
            Arc::new(Server::new(address.clone(), Arc::clone(&self.connector)))
        }))
    }

    /// Returns the primaries, in the order of their addresses.
    pub(crate) fn primaries(&self) -> Vec<Arc<Server>> {
        let known = self.known();
        if known.slots.is_empty() {
            return vec![Arc::clone(&self.seed)];
        }
        let slots = known.slots.iter();
        let mut primaries: Vec<_> = slots.map(|slots| Arc::clone(&slots.primary)).collect();
        primaries.sort_by(|one, other| one.address.cmp(&other.address));
        primaries.dedup_by(|one, other| one.address == other.address);
        primaries
    }

    /// Returns true if the servers are those of a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        !self.known().slots.is_empty()
    }

    /// Asks which slots the servers have: this one if it `serves`, and otherwise the other ones. Without a reply all stays as it is.
    pub(crate) async fn learn(&self, of: &Arc<Server>, serves: bool) {
        let learnt = self.known().learnt;
        let _one = self.asking.lock().await;
        if self.known().learnt != learnt {
            return;
        }
        let mut rows = match serves {
            true => slots_of(Arc::clone(of)).await,
            false => None,
        };
        if rows.is_none() {
            let known: Vec<_> = self.known().servers.values().cloned().collect();
            let others = [Arc::clone(&self.seed)].into_iter().chain(known);
            let others = others.filter(|server| server.address != of.address);
            // All at once: each of them can be gone, and the request has little time.
            let mut asked: JoinSet<_> = others.map(slots_of).collect();
            while let (None, Some(said)) = (&rows, asked.join_next().await) {
                rows = said.ok().flatten();
            }
        }
        if let Some(rows) = rows {
            self.keep(rows);
        }
    }

    /// Keeps what a server said. Replicas are kept too, because one of them can be asked when the primaries fail.
    fn keep(&self, rows: Vec<Row>) {
        let mut known = self.known();
        let is_named = |address: &Address| rows.iter().any(|row| row.servers.contains(address));
        known.servers.retain(|address, _| is_named(address));
        let slots = rows.into_iter().filter_map(|row| {
            let mut servers = row.servers.into_iter();
            let primary = self.server_in(&mut known, servers.next()?);
            servers.for_each(|replica| drop(self.server_in(&mut known, replica)));
            Some(Slots {
                first: row.first,
                last: row.last,
                primary,
            })
        });
        known.slots = slots.collect();
        known.learnt += 1;
    }

    /// Keeps a cluster whose first server has all slots.
    #[cfg(test)]
    pub(crate) fn keep_all(&self, servers: Vec<Address>) {
        self.keep(vec![Row {
            first: 0,
            last: 16_383,
            servers,
        }]);
    }

    /// Returns what is known. A panic cannot leave it half written, so a poisoned lock is still good.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a server says of some slots: the primary, then its replicas.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    first: u16,
    last: u16,
    servers: Vec<Address>,
}

/// Asks one server for the slots of its cluster. `None` if it did not say in time.
async fn slots_of(server: Arc<Server>) -> Option<Vec<Row>> {
    let mut slots = redis::pipe();
    slots.cmd("CLUSTER").arg("SLOTS");
    let asked = async {
        let live = server.connect(None).await?;
        server.send(live, &slots).await
    };
    let reply = timeout(PING, asked).await.ok()?.ok()?.pop()?;
    read_rows(reply, &server.address)
}

/// Reads the reply to `CLUSTER SLOTS` of the server with this address. `None` if it is none, or has no slot.
fn read_rows(reply: Value, of: &Address) -> Option<Vec<Row>> {
    let rows = list(reply)?.map(|row| read_row(row, of));
    let mut rows: Vec<_> = rows.collect::<Option<_>>()?;
    rows.sort();
    (!rows.is_empty()).then_some(rows)
}

fn read_row(row: Value, of: &Address) -> Option<Row> {
    let mut row = list(row)?;
    let [first, last] = [number(row.next()?)?, number(row.next()?)?];
    let servers = row.map(|server| read_server(server, of));
    let servers: Vec<_> = servers.collect::<Option<_>>()?;
    (!servers.is_empty()).then_some(Row {
        first: first.try_into().ok()?,
        last: last.try_into().ok()?,
        servers,
    })
}

fn read_server(server: Value, of: &Address) -> Option<Address> {
    let mut server = list(server)?;
    let host = match server.next()? {
        // The server does not know its own name.
        Value::Nil => String::new(),
        host => redis::from_redis_value(host).ok()?,
    };
    let is_known = !host.is_empty() && host != "?";
    Some(Address {
        host: if is_known { host } else { of.host.clone() },
        port: number(server.next()?)?.try_into().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        Address::of(text).unwrap()
    }

    /// Returns what a server replies on the wire.
    fn reply(text: &str) -> Value {
        redis::parse_redis_value(text.replace(' ', "\r\n").as_bytes()).unwrap()
    }

    fn row(first: u16, last: u16, servers: &[&str]) -> Row {
        Row {
            first,
            last,
            servers: servers.iter().map(|text| address(text)).collect(),
        }
    }

    #[test]
    fn the_slots_of_a_cluster_are_read_with_the_names_of_their_servers() {
        let rows = "*3 \
            *3 :8000 :16383 *3 $1 b :7 $2 id \
            *4 :0 :5000 *2 $1 a :6 *2 $1 c :8 \
            *3 :5001 :7999 *2 $0  :9 ";
        let expected = [
            row(0, 5_000, &["a:6", "c:8"]),
            row(5_001, 7_999, &["seed:9"]),
            row(8_000, 16_383, &["b:7"]),
        ];
        let seed = address("seed:6379");
        assert_eq!(read_rows(reply(rows), &seed).unwrap(), expected);
        for other in [
            "*0 ",
            "+OK ",
            "*1 *0 ",
            "*1 *2 :0 :1 ",
            "*1 *3 :0 :1 *0 ",
            "*1 *3 :0 :70000 *2 $1 a :1 ",
        ] {
            assert_eq!(read_rows(reply(other), &seed), None, "{other}");
        }
    }

    #[test]
    fn a_slot_without_a_known_server_goes_to_that_of_the_url() {
        let target = crate::address::Target::of("redis://seed:6379").unwrap();
        let nodes = Nodes::new(Connector { target, tls: None });
        let of = |slot| nodes.of_slot(slot).address.to_string();
        assert!(!nodes.is_cluster() && of(7) == "seed:6379");
        assert_eq!(nodes.primaries().len(), 1);
        nodes.keep(vec![
            row(0, 9, &["b:1", "c:1"]),
            row(20, 29, &["a:1"]),
            row(30, 39, &["b:1", "c:1"]),
        ]);
        let found = [0, 9, 10, 20, 30, 39, 40].map(of);
        let expected = ["b:1", "b:1", "seed:6379", "a:1", "b:1", "b:1", "seed:6379"];
        assert_eq!(found, expected);
        let addresses = |servers: Vec<Arc<Server>>| {
            let servers = servers.iter();
            servers
                .map(|server| server.address.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(addresses(nodes.primaries()), ["a:1", "b:1"]);
        let replica = nodes.server(address("c:1"));
        // A server that left is forgotten, and one that stays keeps its connection.
        nodes.keep(vec![row(0, 16_383, &["c:1"])]);
        assert!(Arc::ptr_eq(&nodes.of_slot(5), &replica));
        assert_eq!(nodes.known().servers.len(), 1);
    }
}
