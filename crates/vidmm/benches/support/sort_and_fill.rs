//! The denominator of budgets: the sharing of a pool computed anew from all processes, as a manager does that keeps nothing.
//!
//! Processes are sorted by the level that satisfies them; the pool is filled from the lowest on, until the rest shares what is
//! left. Everybody's budget is then its reservation and its weight's part of the level.

/// A process: weight, reservation and demand.
#[derive(Clone, Copy)]
pub struct Share {
    pub weight: f64,
    pub reservation: f64,
    pub demand: f64,
}

/// The budgets of all; `order` and `budgets` are room that is used again.
pub fn sort_and_fill(capacity: f64, shares: &[Share], order: &mut Vec<(f64, u32)>, budgets: &mut Vec<f64>) {
    order.clear();
    let satisfied_at = |share: &Share| ((share.demand - share.reservation) / share.weight).max(0.0);
    order.extend(shares.iter().zip(0..).map(|(share, process)| (satisfied_at(share), process)));
    order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));

    let covered: f64 = shares.iter().map(|share| share.demand.min(share.reservation)).sum();
    let mut weight: f64 = shares.iter().map(|share| share.weight).sum();
    let (mut left, mut level) = (capacity - covered, f64::INFINITY);
    for &(satisfied_at, process) in &*order {
        if satisfied_at * weight > left {
            level = left / weight;
            break;
        }
        let share = &shares[process as usize];
        left -= satisfied_at * share.weight;
        weight -= share.weight;
    }
    budgets.clear();
    budgets.extend(shares.iter().map(|share| (share.reservation + share.weight * level).min(capacity)));
}
