//! The work that programs submit.

use std::collections::BTreeMap;

use super::cast::View;
use super::player::Player;
use crate::features::Features;
use crate::prediction::Content;
use crate::scenario::steps::{Bound, CreateFence, HostileList, Kernel, KernelEngine, Render, RenderCommand};

/// The number of pages of one allocation that a kernel reads or writes at most.
const MOST_PAGES: u64 = 1 << 12;

impl Player<'_, '_> {
    /// Submits work that uses allocations of the device's list, or by mistake others.
    pub fn work(&mut self, device: usize) {
        if self.world.scenario.adapter.is_physical() { self.render(device) } else { self.submit(device) }
    }

    fn submit(&mut self, device: usize) {
        let careless = self.misuses();
        let usable = match careless {
            true => self.cast.usable_by(device),
            false => self.cast.required_by(device),
        };
        let used = self.dice.some(&usable, 4);
        let (mut reads, mut writes, mut allocations) = (Vec::new(), Vec::new(), Vec::new());
        for chosen in used {
            let known = &self.cast.allocations[chosen];
            let views: Vec<&View> = known.views.iter().filter(|view| view.device == device).collect();
            let Some(view) = self.dice.pick(&views).filter(|_| known.pages <= MOST_PAGES) else { continue };
            let (name, may_write, allocation) = (view.name.clone(), careless || !view.is_read_only, known.name.clone());
            let num_writes = writes.len();
            match self.dice.below(3) {
                0 if may_write => writes.push(name),
                1 if may_write => {
                    reads.push(name.clone());
                    writes.push(name);
                }
                _ => reads.push(name),
            }
            if writes.len() > num_writes {
                let known = &mut self.cast.allocations[chosen];
                known.writers.insert(device);
                known.is_written_at_any_time |= careless;
            }
            if self.dice.chance(10) {
                allocations.push(allocation);
            }
        }
        if reads.is_empty() && writes.is_empty() {
            return self.make_resident(device);
        }
        let kernel = Kernel {
            reads,
            writes,
            content: self.draw_content(),
            nanoseconds: self.draw_kernel_time(),
            hangs: careless && self.dice.chance(20),
            engine: self.draw_engine(),
            allocations,
            device: Some(self.cast.devices[device].name.clone()),
            ..Kernel::new(self.cast.name("k"))
        };
        let kernel = Kernel { after: self.draw_fence(), ..kernel };
        let may_be_illegal = careless && self.has(Features::ILLEGAL_COMMANDS);
        let kernel = Kernel { illegal: may_be_illegal && self.dice.chance(10), ..kernel };
        self.call(kernel);
    }

    fn render(&mut self, device: usize) {
        let usable = match self.cast.devices[device].has_list && !self.misuses() {
            true => self.cast.required_by(device),
            false => self.cast.usable_by(device),
        };
        if usable.is_empty() {
            return if self.cast.usable_by(device).is_empty() { self.create(device) } else { self.change_list(device) };
        }
        let num_kernels = 1 + self.dice.below(6);
        let (mut commands, mut bound, mut held) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        for _ in 0..num_kernels {
            if self.dice.chance(70) {
                commands.push(RenderCommand::Split);
                bound.clear();
            }
            let ranges = self.draw_ranges(&usable, &mut commands, &mut bound);
            // Which of them it writes is drawn below.
            for &chosen in bound.values() {
                let known = &mut self.cast.allocations[chosen];
                known.writers.insert(device);
                known.is_written_at_any_time |= !known.is_listed_by(device);
            }
            held.extend(bound.clone());
            let writes = self.dice.below(ranges.len() + 1);
            let (writes, reads) = ranges.split_at(writes);
            commands.push(RenderCommand::Kernel { reads: reads.to_vec(), writes: writes.to_vec() });
            if let Some(&slot) = held.keys().next().filter(|_| self.dice.chance(15)) {
                commands.push(RenderCommand::Split);
                commands.push(RenderCommand::Unbind(slot));
                held.remove(&slot);
                bound.clear();
            }
        }
        let hostile = self.misuses().then(|| {
            let lists = [
                HostileList::DecreasingSplitOffsets,
                HostileList::SplitOffsetBeyondTheEnd,
                HostileList::AddressWithoutPatchLocation,
            ];
            self.dice.pick(&lists)
        });
        let render = Render {
            name: self.cast.name("r"),
            commands,
            content: self.draw_content(),
            nanoseconds: self.draw_kernel_time(),
            engine: self.draw_engine(),
            after: self.draw_fence(),
            device: Some(self.cast.devices[device].name.clone()),
            hostile: hostile.flatten(),
        };
        self.call(render);
    }

    /// The ranges that a kernel uses, each through a slot that holds nothing else since the last split point.
    fn draw_ranges(
        &mut self,
        usable: &[usize],
        commands: &mut Vec<RenderCommand>,
        bound: &mut BTreeMap<u32, usize>,
    ) -> Vec<Bound> {
        let slots = self.world.scenario.adapter.slots;
        let used = self.dice.some(usable, 3.min(slots as usize));
        let draw = |player: &mut Self| player.dice.below(slots as usize) as u32;
        let mut taken = BTreeMap::new();
        for chosen in used {
            let mut slot = draw(self);
            while taken.contains_key(&slot) {
                slot = (slot + 1) % slots;
            }
            taken.insert(slot, chosen);
        }
        if taken.iter().any(|(slot, chosen)| bound.get(slot).is_some_and(|held| held != chosen)) {
            commands.push(RenderCommand::Split);
            bound.clear();
        }
        bound.extend(taken.clone());
        let range = |(slot, chosen): (u32, usize)| {
            let known = &self.cast.allocations[chosen];
            let pages = (known.pages > 1 && self.dice.chance(30)).then(|| {
                let first = self.dice.within(0, known.pages - 1);
                (first, self.dice.within(first + 1, known.pages.min(first + MOST_PAGES)))
            });
            Bound { allocation: known.name.clone(), slot, pages }
        };
        taken.into_iter().map(range).collect()
    }

    fn draw_kernel_time(&mut self) -> u64 {
        let (shortest, longest) = self.world.habits.kernel;
        self.dice.log_within(shortest, longest)
    }

    fn draw_content(&mut self) -> Content {
        if self.dice.chance(50) { Content::Ramp } else { Content::Uniform }
    }

    pub fn draw_engine(&mut self) -> KernelEngine {
        let copies = self.has(Features::COPY_ENGINE) && !self.dice.chance(70);
        if copies { KernelEngine::Copy } else { KernelEngine::Render }
    }

    /// Now and then makes work wait for a person.
    fn draw_fence(&mut self) -> Vec<String> {
        if !self.dice.chance(self.world.habits.blocks) {
            return Vec::new();
        }
        let name = self.cast.name("f");
        if !self.call(CreateFence { fence: name.clone() }).is_done() {
            return Vec::new();
        }
        self.cast.fences.push(name.clone());
        vec![name]
    }
}
