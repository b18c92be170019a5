//! Assembling BPF programs from single instructions.

use crate::bpf::Instruction;

/// A program in the making: instructions, and jumps to places that come later.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    instructions: Vec<Instruction>,
    /// Jumps, and the labels that they go to.
    jumps: Vec<(usize, &'static str)>,
    labels: Vec<(&'static str, usize)>,
}

impl Assembler {
    pub(crate) fn put(&mut self, all: &[Instruction]) -> &mut Self {
        self.instructions.extend(all);
        self
    }

    /// A conditional or unconditional jump.
    pub(crate) fn jump(&mut self, operation: u8, register: u8, value: i32, to: &'static str) -> &mut Self {
        self.jumps.push((self.instructions.len(), to));
        self.put(&[(operation, register, 0, value)])
    }

    /// The place after what was put so far.
    pub(crate) fn label(&mut self, name: &'static str) -> &mut Self {
        self.labels.push((name, self.instructions.len()));
        self
    }

    /// The program. A jump to a label that is not there stays a jump to the next instruction.
    pub(crate) fn finish(mut self) -> Vec<Instruction> {
        for (at, to) in self.jumps {
            let place = self.labels.iter().find(|(name, _)| *name == to).map_or(at + 1, |(_, place)| *place);
            self.instructions[at].2 = (place as isize - at as isize - 1) as i16;
        }
        self.instructions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_go_to_their_labels() {
        let mut program = Assembler::default();
        program.jump(5, 0, 0, "end").put(&[(0xb7, 0, 0, 1)]).label("end").put(&[(0x95, 0, 0, 0)]);
        assert_eq!(program.finish(), [(5, 0, 1, 0), (0xb7, 0, 0, 1), (0x95, 0, 0, 0)]);
    }
}
