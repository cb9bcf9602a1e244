package hardware

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrSRAM is what errors wrap that say that a card's memory does not suffice.
var ErrSRAM = errors.New("myrinet: not enough SRAM")

// DefaultSRAM is the memory of the papers' cards, in octets.
const DefaultSRAM = 256 << 10

// SRAM is the memory of a card. All that its control program needs is in it: queues,
// tables, buffers. Each piece belongs to one purpose, and no more is given out than there
// is.
type SRAM struct {
	mem    []byte
	blocks []Block // that are in use, by where they lie
}

// Block is a piece of a card's memory.
type Block struct {
	Purpose string
	Offset  int
	Data    []byte // of the length that was asked for
	size    int    // that it takes
}

const sramAlign = 8

// Alloc gives out n octets, which hold 0. Its error wraps ErrSRAM and says who has the
// memory.
func (s *SRAM) Alloc(purpose string, n int) (Block, error) {
	if n <= 0 {
		return Block{}, fmt.Errorf("myrinet: %d octets of SRAM for %s: ask for 1 at least", n, purpose)
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

// Free takes a block back. One that is not in use is a mistake of the caller's, and
// panics.
func (s *SRAM) Free(b Block) {
	i := slices.IndexFunc(s.blocks, func(c Block) bool { return c.Offset == b.Offset && c.size == b.size && c.Purpose == b.Purpose })
	if i < 0 {
		panic(fmt.Sprintf("myrinet: SRAM at %d, for %s, is freed and not in use", b.Offset, b.Purpose))
	}
	s.blocks = slices.Delete(s.blocks, i, i+1)
}

// Size returns the size of the memory, in octets.
func (s *SRAM) Size() int { return len(s.mem) }

// Used returns how much of the memory is given out, in octets.
func (s *SRAM) Used() int {
	n := 0
	for _, b := range s.blocks {
		n += b.size
	}
	return n
}

// Blocks returns what is given out, by where it lies.
func (s *SRAM) Blocks() []Block { return slices.Clone(s.blocks) }

// holders says who has the memory, for people.
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
