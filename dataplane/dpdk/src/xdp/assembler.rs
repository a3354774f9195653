//! Assembler of eBPF instructions (RFC 9669), as far as the programs of this crate need them.

/// One encoded instruction.
pub(super) type Instruction = [u8; 8];

/// Register of the virtual machine.
#[derive(Clone, Copy)]
pub(super) struct Register(u8);

/// Result of calls and of the program.
pub(super) const R0: Register = Register(0);
/// Context of the program, and the first argument of calls, which overwrite R1 to R5.
pub(super) const R1: Register = Register(1);
pub(super) const R2: Register = Register(2);
pub(super) const R3: Register = Register(3);
pub(super) const R4: Register = Register(4);
pub(super) const R5: Register = Register(5);
/// Survives calls.
pub(super) const R6: Register = Register(6);

/// Size of a load, as the bits of its opcode.
#[derive(Clone, Copy)]
pub(super) enum Size {
    Byte = 0x10,
    Half = 0x08,
    Word = 0x00,
}

/// Place in a program that jumps go to.
#[derive(Clone, Copy)]
pub(super) struct Label(usize);

/// Opcodes.
mod op {
    pub(super) const LOAD: u8 = 0x61;
    pub(super) const LOAD_WIDE: u8 = 0x18;
    pub(super) const ADD_IMM: u8 = 0x07;
    pub(super) const AND_IMM: u8 = 0x57;
    pub(super) const MOVE: u8 = 0xbf;
    pub(super) const MOVE_IMM: u8 = 0xb7;
    pub(super) const JUMP: u8 = 0x05;
    pub(super) const JUMP_GREATER: u8 = 0x2d;
    pub(super) const JUMP_EQUAL_IMM: u8 = 0x15;
    pub(super) const JUMP_UNEQUAL_IMM: u8 = 0x55;
    pub(super) const JUMP_UNEQUAL_IMM_32: u8 = 0x56;
    pub(super) const CALL: u8 = 0x85;
    pub(super) const EXIT: u8 = 0x95;
}

/// Source register of a wide load whose value is the file descriptor of a map.
const MAP_FD: Register = Register(1);

/// Program in the making.
#[derive(Default)]
pub(super) struct Assembler {
    code: Vec<Instruction>,
    /// Jumps with their targets.
    jumps: Vec<(usize, Label)>,
    /// Positions of the labels.
    labels: Vec<Option<usize>>,
}

impl Assembler {
    /// Makes a label, which is to be placed once.
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places a label in front of the next instruction.
    pub(super) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// Loads `size` bytes at `base + offset`, zero-extended.
    pub(super) fn load(&mut self, to: Register, size: Size, base: Register, offset: i16) {
        self.emit(op::LOAD | size as u8, to, base, offset, 0);
    }

    /// Loads a map.
    pub(super) fn load_map(&mut self, to: Register, fd: i32) {
        self.emit(op::LOAD_WIDE, to, MAP_FD, 0, fd);
        self.code.push([0; 8]);
    }

    pub(super) fn set(&mut self, to: Register, value: i32) {
        self.emit(op::MOVE_IMM, to, R0, 0, value);
    }

    pub(super) fn copy(&mut self, to: Register, from: Register) {
        self.emit(op::MOVE, to, from, 0, 0);
    }

    pub(super) fn add_imm(&mut self, to: Register, value: i32) {
        self.emit(op::ADD_IMM, to, R0, 0, value);
    }

    pub(super) fn and_imm(&mut self, to: Register, value: i32) {
        self.emit(op::AND_IMM, to, R0, 0, value);
    }

    pub(super) fn jump(&mut self, target: Label) {
        self.branch(op::JUMP, R0, R0, 0, target);
    }

    pub(super) fn jump_if_greater(&mut self, a: Register, b: Register, target: Label) {
        self.branch(op::JUMP_GREATER, a, b, 0, target);
    }

    pub(super) fn jump_if_equal_imm(&mut self, a: Register, value: i32, target: Label) {
        self.branch(op::JUMP_EQUAL_IMM, a, R0, value, target);
    }

    pub(super) fn jump_unless_equal_imm(&mut self, a: Register, value: i32, target: Label) {
        self.branch(op::JUMP_UNEQUAL_IMM, a, R0, value, target);
    }

    /// Compares the low 32 bits.
    pub(super) fn jump_unless_equal_word(&mut self, a: Register, value: u32, target: Label) {
        let value = value.cast_signed();
        self.branch(op::JUMP_UNEQUAL_IMM_32, a, R0, value, target);
    }

    /// Calls a function of the kernel by its number.
    pub(super) fn call(&mut self, function: i32) {
        self.emit(op::CALL, R0, R0, 0, function);
    }

    pub(super) fn exit(&mut self) {
        self.emit(op::EXIT, R0, R0, 0, 0);
    }

    /// Returns the program; `None` if a jump is too far.
    pub(super) fn finish(mut self) -> Option<Vec<Instruction>> {
        for (at, label) in self.jumps {
            let target = self.labels[label.0]?;
            // Counted from the instruction behind the jump.
            let distance = i16::try_from(target.checked_signed_diff(at + 1)?).ok()?;
            self.code[at][2..4].copy_from_slice(&distance.to_ne_bytes());
        }
        Some(self.code)
    }

    fn branch(&mut self, op: u8, a: Register, b: Register, value: i32, target: Label) {
        self.jumps.push((self.code.len(), target));
        self.emit(op, a, b, 0, value);
    }

    fn emit(&mut self, op: u8, to: Register, from: Register, offset: i16, value: i32) {
        let registers =
            if cfg!(target_endian = "big") { to.0 << 4 | from.0 } else { from.0 << 4 | to.0 };
        let [o0, o1] = offset.to_ne_bytes();
        let [v0, v1, v2, v3] = value.to_ne_bytes();
        self.code.push([op, registers, o0, o1, v0, v1, v2, v3]);
    }
}
