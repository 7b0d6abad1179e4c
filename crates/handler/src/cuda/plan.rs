//! Which functions act for their actor, which become part of their callers, and whether the device's stack holds the calls.

use std::collections::BTreeSet;

use super::facts::Facts;

/// The most operators of a module.
const OPERATORS: u32 = 20_000;
/// The most bytes of stack that calls may need, by an estimate from above: each thread of a GPU has as much.
const STACK: u32 = 8 << 10;
/// A function of this many operators or less, with those of its callees that are part of it, becomes part of its callers.
const SMALL: u32 = 40;
/// The same of a function that is called from one place.
const CALLED_ONCE: u32 = 1_000;
/// What a call counts that stays one, and a call of an import.
const CALL: u32 = 5;
const IMPORT: u32 = 30;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    Open,
    Done,
}

pub(super) struct Plan {
    /// Functions that call imports, directly or not.
    acts: Vec<bool>,
    /// Functions that stay calls.
    calls: BTreeSet<String>,
}

impl Plan {
    pub(super) fn acts(&self, function: u32) -> bool {
        self.acts[function as usize]
    }
    /// Whether a function of a table with this type acts.
    pub(super) fn element_acts(&self, facts: &Facts<'_>, table: u32, ty: u32) -> bool {
        let mut candidates = facts.candidates(table, ty).into_iter();
        candidates.any(|f| self.acts(f))
    }
    /// How a function is declared.
    pub(super) fn how(&self, name: &str) -> &'static str {
        match self.calls.contains(name) {
            true => "EW_CALL",
            false => "EW_FN",
        }
    }

    pub(super) fn new(facts: &Facts<'_>) -> Result<Self, String> {
        let operators: u64 = facts.does.iter().map(|d| u64::from(d.operators)).sum();
        if operators > OPERATORS.into() {
            return Err(format!(
                "its code has {operators} instructions, and the limit there is {OPERATORS}"
            ));
        }
        let mut walk = Walk {
            facts,
            marks: vec![Mark::New; facts.functions.len()],
            order: Vec::new(),
        };
        for function in 0..facts.functions.len() as u32 {
            walk.visit(function)?;
        }
        let order = walk.order;
        let mut sites = vec![0_u32; facts.functions.len()];
        for function in facts.exports.values() {
            sites[*function as usize] += 1;
        }
        for does in &facts.does {
            for function in callees(facts, does) {
                sites[function as usize] += 1;
            }
        }
        let mut plan = Self {
            acts: vec![false; facts.functions.len()],
            calls: BTreeSet::new(),
        };
        let mut sizes = vec![IMPORT; facts.functions.len()];
        let mut stacks = vec![0; facts.functions.len()];
        for function in order {
            let at = function as usize;
            let Some(does) = facts.does(function) else {
                plan.acts[at] = true;
                continue;
            };
            let all = callees(facts, does);
            plan.acts[at] = all.iter().any(|&f| plan.acts[f as usize]);
            let size = |f: &u32| sizes[*f as usize];
            let size = does.operators.saturating_add(all.iter().map(size).sum());
            let most = match sites[at] {
                0 | 1 => CALLED_ONCE,
                _ => SMALL,
            };
            if size <= most {
                sizes[at] = size;
            } else {
                plan.calls.insert(format!("f{function}"));
                sizes[at] = CALL;
            }
            let deepest = all.iter().map(|&f| stacks[f as usize]).max().unwrap_or(0);
            stacks[at] = deepest + frame(facts, function)?;
            if stacks[at] > STACK {
                return Err(format!(
                    "its calls may need {} bytes of stack, and the limit there is {STACK}",
                    stacks[at]
                ));
            }
        }
        // Many functions may be behind an indirect call, so it stays one.
        for (table, ty) in elements(facts) {
            plan.calls.insert(format!("t{table}_{ty}"));
        }
        Ok(plan)
    }
}

/// The tables and types of indirect calls.
pub(super) fn elements(facts: &Facts<'_>) -> BTreeSet<(u32, u32)> {
    facts.does.iter().flat_map(|d| d.indirect.clone()).collect()
}

/// All functions that calls of a function may reach at once, as often as it calls them.
fn callees(facts: &Facts<'_>, does: &super::facts::Does) -> Vec<u32> {
    let mut all = does.calls.clone();
    for &(table, ty) in &does.indirect {
        all.extend(facts.candidates(table, ty));
    }
    all
}

/// The most bytes of stack that a function needs for its own variables.
fn frame(facts: &Facts<'_>, function: u32) -> Result<u32, String> {
    let Some(at) = function.checked_sub(facts.imported) else {
        return Ok(0);
    };
    let mut locals = facts.shape(function)?.params.len() as u32;
    let body = &facts.bodies[at as usize];
    for local in body.get_locals_reader().map_err(|e| e.to_string())? {
        locals = locals.saturating_add(local.map_err(|e| e.to_string())?.0);
    }
    // Places of the stack that live across a call are few; an operator adds one at most.
    let places = facts.does[at as usize].operators.min(32);
    Ok(locals
        .saturating_add(places)
        .saturating_mul(8)
        .min(STACK + 1)
        + 32)
}

/// Visits functions so that callees come before their callers.
struct Walk<'f, 'm> {
    facts: &'f Facts<'m>,
    marks: Vec<Mark>,
    order: Vec<u32>,
}

impl Walk<'_, '_> {
    fn visit(&mut self, first: u32) -> Result<(), String> {
        // Not by recursion: chains of calls may be as long as the module.
        let mut open: Vec<(u32, Vec<u32>)> = Vec::new();
        let mut next = Some(first);
        loop {
            if let Some(function) = next.take() {
                match self.marks[function as usize] {
                    Mark::Done => {}
                    Mark::Open => {
                        let names: Vec<_> = open
                            .iter()
                            .map(|(f, _)| *f)
                            .skip_while(|f| *f != function)
                            .chain([function])
                            .map(|f| self.name(f))
                            .collect();
                        return Err(format!(
                            "its functions call each other in a circle: {}",
                            names.join(" > ")
                        ));
                    }
                    Mark::New => {
                        self.marks[function as usize] = Mark::Open;
                        let does = self.facts.does(function);
                        let mut all = does.map_or(Vec::new(), |d| callees(self.facts, d));
                        all.sort_unstable();
                        all.dedup();
                        open.push((function, all));
                    }
                }
            }
            let Some((function, rest)) = open.last_mut() else {
                return Ok(());
            };
            next = rest.pop();
            if next.is_none() {
                self.marks[*function as usize] = Mark::Done;
                self.order.push(*function);
                open.pop();
            }
        }
    }
    fn name(&self, function: u32) -> String {
        let name = self.facts.name(function);
        name.map_or_else(
            || format!("function {function}"),
            |name| format!("`{name}`"),
        )
    }
}
