package hardware

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrSRAM means that a card's memory does not suffice.
var ErrSRAM = errors.New("myrinet: not enough SRAM")

// DefaultSRAM is the memory size of the papers' cards, in bytes.
const DefaultSRAM = 256 << 10

// SRAM is the memory of a card. It holds everything that the control program needs: queues, tables,
// buffers. Each block has a purpose, and allocations cannot exceed the size.
type SRAM struct {
	mem    []byte
	blocks []Block // in use, in the order of addresses
}

// Block is a piece of a card's memory.
type Block struct {
	Purpose string
	Offset  int
	Data    []byte // of the requested length
	size    int    // with padding
}

const sramAlign = 8

// Alloc allocates n zeroed bytes. The error wraps ErrSRAM and lists the users of the memory.
func (s *SRAM) Alloc(purpose string, n int) (Block, error) {
	if n <= 0 {
		return Block{}, fmt.Errorf("myrinet: %d bytes of SRAM for %s: want at least 1", n, purpose)
	}
	at, i := 0, 0
	for ; i < len(s.blocks) && n > s.blocks[i].Offset-at; i++ {
		at = s.blocks[i].Offset + s.blocks[i].size
	}
	if n > len(s.mem)-at {
		return Block{}, fmt.Errorf("%w: %s needs %d bytes, %d of %d are free: %s; ask for fewer or give the card more (CardConfig.SRAM)",
			ErrSRAM, purpose, n, len(s.mem)-s.Used(), len(s.mem), s.holders())
	}
	size := min((n+sramAlign-1)&^(sramAlign-1), len(s.mem)-at)
	b := Block{Purpose: purpose, Offset: at, Data: s.mem[at : at+n : at+n], size: size}
	clear(b.Data)
	s.blocks = slices.Insert(s.blocks, i, b)
	return b, nil
}

// Free frees a block. It panics if the block is not in use, which is a bug of the caller.
func (s *SRAM) Free(b Block) {
	i := slices.IndexFunc(s.blocks, func(c Block) bool { return c.Offset == b.Offset && c.size == b.size && c.Purpose == b.Purpose })
	if i < 0 {
		panic(fmt.Sprintf("myrinet: SRAM at %d, for %s, is freed, but not in use", b.Offset, b.Purpose))
	}
	s.blocks = slices.Delete(s.blocks, i, i+1)
}

// Size returns the size of the memory, in bytes.
func (s *SRAM) Size() int { return len(s.mem) }

// Used returns how many bytes are allocated.
func (s *SRAM) Used() int {
	n := 0
	for _, b := range s.blocks {
		n += b.size
	}
	return n
}

// Blocks returns the allocated blocks in the order of addresses.
func (s *SRAM) Blocks() []Block { return slices.Clone(s.blocks) }

// holders lists the users of the memory for an error message.
func (s *SRAM) holders() string {
	if len(s.blocks) == 0 {
		return "nobody has any"
	}
	sums := map[string]int{}
	for _, b := range s.blocks {
		sums[b.Purpose] += b.size
	}
	names := make([]string, 0, len(sums))
	for name := range sums {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = fmt.Sprintf("%s has %d", name, sums[name])
	}
	return strings.Join(names, ", ")
}
