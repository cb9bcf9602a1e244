package hardware

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// naive is a memory that knows of each byte whom it belongs to.
type naive []int

// fits reports whether there are n bytes in a row, from a multiple of sramAlign on, that
// belong to nobody.
func (m naive) fits(n int) bool {
	for at := 0; at+n <= len(m); at += sramAlign {
		free := 0
		for free < n && m[at+free] == 0 {
			free++
		}
		if free == n {
			return true
		}
	}
	return false
}

func (m naive) set(b Block, owner int) {
	for i := range b.Data {
		m[b.Offset+i] = owner
	}
}

// TestAllocator compares the allocator with one that knows of each byte whom it belongs
// to: it gives out what is free and nothing else, refuses only what does not fit, and
// leaks nothing.
func TestAllocator(t *testing.T) {
	seeds.Each(t, 100, func(seed uint64) error {
		rng := rand.New(rand.NewPCG(seed, 1))
		size := 1 + rng.IntN(2000)
		s, model := SRAM{mem: make([]byte, size)}, make(naive, size)
		blocks := map[int]Block{}
		for id := 1; id <= 300; id++ {
			if rng.IntN(3) == 0 {
				for victim, b := range blocks { // whichever: the model forgives any order
					s.Free(b)
					model.set(b, 0)
					delete(blocks, victim)
					break
				}
				continue
			}
			n := 1 + rng.IntN(1+size/4)
			b, err := s.Alloc(fmt.Sprint("block ", id), n)
			if (err == nil) != model.fits(n) {
				return fmt.Errorf("%d of %d bytes, of which %d are given out: %v; want it to fit: %v", n, size, s.Used(), err, model.fits(n))
			}
			if err != nil {
				if !errors.Is(err, ErrSRAM) {
					return fmt.Errorf("%v is no ErrSRAM", err)
				}
				continue
			}
			for i, v := range b.Data {
				if v != 0 || model[b.Offset+i] != 0 {
					return fmt.Errorf("byte %d of block %d belongs to %d and holds %d", i, id, model[b.Offset+i], v)
				}
				b.Data[i] = 0xaa
			}
			if len(b.Data) != n || cap(b.Data) != n {
				return fmt.Errorf("%d bytes were asked for, %d given, the slice could grow to %d", n, len(b.Data), cap(b.Data))
			}
			model.set(b, id)
			blocks[id] = b
		}
		for _, b := range blocks {
			s.Free(b)
		}
		if s.Used() != 0 || len(s.Blocks()) != 0 {
			return fmt.Errorf("%d bytes are still given out when all were freed", s.Used())
		}
		_, err := s.Alloc("all", size)
		return err
	})
}

// TestAllocatorRefuses: errors name who has the memory and what to do; who frees what is
// not in use has made a mistake.
func TestAllocatorRefuses(t *testing.T) {
	s := SRAM{mem: make([]byte, 1000)}
	if _, err := s.Alloc("nothing", 0); err == nil {
		t.Error("0 bytes were given out")
	}
	a, err := s.Alloc("queue", 500)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{501, 1 << 62} {
		_, err := s.Alloc("table", n)
		if !errors.Is(err, ErrSRAM) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		for _, want := range []string{"table needs", "496 of 1000 are free", "queue has 504", "CardConfig.SRAM"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		}
	}
	s.Free(a)
	defer func() {
		if recover() == nil {
			t.Error("a block was freed twice")
		}
	}()
	s.Free(a)
}
