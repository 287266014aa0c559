//! The servers of a store: one, or those of a cluster. That it is a cluster is learnt from the servers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::Value;

use crate::address::Address;
use crate::connection::{Connector, Server};

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
    servers: HashMap<Address, Arc<Server>>,
    /// Empty without a cluster. In order.
    slots: Vec<Slots>,
    /// Counts how often the slots were learnt.
    learnt: u64,
}

/// The first and the last slot of a primary.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slots {
    first: u16,
    last: u16,
    primary: Address,
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

    /// Returns the address of the URL.
    pub(crate) fn seed(&self) -> &Arc<Server> {
        &self.seed
    }

    /// Returns the server of a slot, or the one of the URL if its server is not known.
    pub(crate) fn of_slot(&self, slot: u16) -> Arc<Server> {
        let mut known = self.known();
        let at = known.slots.partition_point(|slots| slots.last < slot);
        let primary = known.slots.get(at).filter(|slots| slots.first <= slot);
        match primary.map(|slots| slots.primary.clone()) {
            Some(primary) => self.server_in(&mut known, primary),
            None => Arc::clone(&self.seed),
        }
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
        let mut known = self.known();
        if known.slots.is_empty() {
            return vec![Arc::clone(&self.seed)];
        }
        let mut primaries: Vec<_> = known
            .slots
            .iter()
            .map(|slots| slots.primary.clone())
            .collect();
        primaries.sort();
        primaries.dedup();
        let primaries = primaries.into_iter();
        primaries
            .map(|address| self.server_in(&mut known, address))
            .collect()
    }

    /// Returns true if the servers are those of a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        !self.known().slots.is_empty()
    }

    /// Asks the servers which slots they have: `first`, then the others, until one replies. Without a reply all stays as it is.
    pub(crate) async fn learn(&self, first: &Arc<Server>) {
        let learnt = self.known().learnt;
        let _one = self.asking.lock().await;
        if self.known().learnt != learnt {
            return;
        }
        let others: Vec<_> = self.known().servers.values().cloned().collect();
        for server in [first, &self.seed].into_iter().chain(&others) {
            if let Some(slots) = slots_of(server).await {
                let mut known = self.known();
                known
                    .servers
                    .retain(|address, _| slots.iter().any(|slots| slots.primary == *address));
                known.slots = slots;
                known.learnt += 1;
                return;
            }
        }
    }

    /// Returns what is known. A panic cannot leave it half written, so a poisoned lock is still good.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks one server for the slots of its cluster. `None` if it did not say.
async fn slots_of(server: &Server) -> Option<Vec<Slots>> {
    let mut command = redis::cmd("CLUSTER");
    command.arg("SLOTS");
    let reply = server.connect().await.ok()?.send(&command).await;
    read_slots(reply.ok()?, &server.address)
}

/// Reads the reply to `CLUSTER SLOTS` of the server with this address. `None` if it is none, or has no slot.
fn read_slots(reply: Value, of: &Address) -> Option<Vec<Slots>> {
    let Value::Array(rows) = reply else {
        return None;
    };
    let mut slots: Vec<_> = rows
        .into_iter()
        .map(|row| read_row(row, of))
        .collect::<Option<_>>()?;
    slots.sort();
    (!slots.is_empty()).then_some(slots)
}

fn read_row(row: Value, of: &Address) -> Option<Slots> {
    let Value::Array(row) = row else {
        return None;
    };
    let mut row = row.into_iter();
    let (Some(Value::Int(first)), Some(Value::Int(last)), Some(Value::Array(primary))) =
        (row.next(), row.next(), row.next())
    else {
        return None;
    };
    let mut primary = primary.into_iter();
    let host = match primary.next()? {
        Value::BulkString(host) => String::from_utf8(host).ok()?,
        // The server does not know its own name.
        Value::Nil => String::new(),
        _ => return None,
    };
    let Some(Value::Int(port)) = primary.next() else {
        return None;
    };
    let is_known = !host.is_empty() && host != "?";
    Some(Slots {
        first: first.try_into().ok()?,
        last: last.try_into().ok()?,
        primary: Address {
            host: if is_known { host } else { of.host.clone() },
            port: port.try_into().ok()?,
        },
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

    #[test]
    fn the_slots_of_a_cluster_are_read_with_the_names_of_their_primaries() {
        let rows = "*3 \
            *3 :8000 :16383 *3 $1 b :7 $2 id \
            *4 :0 :5000 *2 $1 a :6 *2 $1 c :8 \
            *3 :5001 :7999 *2 $0  :9 ";
        let seed = address("seed:6379");
        let slots = read_slots(reply(rows), &seed).unwrap();
        let expected = [
            (0, 5_000, "a:6"),
            (5_001, 7_999, "seed:9"),
            (8_000, 16_383, "b:7"),
        ];
        let expected = expected.map(|(first, last, primary)| Slots {
            first,
            last,
            primary: address(primary),
        });
        assert_eq!(slots, expected);
        for other in [
            "*0 ",
            "+OK ",
            "*1 *0 ",
            "*1 *3 :0 :1 *0 ",
            "*1 *3 :0 :70000 *2 $1 a :1 ",
        ] {
            assert_eq!(read_slots(reply(other), &seed), None, "{other}");
        }
    }

    #[test]
    fn a_slot_without_a_known_server_goes_to_that_of_the_url() {
        let target = crate::address::Target::of("redis://seed:6379").unwrap();
        let nodes = Nodes::new(Connector { target, tls: None });
        let of = |slot| nodes.of_slot(slot).address.to_string();
        assert!(!nodes.is_cluster() && of(7) == "seed:6379");
        assert_eq!(nodes.primaries().len(), 1);
        let slots = |first, last, primary| Slots {
            first,
            last,
            primary: address(primary),
        };
        nodes.known().slots = vec![
            slots(0, 9, "b:1"),
            slots(20, 29, "a:1"),
            slots(30, 39, "b:1"),
        ];
        let found = [0, 9, 10, 20, 30, 39, 40].map(of);
        assert_eq!(
            found,
            ["b:1", "b:1", "seed:6379", "a:1", "b:1", "b:1", "seed:6379"]
        );
        let primaries = nodes.primaries().into_iter();
        let primaries: Vec<_> = primaries.map(|server| server.address.to_string()).collect();
        assert_eq!(primaries, ["a:1", "b:1"]);
    }
}
