//! Shares: the part of a push's limits that each server of the store uses.

use std::sync::{Mutex, PoisonError};

use crate::queue::Queue;

/// Position of this server among the running servers of its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Index of this server in the order of their ids.
    pub index: usize,
    /// Number of servers.
    pub servers: usize,
}

impl Place {
    /// Returns this server's part of a number that all servers share.
    pub fn part_of(self, total: usize) -> usize {
        total / self.servers + usize::from(self.index < total % self.servers)
    }

    /// Returns whether this server may probe a failing target in this second. The servers take
    /// turns, so that all of them together probe once a second.
    pub fn has_turn(self, second: u64) -> bool {
        second % self.servers as u64 == self.index as u64
    }
}

/// Last known place of this server.
#[derive(Default)]
pub struct Places {
    last: Mutex<Option<Place>>,
}

impl Places {
    /// Returns the place of this server now, or the last known one if the store cannot report it.
    /// `None` if it was never known, since any share could be too large.
    pub fn current(&self, queue: &Queue) -> Option<Place> {
        let place = match queue.servers() {
            None => Some(Place { index: 0, servers: 1 }),
            Some(servers) => servers
                .map(|servers| Place { index: servers.own, servers: servers.ids.len().max(1) }),
        };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = place.or(*last);
        *last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_all_servers_are_the_whole() {
        for servers in 1..6 {
            for total in [0, 1, 2, 5, 16, 1000] {
                let places = (0..servers).map(|index| Place { index, servers });
                let parts: Vec<usize> = places.map(|place| place.part_of(total)).collect();
                assert_eq!(parts.iter().sum::<usize>(), total);
                assert!(parts.iter().max().unwrap_or(&0) - parts.iter().min().unwrap_or(&0) <= 1);
            }
        }
    }

    #[test]
    fn one_server_has_the_turn_in_each_second() {
        let has_turn = |second, index| Place { index, servers: 3 }.has_turn(second);
        for second in 0..7 {
            assert_eq!((0..3).filter(|index| has_turn(second, *index)).count(), 1);
        }
    }
}
