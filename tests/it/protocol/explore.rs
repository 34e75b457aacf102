//! Breadth-first search of all reachable states, which finds the shortest way to a broken promise.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
};

use super::world::{Rules, Step, World};

/// Shortest way to a broken promise.
pub struct Broken {
    pub promise: String,
    way: Vec<Step>,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, after {:?}", self.promise, self.way)
    }
}

/// Explores all states that these rules allow, until a promise is broken. Returns their number.
pub fn explore(rules: &Rules) -> Result<usize, Broken> {
    let start = World::default();
    // For each state its predecessor, and the step in between.
    let mut known: HashMap<World, Option<(World, Step)>> = HashMap::from([(start.clone(), None)]);
    let mut open = VecDeque::from([start]);
    while let Some(world) = open.pop_front() {
        if let Err(promise) = world.settles(rules) {
            return Err(broken(promise, &known, &world, None));
        }
        for (step, outcome) in world.steps(rules) {
            match outcome {
                Err(promise) => return Err(broken(promise, &known, &world, Some(step))),
                Ok(next) if known.contains_key(&next) => {}
                Ok(next) => {
                    known.insert(next.clone(), Some((world.clone(), step)));
                    open.push_back(next);
                }
            }
        }
    }
    Ok(known.len())
}

fn broken(
    promise: String,
    known: &HashMap<World, Option<(World, Step)>>,
    world: &World,
    last: Option<Step>,
) -> Broken {
    let mut way: Vec<Step> = last.into_iter().collect();
    let mut at = world;
    while let Some(Some((before, step))) = known.get(at) {
        way.push(*step);
        at = before;
    }
    way.reverse();
    Broken { promise, way }
}
