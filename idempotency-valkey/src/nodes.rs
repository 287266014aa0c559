//! The servers of a store: one, or those of a cluster. That it is a cluster is learnt from the servers.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::Value;
use tokio::task::JoinSet;

use crate::address::Address;
use crate::connection::{Connector, PING, Server};
use crate::key::slot;

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
    /// With that of the URL.
    servers: HashMap<Address, Arc<Server>>,
    /// The last slot of each range, and its primary. Empty without a cluster.
    slots: BTreeMap<u16, Arc<Server>>,
    /// Counts how often the slots were learnt.
    learnt: u64,
}

impl Nodes {
    pub(crate) fn new(connector: Connector) -> Self {
        let connector = Arc::new(connector);
        let address = connector.target.address.clone();
        let seed = Arc::new(Server::new(address.clone(), Arc::clone(&connector)));
        let mut known = Known::default();
        known.servers.insert(address, Arc::clone(&seed));
        Self {
            connector,
            seed,
            known: Mutex::new(known),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the server of the URL.
    pub(crate) fn seed(&self) -> &Arc<Server> {
        &self.seed
    }

    /// Returns the server of a key, or the one of the URL if its server is not known.
    pub(crate) fn of_key(&self, key: &str) -> Arc<Server> {
        let known = self.known();
        let primary = match known.slots.is_empty() {
            true => None,
            false => known.slots.range(slot(key)..).next(),
        };
        Arc::clone(primary.map_or(&self.seed, |(_, primary)| primary))
    }

    /// Returns the server with this address.
    pub(crate) fn server(&self, address: Address) -> Arc<Server> {
        self.server_in(&mut self.known(), address)
    }

    fn server_in(&self, known: &mut Known, address: Address) -> Arc<Server> {
        let new = |address: &Address| Server::new(address.clone(), Arc::clone(&self.connector));
        let server = known.servers.entry(address);
        Arc::clone(server.or_insert_with_key(|address| Arc::new(new(address))))
    }

    /// Returns the primaries, in the order of their addresses.
    pub(crate) fn primaries(&self) -> Vec<Arc<Server>> {
        let mut primaries: Vec<_> = self.known().slots.values().cloned().collect();
        if primaries.is_empty() {
            primaries.push(Arc::clone(&self.seed));
        }
        primaries.sort_by(|one, other| one.address.cmp(&other.address));
        primaries.dedup_by(|one, other| one.address == other.address);
        primaries
    }

    /// Returns a digest of which primary has which slots.
    pub(crate) fn owners(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (last, primary) in &self.known().slots {
            (last, &primary.address).hash(&mut hasher);
        }
        hasher.finish()
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
            let others = known.into_iter().filter(|it| it.address != of.address);
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
    pub(crate) fn keep(&self, rows: Vec<Row>) {
        let mut known = self.known();
        let is_named =
            |address: &Address| rows.iter().any(|(_, servers)| servers.contains(address));
        known
            .servers
            .retain(|address, _| *address == self.seed.address || is_named(address));
        known.slots.clear();
        known.learnt += 1;
        for (last, servers) in rows {
            let servers = servers.into_iter();
            let servers: Vec<_> = servers.map(|it| self.server_in(&mut known, it)).collect();
            let primary = servers.into_iter().next();
            known.slots.extend(primary.map(|primary| (last, primary)));
        }
    }

    /// Returns what is known. A panic cannot leave it half written, so a poisoned lock is still good.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last slot of a range, and its servers: the primary, then its replicas.
pub(crate) type Row = (u16, Vec<Address>);

/// Asks one server for the slots of its cluster. `None` if it did not say in time.
async fn slots_of(server: Arc<Server>) -> Option<Vec<Row>> {
    let mut slots = redis::pipe();
    slots.cmd("CLUSTER").arg("SLOTS");
    let reply = server.ask(&slots, PING).await.ok()?.pop()?;
    read_rows(reply, &server.address)
}

/// Reads the reply to `CLUSTER SLOTS` of the server with this address. `None` if it is none, or has no slot.
fn read_rows(reply: Value, of: &Address) -> Option<Vec<Row>> {
    let row = |row: Vec<Value>| {
        let mut row = row.into_iter().skip(1);
        let last = read_number(row.next()?)?;
        let servers: Option<Vec<_>> = row.map(|server| read_server(server, of)).collect();
        Some((last, servers.filter(|servers| !servers.is_empty())?))
    };
    let rows: Vec<Vec<Value>> = redis::from_redis_value(reply).ok()?;
    let rows: Option<Vec<_>> = rows.into_iter().map(row).collect();
    rows.filter(|rows| !rows.is_empty())
}

fn read_server(server: Value, of: &Address) -> Option<Address> {
    let server: Vec<Value> = redis::from_redis_value(server).ok()?;
    let mut server = server.into_iter();
    let host: Option<String> = redis::from_redis_value(server.next()?).ok()?;
    Some(of.named(host.unwrap_or_default(), read_number(server.next()?)?))
}

fn read_number(number: Value) -> Option<u16> {
    redis::from_redis_value::<i64>(number).ok()?.try_into().ok()
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

    fn row(last: u16, servers: &[&str]) -> Row {
        (last, servers.iter().map(|text| address(text)).collect())
    }

    #[test]
    fn the_slots_of_a_cluster_are_read_with_the_names_of_their_servers() {
        let rows = "*3 \
            *3 :8000 :16383 *3 $1 b :7 $2 id \
            *4 :0 :5000 *2 $1 a :6 *2 $1 c :8 \
            *3 :5001 :7999 *2 $0  :9 ";
        let expected = [
            row(16_383, &["b:7"]),
            row(5_000, &["a:6", "c:8"]),
            row(7_999, &["seed:9"]),
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
    fn a_slot_above_those_that_are_known_goes_to_the_server_of_the_url() {
        let target = crate::address::Target::of("redis://seed:6379").unwrap();
        let nodes = Nodes::new(Connector { target, tls: None });
        let of = |key| nodes.of_key(key).address.to_string();
        assert!(!nodes.is_cluster() && of("foo") == "seed:6379");
        assert_eq!(nodes.primaries().len(), 1);
        let both = ["b:1", "c:1"];
        nodes.keep(vec![
            row(12_182, &both),
            row(866, &["a:1"]),
            row(5_061, &both),
        ]);
        // The keys of the slots 866, 3,300, 5,061, 8,157, 12,182 and 15,495.
        let found = ["hello", "b", "bar", "z", "foo", "a"].map(of);
        assert_eq!(found, ["a:1", "b:1", "b:1", "b:1", "b:1", "seed:6379"]);
        let addresses = |servers: Vec<Arc<Server>>| {
            let servers = servers.iter();
            servers
                .map(|server| server.address.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(addresses(nodes.primaries()), ["a:1", "b:1"]);
        let replica = nodes.server(address("c:1"));
        // A server that left is forgotten, and one that stays keeps its connection.
        nodes.keep(vec![row(16_383, &["c:1"])]);
        assert!(Arc::ptr_eq(&nodes.of_key("foo"), &replica));
        assert_eq!(nodes.known().servers.len(), 2);
    }
}
