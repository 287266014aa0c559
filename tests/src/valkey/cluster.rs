//! A cluster: three primaries, and a replica of the first.

use idempotency_lambda::BoxError;

use super::server::{BUS, Server, reaches};

/// The number of slots of a cluster.
const SLOTS: usize = 16_384;

/// A cluster of four servers. It replaces a primary that has died within seconds.
pub struct Cluster {
    /// The primaries, then the replica of the first.
    pub servers: Vec<Server>,
}

impl Cluster {
    /// Starts the servers, and joins them.
    ///
    /// # Errors
    ///
    /// If they do not form a cluster after half a minute.
    pub fn start() -> Result<Self, BoxError> {
        let mut servers = Vec::new();
        for _ in 0..4 {
            let server = Server::start(&[
                "--cluster-enabled",
                "yes",
                "--cluster-node-timeout",
                "500",
                "--repl-diskless-sync-delay",
                "0",
            ])?;
            servers.push(server);
        }
        let cluster = Self { servers };
        cluster.join()?;
        Ok(cluster)
    }

    fn join(&self) -> Result<(), BoxError> {
        let (primaries, replica) = (&self.servers[..3], &self.servers[3]);
        for (number, primary) in primaries.iter().enumerate() {
            let slots = SLOTS * number / 3..SLOTS * (number + 1) / 3;
            let slots: Vec<_> = slots.map(|slot| slot.to_string()).collect();
            let mut words = vec!["CLUSTER", "ADDSLOTS"];
            words.extend(slots.iter().map(String::as_str));
            primary.ask(&words);
            let epoch = (number + 1).to_string();
            primary.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]);
        }
        for server in &self.servers[1..] {
            let (port, bus) = (server.port(), server.port() + BUS);
            let (port, bus) = (port.to_string(), bus.to_string());
            self.servers[0].ask(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        let knows_all = |server: &Server| {
            let info = server.ask(&["CLUSTER", "INFO"]).text();
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:4")
        };
        if !reaches(|| self.servers.iter().all(knows_all)) {
            return Err("the servers do not form a cluster".into());
        }
        let id = primaries[0].ask(&["CLUSTER", "MYID"]).text();
        let follows =
            |replica: &Server| replica.info("master_link_status").as_deref() == Some("up");
        replica.ask(&["CLUSTER", "REPLICATE", &id]);
        if !reaches(|| follows(replica)) {
            let state = replica.ask(&["INFO", "replication"]).text();
            return Err(format!("the replica does not follow its primary:\n{state}").into());
        }
        // A primary that does not know of its replica yet has none to be replaced by.
        let known = |server: &Server| server.ask(&["CLUSTER", "NODES"]).text().contains("slave");
        if !reaches(|| self.servers.iter().all(known)) {
            return Err("the primaries do not know the replica".into());
        }
        Ok(())
    }

    /// Waits until the replica has all that its primary has. `WAIT` waits for the writes of its own connection alone.
    ///
    /// # Errors
    ///
    /// If it does not have it after half a minute.
    pub fn replicated(&self) -> Result<(), BoxError> {
        let offset = |server: &Server, name| server.info(name)?.parse::<u64>().ok();
        let all = offset(&self.servers[0], "master_repl_offset");
        let all = all.ok_or("the primary has no offset")?;
        let has_all = || offset(&self.servers[3], "slave_repl_offset").is_some_and(|it| it >= all);
        if reaches(has_all) {
            return Ok(());
        }
        Err("the replica does not have what its primary has".into())
    }

    /// Kills the first primary, and waits until its replica has its slots.
    ///
    /// # Errors
    ///
    /// If it does not have them after half a minute.
    pub fn fail_over(&mut self) -> Result<(), BoxError> {
        self.servers[0].kill()?;
        self.replaced()
    }

    /// Waits until the replica has the slots of the first primary.
    ///
    /// # Errors
    ///
    /// If it does not have them after half a minute.
    pub fn replaced(&self) -> Result<(), BoxError> {
        self.servers[3].until("role", "master")?;
        let is_whole = |server: &Server| {
            let info = server.ask(&["CLUSTER", "INFO"]).text();
            info.contains("cluster_state:ok")
        };
        if reaches(|| self.servers[1..].iter().all(is_whole)) {
            return Ok(());
        }
        Err("the cluster serves no slot after the failover".into())
    }
}
